"""Where a part of a returned value is written: findings about a result go there."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.walking import walk

_DEPTH = 6


def written_at(frame: Frame, expr: ir.Expr, path: Sequence[object]) -> int:
    """The node of the part of ``expr`` that ``path`` leads to, through names that are assigned once."""
    for _ in range(_DEPTH):
        if not path:
            break
        key = path[0]
        match expr:
            case ir.Sequence(items=items) if isinstance(key, int) and key < len(items):
                if any(isinstance(item, ir.Star) for item in items):
                    break
                expr, path = items[key], path[1:]
            case ir.Call(args=args) if isinstance(key, str):
                found = next((arg.value for arg in args if arg.keyword == key), None)
                if found is None:
                    break
                expr, path = found, path[1:]
            case ir.Dict(items=items):
                pairs = [
                    value
                    for name, value in items
                    if isinstance(name, ir.Const) and name.value == key
                ]
                if len(pairs) != 1:
                    break
                expr, path = pairs[0], path[1:]
            case ir.Name(id=name):
                assigned = _assigned(frame, name)
                if assigned is None:
                    break
                expr = assigned
            case _:
                break
    return expr.at


def _assigned(frame: Frame, name: str) -> ir.Expr | None:
    """What a local name is assigned, if there is one such place and it is written out there."""
    node = frame.function.node if frame.function is not None else None
    if node is None or isinstance(node, ir.Lambda):
        return None
    found = []
    for inner in walk(node.body):
        targets: tuple[ir.Expr, ...] = ()
        if isinstance(inner, ir.Assign):
            targets = inner.targets
        elif isinstance(inner, (ir.AnnAssign, ir.AugAssign, ir.For)):
            targets = (inner.target,)
        for target in targets:
            if any(isinstance(n, ir.Name) and n.id == name for n in walk(target)):
                plain = isinstance(target, ir.Name)
                found.append(
                    inner.value
                    if plain and isinstance(inner, (ir.Assign, ir.AnnAssign))
                    else None
                )
    if len(found) != 1 or not isinstance(found[0], (ir.Call, ir.Sequence, ir.Dict)):
        return None
    return found[0]
