"""What a condition tells about the path that it opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.conditions import meaning
from shardlint.engine.frames import Frame
from shardlint.engine.other_arrays import has_others, is_about_jax
from shardlint.engine.plain import truth
from shardlint.engine.sharding.manual_entry import ranked
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    Dimension,
    EitherValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    Literal,
    MaybeValue,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
    number_in,
    size_in,
)
from shardlint.verdicts import any_holds
from shardlint.walking import nodes_of
from shardtypes.lang import Size

_MAX_RANK = 16

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def narrow(it: Interpreter, frame: Frame, test: ir.Expr, holds: bool) -> None:
    """Add to the frame what follows from ``test`` being true, or false."""
    match test:
        case ir.Unary(op="not", value=inner):
            narrow(it, frame, inner, not holds)
        case ir.Bool(op="and", values=values) if holds:
            for value in values:
                narrow(it, frame, value, True)
        case ir.Bool(op="or", values=values) if not holds:
            for value in values:
                narrow(it, frame, value, False)
        case ir.Bool():
            _by_options(it, frame, test, holds)
        case ir.Name(id=name):
            known = frame.find(name)
            condition = meaning(frame, test)
            if isinstance(known, MaybeValue) and holds:
                frame.variables[name] = known.value
            elif condition is not None:
                narrow(it, frame, condition, holds)
        case ir.Call(
            func=ir.Name(id="isinstance"),
            args=(ir.Arg(value=ir.Name(id=name)), ir.Arg(value=types)),
        ):
            known = frame.find(name)
            if known is not None:
                frame.variables[name] = of_type(
                    known, it.evaluate(frame, types), holds
                )[1]
        case ir.Compare(left=left, rest=((op, right),)):
            _comparison(it, frame, left, op, right, holds)
            _by_options(it, frame, test, holds)
        case ir.Call():
            _by_options(it, frame, test, holds)
        case _:
            pass


def _by_options(it: Interpreter, frame: Frame, test: ir.Expr, holds: bool) -> None:
    """Of a name that is one of several things, keep those for which a test may have this outcome."""
    if not _only_asks(it, frame, test):
        return
    for name in dict.fromkeys(node.id for node in nodes_of(test, ir.Name)):
        value = frame.find(name)
        if not isinstance(value, (EitherValue, MaybeValue)):
            continue
        options = _options(value)
        if len(options) > _MAX_OPTIONS:
            continue
        outcomes = [_outcome(it, frame, test, name, one) for one in options]
        possible = [
            one
            for one, outcome in zip(options, outcomes, strict=True)
            if outcome is not (not holds)
        ]
        frame.variables[name] = _one_of(tuple(possible))


def _outcome(
    it: Interpreter, frame: Frame, test: ir.Expr, name: str, value: Value
) -> bool | None:
    """The truth of a test if a name had this value."""
    before = frame.variables
    frame.variables = {**before, name: value}
    frame.silent += 1
    try:
        return truth(it.evaluate(frame, test))
    finally:
        frame.silent -= 1
        frame.variables = before


def _only_asks(it: Interpreter, frame: Frame, test: ir.Expr) -> bool:
    """Whether evaluating a test changes nothing: it calls at most what tells a type, and functions that only return
    such a test."""
    return all(_is_question(it, frame, call) for call in nodes_of(test, ir.Call))


def _is_question(it: Interpreter, frame: Frame, call: ir.Call) -> bool:
    frame.silent += 1
    try:
        func = it.evaluate(frame, call.func)
    finally:
        frame.silent -= 1
    match func:
        case ExternalValue(qualname=qualname):
            return qualname in _QUESTIONS
        case FunctionValue(node=ir.Lambda(body=body)):
            tested: ir.Expr | None = body
        case FunctionValue(node=ir.Function(body=(*before, ir.Return(value=tested)))):
            if not all(_is_docstring(one) for one in before):
                return False
        case _:
            return False
    return all(_asks(inner) for inner in nodes_of(tested, ir.Call))


def _asks(call: ir.Call) -> bool:
    return isinstance(call.func, ir.Name) and call.func.id in _ASKING


def _is_docstring(statement: ir.Stmt) -> bool:
    return isinstance(statement, ir.ExprStmt) and isinstance(statement.value, ir.Const)


#: What asks for the type of a value.
_ASKING = frozenset({"type", "isinstance", "len"})
_QUESTIONS = frozenset(f"builtins.{name}" for name in _ASKING)
_MAX_OPTIONS = 4


def _comparison(
    it: Interpreter, frame: Frame, left: ir.Expr, op: str, right: ir.Expr, holds: bool
) -> None:
    if op in ("is", "is not") and isinstance(right, ir.Const) and right.value is None:
        is_none = holds == (op == "is")
        if isinstance(left, ir.Name):
            value = frame.find(left.id)
            if isinstance(value, MaybeValue):
                frame.variables[left.id] = Literal(None) if is_none else value.value
            elif isinstance(value, EitherValue):
                frame.variables[left.id] = _kept(
                    value, lambda one: (one == Literal(None)) == is_none
                )
        return
    equal = (op == "==" and holds) or (op == "!=" and not holds)
    frame.silent += 1
    try:
        b = it.evaluate(frame, right)
        if equal:
            _of_array(it, frame, left, b)
        a = it.evaluate(frame, left)
    finally:
        frame.silent -= 1
    if equal:
        _equal(frame, a, b)
        return
    one, other = size_in(a), size_in(b)
    if one is None or other is None:
        return
    if (op, holds) in _AT_LEAST:
        frame.facts = frame.facts.at_least(one, other)
    elif (op, holds) in _AT_MOST:
        frame.facts = frame.facts.at_least(other, one)


#: Comparisons, and whether they hold, that say of the left side that it is at least, or at most, the right one.
_AT_LEAST = frozenset({(">=", True), (">", True), ("<", False), ("<=", False)})
_AT_MOST = frozenset({("<=", True), ("<", True), (">", False), (">=", False)})


def of_type(
    value: Value, types: Value, holds: bool = True
) -> tuple[bool | None, Value]:
    """Whether a value is of a type, or one of several, and what is known of it where it is (not)."""
    wanted = types.items if isinstance(types, SequenceValue) else (types,)

    def verdict(one: Value) -> bool | None:
        found = {_is_of(one, type_) for type_ in wanted}
        return any_holds(found)

    options = _options(value)
    verdicts = {verdict(one) for one in options}
    answer = verdicts.pop() if len(verdicts) == 1 else None
    if isinstance(value, Unknown):
        return answer, value
    possible = _kept(EitherValue(options), lambda one: verdict(one) is not (not holds))
    return answer, possible


def _options(value: Value) -> tuple[Value, ...]:
    if isinstance(value, MaybeValue):
        return (*_options(value.value), Literal(None))
    return value.options if isinstance(value, EitherValue) else (value,)


def _kept(value: EitherValue, keep: Callable[[Value], bool]) -> Value:
    return _one_of(tuple(one for one in value.options if keep(one)))


def _one_of(options: tuple[Value, ...]) -> Value:
    match options:
        case ():
            return Unknown("of no such type")
        case (only,):
            return only
        case (one, Literal(value=None)) | (Literal(value=None), one):
            return MaybeValue(one)
        case several:
            return EitherValue(several)


def _is_of(value: Value, type_: Value) -> bool | None:
    """Whether a value is of one type; arrays may be given as what converts to one, so they are of no known type."""
    if isinstance(type_, ClassValue):
        if isinstance(value, InstanceValue):
            return _inherits(value, type_)
        name = ""
    elif isinstance(type_, ExternalValue):
        name = type_.qualname
    else:
        return None
    is_builtin = name in _BUILTIN
    match value:
        case ArrayValue(numpy=False) if name in _ARRAYS:
            return True
        case ArrayValue():
            return False if is_builtin or not name else None
        case SequenceValue(kind="keys"):
            if name in _ARRAYS:
                return True
            return False if is_builtin else None
        case SequenceValue(kind=kind) | CollectionValue(kind=kind):
            return _is_container(kind, name)
        case DictValue():
            return _is_container("dict", name)
        case ScalarValue() | IntValue() if name in _ABSTRACT:
            return False
        case Literal(value=None):
            return name == "types.NoneType"
        case Literal(value=constant) if is_builtin or not name:
            bases = type(constant).__mro__
            return name in [f"builtins.{one.__name__}" for one in bases]
        case InstanceValue() if name in _ARRAYS or is_builtin:
            known = all(isinstance(base, ClassValue) for base in value.cls.bases)
            return False if known else None
        case _:
            return None


def _is_container(kind: str, name: str) -> bool | None:
    """Whether a list, a tuple or a dict is of a type."""
    if name in _BUILTIN or not name:
        return name == f"builtins.{kind}"
    if name not in _ABSTRACT:
        return None
    short = name.rpartition(".")[2]
    return short in _KINDS.get(kind, ())


def _inherits(value: InstanceValue, cls: ClassValue) -> bool | None:
    if value.cls.inherits(cls):
        return True
    return False if value.exact else None


_ARRAYS = frozenset({"jax.Array", "jax.numpy.ndarray", "jax.core.Tracer"})
_EACH = ("Collection", "Container", "Iterable", "Sized")
_ORDERED = (*_EACH, "Reversible", "Sequence")
_KINDS = {
    "tuple": _ORDERED,
    "list": (*_ORDERED, "MutableSequence"),
    "deque": (*_ORDERED, "MutableSequence"),
    "dict": (*_EACH, "Reversible", "Mapping", "MutableMapping"),
    "set": (*_EACH, "Set", "MutableSet"),
}
"""The abstract types of containers,"""
_ABSTRACT = frozenset(
    f"{module}.{name}"
    for module in ("typing", "collections.abc")
    for names in _KINDS.values()
    for name in names
)
"""by their full names."""
_BUILTIN = frozenset(
    f"builtins.{name}"
    for name in "tuple list dict str bytes int float bool complex set".split()
)


def expand_shape(
    it: Interpreter, frame: Frame, expr: ir.Expr, value: Value, names: Sequence[str]
) -> Value:
    """The shape of something unknown that is taken apart into sizes: from here on it has that rank, and these sizes."""
    if (
        not isinstance(expr, ir.Attr)
        or expr.name != "shape"
        or not isinstance(expr.obj, ir.Name)
    ):
        return value
    name = expr.obj.id
    known = frame.find(name)
    if not 0 < len(names) < _MAX_RANK:
        return value
    if isinstance(value, Unknown):
        some = (Dimension(None),) * len(names)
        if isinstance(known, Unknown) and is_about_jax(it, frame.module):
            known = ranked(known, some)
        if not isinstance(known, ArrayValue):
            return value
        if known.dims is None:
            known = replace(known, dims=some)
    if (
        not isinstance(known, ArrayValue)
        or known.dims is None
        or len(known.dims) != len(names)
    ):
        return value
    if all(dim.size is not None for dim in known.dims):
        return value
    dims = [
        replace(dim, size=it.named(one) if one.isidentifier() else it.fresh(name))
        if dim.size is None
        else dim
        for dim, one in zip(known.dims, names, strict=True)
    ]
    frame.variables[name] = replace(known, dims=tuple(dims))
    return SequenceValue(tuple(IntValue(dim.size) for dim in dims))


def _of_array(it: Interpreter, frame: Frame, left: ir.Expr, value: Value) -> None:
    """``x.ndim == 3`` and ``x.shape == (b, d)`` tell of a name whose rank, or some of whose sizes, are not known."""
    sizes: list[Size | None] | None = None
    match left:
        case (
            ir.Attr(obj=ir.Name(id=name), name="ndim")
            | ir.Call(
                func=ir.Name(id="len"),
                args=(ir.Arg(value=ir.Attr(obj=ir.Name(id=name), name="shape")),),
            )
        ):
            rank = number_in(value)
            if rank is not None and 0 <= rank < _MAX_RANK:
                sizes = [None] * rank
        case ir.Attr(obj=ir.Name(id=name), name="shape") if isinstance(
            value, SequenceValue
        ):
            sizes = [size_in(item) for item in value.items]
        case _:
            return
    known = frame.find(name)
    if sizes is None or not isinstance(known, (ArrayValue, Unknown)):
        return
    if isinstance(known, Unknown):
        if has_others(it, frame.module):
            return
        frame.variables[name] = ranked(known, tuple(Dimension(size) for size in sizes))
    elif known.dims is None:
        frame.variables[name] = replace(
            known, dims=tuple(Dimension(size) for size in sizes)
        )
    elif len(known.dims) == len(sizes):
        pairs = zip(known.dims, sizes, strict=True)
        dims = tuple(
            replace(dim, size=size) if dim.size is None else dim for dim, size in pairs
        )
        frame.variables[name] = replace(known, dims=dims)


def _equal(frame: Frame, a: Value, b: Value) -> None:
    x, y = size_in(a), size_in(b)
    if x is not None and y is not None:
        if x != y:
            frame.facts = frame.facts.equal(x, y)
        for one, other in ((x, y), (y, x)):
            _divisibility(frame, one, other.constant)
        return
    if not isinstance(a, SequenceValue) or not isinstance(b, SequenceValue):
        return
    if len(a.items) == len(b.items):
        for one_item, other_item in zip(a.items, b.items, strict=True):
            _equal(frame, one_item, other_item)


def _divisibility(frame: Frame, size: Size, other: int | None) -> None:
    """``n % k == 0`` is the fact that k divides n."""
    if other != 0:
        return
    for operation in size.operations():
        # how a remainder is kept
        if operation.op == "//" and operation.args[0] % operation.args[1] == size:
            frame.facts = frame.facts.divides(operation.args[1], operation.args[0])
