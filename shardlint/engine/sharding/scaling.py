"""Whether a program scales a value after it was computed: then a sum over equal devices may be an average."""

from __future__ import annotations

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.walking import nodes_of, walk

_SCALING = frozenset({"/", "//", "*"})
_FUNCTIONS = frozenset(
    {"divide", "true_divide", "multiply", "scale", "map", "tree_map"}
)


def scaled_later(frame: Frame, at: int) -> bool:
    """Whether the call at ``at``, or a name that it is assigned to, is an operand of a division or a product."""
    node = frame.function.node if frame.function is not None else None
    body: object = node.body if node is not None else ()
    names: set[str] = set()
    for inner in walk(body):
        if (
            isinstance(inner, (ir.Assign, ir.AnnAssign))
            and inner.value is not None
            and _holds(inner.value, at)
        ):
            targets = inner.targets if isinstance(inner, ir.Assign) else (inner.target,)
            names |= {n.id for target in targets for n in nodes_of(target, ir.Name)}
    for inner in walk(body):
        if isinstance(inner, (ir.Binary, ir.AugAssign)) and inner.op in _SCALING:
            parts = (
                (inner.left, inner.right)
                if isinstance(inner, ir.Binary)
                else (inner.target, inner.value)
            )
            if any(_mentions(part, at, names) for part in parts):
                return True
        if isinstance(inner, ir.Call) and _name(inner.func) in _FUNCTIONS:
            if any(_mentions(arg.value, at, names) for arg in inner.args):
                return True
    return False


def _holds(expr: ir.Expr, at: int) -> bool:
    return any(node.at == at for node in walk(expr))


def _mentions(expr: ir.Expr, at: int, names: set[str]) -> bool:
    return any(
        node.at == at or (isinstance(node, ir.Name) and node.id in names)
        for node in walk(expr)
    )


def _name(func: ir.Expr) -> str:
    return (
        func.name
        if isinstance(func, ir.Attr)
        else func.id
        if isinstance(func, ir.Name)
        else ""
    )
