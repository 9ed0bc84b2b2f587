"""Classes that a program registers as nodes of trees, and which of their fields are parts of the tree.

Only the plain way is understood: ``tree_flatten`` gives a tuple of fields, and ``tree_unflatten`` hands them to the
constructor, which keeps them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint import ir
from shardlint.outline import last_name

_CALLS = frozenset(
    {"register_pytree_node", "register_pytree_with_keys", "register_dataclass"}
)
_CLASS_DECORATORS = frozenset(
    {"register_pytree_node_class", "register_pytree_with_keys_class"}
)


def data_fields(node: ir.Class, body: tuple[ir.Stmt, ...]) -> tuple[str, ...] | None:
    """The fields of a class that are parts of the tree; ``body`` is its module's. None where nothing tells."""
    names = {last_name(d) for d in node.decorators}
    if names & _CLASS_DECORATORS:
        flatten = _method(node, "tree_flatten")
        return None if flatten is None or not _rebuilds(node) else _flattened(flatten)
    listed = [call for d in node.decorators for call in _registering(d)]
    for statement in body:
        match statement:
            case ir.ExprStmt(
                value=ir.Call(args=(ir.Arg(value=ir.Name(id=name)), *_)) as call
            ) if name == node.name:
                function = last_name(call.func)
            case _:
                continue
        if function == "register_pytree_node":
            return _by_functions(node, call, body)
        if function in _CALLS:
            listed.append(call)
    for call in listed:
        for arg in call.args:
            if arg.keyword == "data_fields":
                return _strings(arg.value)
    return None


def _registering(decorator: ir.Expr) -> Iterator[ir.Call]:
    """``partial(register_dataclass, data_fields=…)``, or a call of it."""
    if not isinstance(decorator, ir.Call):
        return
    parts = [decorator.func, *(arg.value for arg in decorator.args)]
    if "register_dataclass" in map(last_name, parts):
        yield decorator


def _strings(expr: ir.Expr) -> tuple[str, ...] | None:
    if not isinstance(expr, ir.Sequence):
        return None
    found: list[str] = []
    for item in expr.items:
        match item:
            case ir.Const(value=str() as text):
                found.append(text)
            case _:
                return None
    return tuple(found)


def _method(node: ir.Class, name: str) -> ir.Function | None:
    return next(
        (
            item
            for item in node.body
            if isinstance(item, ir.Function) and item.name == name
        ),
        None,
    )


def _by_functions(
    node: ir.Class, call: ir.Call, body: tuple[ir.Stmt, ...]
) -> tuple[str, ...] | None:
    functions = [
        _function(arg.value, body) for arg in call.args[1:3] if arg.keyword is None
    ]
    if (
        len(functions) != 2
        or functions[0] is None
        or functions[1] is None
        or not _keeps(node)
    ):
        return None
    return _flattened(functions[0]) if _hands_over(functions[1], node.name) else None


def _function(
    expr: ir.Expr, body: tuple[ir.Stmt, ...]
) -> ir.Function | ir.Lambda | None:
    if isinstance(expr, ir.Lambda):
        return expr
    name = expr.id if isinstance(expr, ir.Name) else ""
    return next(
        (item for item in body if isinstance(item, ir.Function) and item.name == name),
        None,
    )


def _returned(
    function: ir.Function | ir.Lambda,
) -> tuple[ir.Expr | None, dict[str, ir.Expr]]:
    """What a function of plain assignments returns, and what it assigns."""
    if isinstance(function, ir.Lambda):
        return function.body, {}
    assigned: dict[str, ir.Expr] = {}
    for statement in function.body:
        match statement:
            case ir.Assign(targets=(ir.Name(id=name),), value=value):
                assigned[name] = value
            case ir.ExprStmt(value=ir.Const()):
                continue
            case ir.Return(value=value):
                return value, assigned
            case _:
                return None, {}
    return None, {}


def _flattened(function: ir.Function | ir.Lambda) -> tuple[str, ...] | None:
    result, assigned = _returned(function)
    if not (
        isinstance(result, ir.Sequence) and len(result.items) == 2 and function.params
    ):
        return None
    parts = result.items[0]
    if isinstance(parts, ir.Name):
        parts = assigned.get(parts.id, parts)
    own = function.params[0].name
    names = [
        item.name
        for item in (parts.items if isinstance(parts, ir.Sequence) else ())
        if isinstance(item, ir.Attr)
        and isinstance(item.obj, ir.Name)
        and item.obj.id == own
    ]
    return (
        tuple(names)
        if isinstance(parts, ir.Sequence) and len(names) == len(parts.items)
        else None
    )


def _rebuilds(node: ir.Class) -> bool:
    unflatten = _method(node, "tree_unflatten")
    return unflatten is not None and _hands_over(unflatten, node.name) and _keeps(node)


def _hands_over(function: ir.Function | ir.Lambda, cls: str) -> bool:
    """Whether a function calls the class with all that its last parameter holds, first of all."""
    result, _ = _returned(function)
    names = [param.name for param in function.params]
    if not (
        isinstance(result, ir.Call)
        and isinstance(result.func, ir.Name)
        and result.args
        and names
    ):
        return False
    first = result.args[0]
    held = first.value.id if isinstance(first.value, ir.Name) else ""
    return result.func.id in (cls, names[0]) and first.star == "*" and held == names[-1]


def _keeps(node: ir.Class) -> bool:
    """Whether the constructor stores its arguments as they are."""
    init = _method(node, "__init__")
    if init is None:
        return any(
            last_name(d.func if isinstance(d, ir.Call) else d) == "dataclass"
            for d in node.decorators
        )
    params = {param.name for param in init.params}
    for statement in init.body:
        match statement:
            case ir.Assign(targets=(ir.Attr(name=name),), value=ir.Name(id=given)) if (
                given in params
            ):
                if name.lstrip("_") != given.lstrip("_"):
                    return False
            case ir.Assign(
                targets=(ir.Sequence(items=targets),), value=ir.Sequence(items=values)
            ):
                pairs = zip(targets, values, strict=False)
                if not all(
                    isinstance(t, ir.Attr) and isinstance(v, ir.Name) and t.name == v.id
                    for t, v in pairs
                ):
                    return False
            case ir.ExprStmt(value=ir.Const()):
                continue
            case _:
                return False
    return True
