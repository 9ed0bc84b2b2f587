"""What a part of a function's result is certainly computed from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shardlint import ir
from shardlint.engine.interpreter import Interpreter
from shardlint.values import ExternalValue, FunctionValue, Value
from shardlint.walking import walk

_METHODS = frozenset(
    "sum mean max min prod std var astype reshape transpose ravel flatten squeeze dot clip".split()
)
_FUNCTIONS = frozenset(
    f"{module}.{name}"
    for module, names in (
        (
            "jax.numpy",
            """sum mean max min prod std var abs exp log sin cos tanh sqrt square sign negative dot matmul einsum add
            subtract multiply divide power maximum minimum where reshape transpose concatenate stack clip""",
        ),
        ("jax.nn", "relu gelu silu softmax log_softmax sigmoid"),
    )
    for name in names.split()
)


def depends(
    it: Interpreter, func: Value, positions: Collection[int], path: Sequence[int]
) -> bool:
    """Whether a part of the result is computed from some arguments. ``path`` leads to it, as ``(1,)`` to the second
    item of a tuple. Only functions that compute straight ahead are judged."""
    if not isinstance(func, FunctionValue):
        return False
    node = func.node
    names = [param.name for param in node.params]
    given = {name for index, name in enumerate(names) if index in positions}
    reading = _Reading(it, func.module, given, set(names))
    if isinstance(node, ir.Lambda):
        return reading.is_computed(_part(node.body, path))
    assigned: set[str] = set()
    for statement in node.body:
        match statement:
            case ir.Assign(targets=(ir.Name(id=name),), value=value) if (
                name not in assigned
            ):
                assigned.add(name)
                reading.assign(name, value)
            case ir.ExprStmt(value=ir.Const()):
                pass
            case ir.Return(value=value) if value is not None:
                return reading.is_computed(_part(value, path))
            case _:
                return False
    return False


def _part(expr: ir.Expr, path: Sequence[int]) -> ir.Expr:
    for index in path:
        if not isinstance(expr, ir.Sequence) or index >= len(expr.items):
            return ir.Const(-1, None)
        expr = expr.items[index]
    return expr


@dataclass(slots=True)
class _Reading:
    """A function as far as it was read: which names are computed ``of`` some arguments, and which are its ``own``."""

    it: Interpreter
    module: str
    of: set[str]
    own: set[str]

    def assign(self, name: str, value: ir.Expr) -> None:
        if self.is_computed(value):
            self.of.add(name)
        else:
            self.of.discard(name)
        self.own.add(name)

    def is_computed(self, expr: ir.Expr) -> bool:
        """Whether an expression is certainly computed of them."""
        match expr:
            case ir.Name(id=name):
                return name in self.of
            case ir.Binary(left=left, right=right):
                return self.is_computed(left) or self.is_computed(right)
            case ir.Unary(op="-", value=value):
                return self.is_computed(value)
            case ir.Subscript(obj=obj):
                return self.is_computed(obj)
            case ir.Attr(obj=obj, name="T" | "mT"):
                return self.is_computed(obj)
            case ir.Call(func=func, args=args) if self._is_function(func):
                return any(self.is_computed(arg.value) for arg in args)
            case ir.Call(func=ir.Attr(obj=obj, name=name)) if name in _METHODS:
                return self.is_computed(obj)
            case _:
                return False

    def _is_function(self, func: ir.Expr) -> bool:
        """Whether a name stands for one of the functions, however it is imported."""
        first = func
        while isinstance(first, ir.Attr):
            first = first.obj
        if not isinstance(first, ir.Name) or first.id in self.own:
            return False
        meant = self.it.resolve_static(func, self.module)
        return isinstance(meant, ExternalValue) and meant.qualname in _FUNCTIONS


def computed_for(
    func: Value, paths: Sequence[Sequence[object]], module: str
) -> frozenset[int]:
    """The expressions of a function that parts of its result are certainly computed from: it returns at one place, and
    assigns each name on the way once."""
    if not isinstance(func, FunctionValue) or func.module != module:
        return frozenset()
    node = func.node
    if isinstance(node, ir.Lambda):
        returned = [node.body]
    else:
        returned = [
            one.value
            for one in ir.statements(node.body)
            if isinstance(one, ir.Return) and one.value
        ]
    if len(returned) != 1:
        return frozenset()
    assigned = {} if isinstance(node, ir.Lambda) else _assigned_once(node)
    waiting = [
        part
        for part in (_written_part(returned[0], path) for path in paths)
        if part is not None
    ]
    seen = set[int]()
    while waiting:
        for inner in walk(waiting.pop()):
            if inner.at in seen:
                continue
            seen.add(inner.at)
            value = assigned.get(inner.id) if isinstance(inner, ir.Name) else None
            if value is not None:
                waiting.append(value)
    return frozenset(seen)


def _written_part(expr: ir.Expr, path: Sequence[object]) -> ir.Expr | None:
    """The expression of a part of what is returned, where that is written out."""
    for key in path:
        match expr:
            case ir.Sequence(items=items) if isinstance(key, int) and not any(
                isinstance(i, ir.Star) for i in items
            ):
                expr = items[key]
            case ir.Dict(items=entries):
                found = [
                    value
                    for name, value in entries
                    if isinstance(name, ir.Const) and name.value == key
                ]
                if len(found) != 1:
                    return None
                expr = found[0]
            case _:
                return None
    return expr


def _assigned_once(node: ir.Function) -> dict[str, ir.Expr]:
    """What each name of a function is assigned, where that is at one place."""
    assigned: dict[str, list[ir.Expr | None]] = {}
    for statement in ir.statements(node.body):
        targets: tuple[ir.Expr, ...] = ()
        value: ir.Expr | None = None
        match statement:
            case ir.Assign():
                targets, value = statement.targets, statement.value
            case ir.AnnAssign():
                targets, value = (statement.target,), statement.value
            case ir.AugAssign() | ir.For():
                targets = (statement.target,)
            case _:
                pass
        for name in walk(targets):
            if isinstance(name, ir.Name):
                assigned.setdefault(name.id, []).append(value)
    once = {name: values[0] for name, values in assigned.items() if len(values) == 1}
    return {name: value for name, value in once.items() if value is not None}
