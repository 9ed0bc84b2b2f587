"""What a local that holds a condition says: ``single = x.ndim == 2``, and later ``if single:``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shardlint import ir
from shardlint.engine.frames import Frame
from shardlint.walking import nodes_of, walk

#: Attributes of an array that stay what they are.
_LASTING = frozenset({"shape", "ndim", "size"})


def meaning(frame: Frame, test: ir.Name) -> ir.Expr | None:
    """The condition that was assigned to a name before it is tested. None unless the name, and every one that the
    condition speaks of, is bound only once, so that all still are what they were."""
    function = frame.function.node if frame.function is not None else None
    if not isinstance(function, ir.Function):
        return None
    assigned = [
        node.value
        for node in ir.statements(function.body)
        if isinstance(node, ir.Assign)
        and any(isinstance(t, ir.Name) and t.id == test.id for t in node.targets)
    ]
    if (
        len(assigned) != 1
        or assigned[0].at >= test.at
        or not _is_condition(assigned[0])
    ):
        return None
    if any(isinstance(node, ir.Match) for node in ir.statements(function.body)):
        return None  # its patterns bind names too
    times = Counter(_bound(function))
    used = {node.id for node in nodes_of(assigned[0], ir.Name)}
    return assigned[0] if all(times[name] <= 1 for name in (test.id, *used)) else None


def _is_condition(expr: ir.Expr) -> bool:
    match expr:
        case ir.Compare(left=left, rest=rest):
            return _lasts(left) and all(_lasts(part) for _, part in rest)
        case ir.Bool(values=values):
            return all(
                isinstance(value, ir.Name) or _is_condition(value) for value in values
            )
        case ir.Unary(op="not", value=value):
            return isinstance(value, ir.Name) or _is_condition(value)
        case _:
            return False


def _lasts(expr: ir.Expr) -> bool:
    """Whether an expression keeps its value for as long as its names do."""
    match expr:
        case ir.Name() | ir.Const():
            return True
        case ir.Attr(obj=obj, name=name):
            return name in _LASTING and _lasts(obj)
        case ir.Subscript(obj=ir.Attr(name="shape") as obj, index=index):
            return _lasts(obj) and _lasts(index)
        case ir.Call(func=ir.Name(id="len"), args=(ir.Arg(value=value),)):
            return isinstance(value, ir.Attr) and _lasts(value)
        case ir.Binary(left=left, right=right):
            return _lasts(left) and _lasts(right)
        case ir.Unary(value=value):
            return _lasts(value)
        case ir.Sequence(items=items):
            return all(_lasts(item) for item in items)
        case _:
            return False


def _bound(function: ir.Function) -> Iterator[str]:
    """Every name that a function binds, as often as it does; inside a loop twice."""
    yield from (param.name for param in function.params)
    yield from bound_in(function.body)
    for statement in ir.statements(function.body, inside_definitions=True):
        if isinstance(statement, ir.For | ir.While):
            for inner in ir.statements((statement,), inside_definitions=True):
                yield from _by(inner)


def bound_in(body: tuple[ir.Stmt, ...]) -> Iterator[str]:
    """Every name that statements bind."""
    for statement in ir.statements(body, inside_definitions=True):
        yield from _by(statement)
    yield from (node.target for node in nodes_of(body, ir.Walrus))


def _by(statement: ir.Stmt) -> Iterator[str]:
    match statement:
        case ir.Assign(targets=targets) | ir.Delete(targets=targets):
            yield from _names(targets)
        case (
            ir.AnnAssign(target=target)
            | ir.AugAssign(target=target)
            | ir.For(target=target)
        ):
            yield from _names((target,))
        case ir.With(items=items):
            yield from _names(
                tuple(target for _, target in items if target is not None)
            )
        case ir.Function(name=name) | ir.Class(name=name):
            yield name
        case ir.Declare(names=names):
            yield from (*names, *names)
        case ir.Import(bindings=bindings):
            yield from (bound for bound, _ in bindings)
        case ir.ImportFrom(names=imported):
            yield from (bound for _, bound in imported or ())
        case ir.Match(cases=cases):
            for pattern in walk(tuple(case.pattern for case in cases)):
                if isinstance(pattern, ir.CapturePattern | ir.MappingPattern):
                    yield (
                        pattern.name
                        if isinstance(pattern, ir.CapturePattern)
                        else pattern.rest
                    )
        case _:
            pass


def _names(targets: tuple[ir.Expr, ...]) -> Iterator[str]:
    for target in targets:
        match target:
            case ir.Name(id=name):
                yield name
            case ir.Sequence(items=items):
                yield from _names(items)
            case ir.Star(value=value):
                yield from _names((value,))
            case _:
                pass
