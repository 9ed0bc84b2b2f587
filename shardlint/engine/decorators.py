"""Decorators of the project: which of them leave a function as it is."""

from __future__ import annotations

from shardlint import ir
from shardlint.walking import nodes_of, walk


def passes_on(node: ir.Function | ir.Lambda) -> bool:
    """Whether a wrapper only calls what it wraps, with all that it is given, and returns what that returns."""
    if isinstance(node, ir.Lambda) or node.is_generator or node.is_async:
        return False
    kinds = {param.kind: param.name for param in node.params}
    if kinds.keys() != {"*", "**"} or len(node.params) != 2:
        return False
    calls = [
        n for n in nodes_of(node.body, ir.Call) if _forwards(n, kinds["*"], kinds["**"])
    ]
    if len(calls) != 1 or not isinstance(calls[0].func, ir.Name):
        return False
    held = {
        target.id
        for n in nodes_of(node.body, ir.Assign)
        if n.value is calls[0]
        for target in n.targets
        if isinstance(target, ir.Name)
    }
    assigned = [
        target.id
        for n in nodes_of(node.body, ir.Assign)
        for target in n.targets
        if isinstance(target, ir.Name) and target.id in {*held, kinds["*"], kinds["**"]}
    ]
    returns = list(nodes_of(node.body, ir.Return))
    return (
        bool(returns)
        and len(assigned) == len(held)
        and all(
            r.value is calls[0] or (isinstance(r.value, ir.Name) and r.value.id in held)
            for r in returns
        )
    )


def _forwards(call: ir.Call, star: str, stars: str) -> bool:
    wanted = [("*", star), ("**", stars)]
    return [
        (a.star, a.value.id if isinstance(a.value, ir.Name) else "") for a in call.args
    ] == wanted


_COPYING = frozenset({"wraps", "update_wrapper"})
_CHECKING = frozenset({"typechecked", "jaxtyped", "beartype"})


def keeps_signature(node: ir.Function) -> str | None:
    """Whether what a decorator returns shows the signature of what it wraps: ``hidden`` where it certainly does not,
    ``wraps`` where ``functools.wraps`` or ``update_wrapper`` tell of it, None where it is not known."""
    found = _returned(node)
    if (
        found is None
        or any(p.annotation is not None for p in found.params)
        or found.returns is not None
    ):
        return None  # a signature of its own is as good
    inside = {
        n.id if isinstance(n, ir.Name) else n.name
        for n in walk(node.body)
        if isinstance(n, (ir.Name, ir.Attr))
    }
    if inside & _CHECKING or any(name.startswith("__") for name in inside):
        return None
    if not inside & _COPYING:
        return None if found.decorators else "hidden"
    return "wraps" if len(found.decorators) < 2 else None


def _returned(node: ir.Function) -> ir.Function | None:
    """The function that a decorator defines and returns, if nothing else is made of it in between."""
    returned = [n.value for n in node.body if isinstance(n, ir.Return)]
    if (
        len(returned) != 1
        or not isinstance(returned[0], ir.Name)
        or len(node.params) != 1
    ):
        return None
    name = returned[0].id
    assigned = (n.targets for n in nodes_of(node.body, ir.Assign))
    if any(
        isinstance(target, ir.Name) and target.id == name
        for targets in assigned
        for target in targets
    ):
        return None
    return next(
        (n for n in node.body if isinstance(n, ir.Function) and n.name == name), None
    )
