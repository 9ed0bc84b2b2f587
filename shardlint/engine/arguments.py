"""Arguments of a call against the parameters of a signature, and what a parameter may be taken to be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine import matching
from shardlint.engine.after_errors import still_promised
from shardlint.engine.annotations import resolve
from shardlint.engine.frames import Frame
from shardlint.engine.types import (
    AnyType,
    ArrayType,
    ClassType,
    FunctionType,
    ScalarType,
    Type,
    says_something,
    shape_dialects,
)
from shardlint.values import (
    ArrayValue,
    DictValue,
    FunctionValue,
    InstanceValue,
    IntValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import Bindings

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def bind(
    node: ir.Function | ir.Lambda, args: list[Value], kwargs: dict[str, Value]
) -> tuple[dict[str, Value], dict[str, int]] | None:
    """Arguments by parameter, and the index of each among all that were given; None if they do not fit."""
    bound: dict[str, Value] = {}
    index: dict[str, int] = {}
    rest = list(enumerate(args))
    named = dict(kwargs)
    order = {name: len(args) + i for i, name in enumerate(kwargs)}
    for param in node.params:
        if param.kind == "*":
            bound[param.name] = SequenceValue(tuple(value for _, value in rest))
            rest = []
        elif param.kind == "**":
            bound[param.name] = DictValue(tuple(named.items()))
            named = {}
        elif rest and param.kind in ("positional", "positional-only"):
            position, bound[param.name] = rest.pop(0)
            index[param.name] = position
        elif param.name in named:
            bound[param.name] = named.pop(param.name)
            index[param.name] = order[param.name]
        elif param.default is None:
            return None
    return None if rest or named else (bound, index)


@dataclass(frozen=True, slots=True)
class Fit:
    """Arguments of a call: by parameter, what the names of the signature's shapes are bound to, and what does not
    fit."""

    bound: dict[str, Value]
    bindings: Bindings
    problems: tuple[matching.Problem, ...] = ()

    def still_promised(self, promise: Type) -> Type:
        """What the annotation of the result says in spite of what does not fit."""
        names = frozenset[str]().union(*(p.doubtful_names for p in self.problems))
        dtypes = {p.doubtful_dtype for p in self.problems} - {None}
        return still_promised(promise, names, dtypes)


def bound_arguments(
    it: Interpreter,
    frame: Frame,
    func: FunctionValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Fit | None:
    """Check arguments against a signature; None where they do not fit its parameters."""
    node = func.node
    found = bind(node, args, kwargs)
    if found is None:
        return None
    bound, index = found
    bindings = Bindings()
    if (
        func.owner is not None
        and args
        and isinstance(args[0], InstanceValue)
        and node.params
    ):
        self_type = ClassType(func.owner, own=True)
        if bound.get(node.params[0].name) is args[0] and args[0].cls is func.owner:
            matching.check(it, self_type, args[0], bindings, frame.facts, "self")
    problems: list[matching.Problem] = []
    for param in node.params:
        if param.kind in ("*", "**") or param.name not in index:
            continue
        type_ = resolve(it, param.annotation, func.module)
        what = f"argument {param.name} of {func.name}"
        position = index[param.name]
        place = places[position] if position < len(places) else at
        problem = matching.check_at(
            it, frame, type_, bound[param.name], bindings, what, place
        )
        if problem is not None:
            earlier = {name: places[i] for name, i in index.items() if i < len(places)}
            bound_by = _bound_by(it, frame, func, param, problem, bindings, earlier)
            related = (*problem.declared, *bound_by)
            other = (
                None
                if problems
                else _swapped_with(it, frame, func, bound, index, param.name)
            )
            message = (
                f"{problem.message}; are {param.name} and {other} swapped?"
                if other
                else problem.message
            )
            it.report(
                frame, problem.code or "ST202", place, message, problem.witness, related
            )
            problems.append(problem)
            if other is not None:
                break  # one mistake, one finding
    if not problems:
        _check_variadic(it, frame, func, (bound, bindings), (args, kwargs), places)
    return Fit(bound, bindings, tuple(problems))


def _check_variadic(
    it: Interpreter,
    frame: Frame,
    func: FunctionValue,
    known: tuple[dict[str, Value], Bindings],
    given: tuple[list[Value], dict[str, Value]],
    places: tuple[int, ...],
) -> None:
    """Hold each of ``*xs`` and ``**kw`` against the annotation, which is of one of them."""
    bound, bindings = known
    args, kwargs = given
    order = {name: len(args) + number for number, name in enumerate(kwargs)}
    for param in func.node.params:
        if param.kind not in ("*", "**") or param.annotation is None:
            continue
        type_ = resolve(it, param.annotation, func.module)
        # what jaxtyping says of arguments is checked by a decorator, if there is one
        if not says_something(type_) or "jaxtyping" in shape_dialects(type_):
            continue
        rest = bound[param.name]
        if isinstance(rest, SequenceValue):
            first = len(args) - len(rest.items)
            items = list(enumerate(rest.items, first))
        elif isinstance(rest, DictValue):
            items = [(order[str(name)], value) for name, value in rest.items]
        else:
            continue
        for position, value in items:
            if position >= len(places):
                continue
            what = f"argument {param.name} of {func.name}"
            place = places[position]
            problem = matching.check_at(it, frame, type_, value, bindings, what, place)
            if problem is not None:
                it.report(
                    frame,
                    problem.code or "ST202",
                    place,
                    problem.message,
                    problem.witness,
                    problem.declared,
                )


def refined(it: Interpreter, func: FunctionValue, fits: Fit) -> dict[str, Value]:
    """The arguments, with what the annotations of their parameters say of them besides."""
    known = dict(fits.bound)
    for param in func.node.params:
        type_ = resolve(it, param.annotation, func.module)
        if (
            param.name in known
            and param.kind not in ("*", "**")
            and says_something(type_)
        ):
            known[param.name] = matching.refine(
                it, type_, known[param.name], fits.bindings
            )
    return known


def _swapped_with(
    it: Interpreter,
    frame: Frame,
    func: FunctionValue,
    bound: dict[str, Value],
    index: dict[str, int],
    name: str,
) -> str | None:
    """The parameter whose argument would have to change places with this one for all to fit."""
    types = {
        p.name: resolve(it, p.annotation, func.module)
        for p in func.node.params
        if p.name in index
    }
    arrays = [
        other
        for other, type_ in types.items()
        if isinstance(type_, ArrayType) and type_.shape is not None
    ]
    for other in arrays if name in arrays else ():
        if other == name or not isinstance(bound[other], ArrayValue):
            continue
        given = {**bound, name: bound[other], other: bound[name]}
        bindings = Bindings()
        if not any(
            matching.check(it, type_, given[p], bindings, frame.facts, "")
            for p, type_ in types.items()
        ):
            return other
    return None


def _bound_by(
    it: Interpreter,
    frame: Frame,
    func: FunctionValue,
    wrong: ir.Param,
    problem: matching.Problem,
    bindings: Bindings,
    places: dict[str, int],
) -> tuple[tuple[str, int, str], ...]:
    """Which earlier argument gave a name of the dimension that does not fit its size."""
    shape = problem.where.shape if problem.where is not None else None
    if (
        shape is None
        or problem.dim is None
        or shape.variadic is not None
        or problem.dim >= len(shape.dims)
    ):
        return ()
    size = shape.dims[problem.dim].size
    for param in func.node.params[: func.node.params.index(wrong)]:
        type_ = resolve(it, param.annotation, func.module)
        if (
            size is None
            or param.name not in places
            or not isinstance(type_, ArrayType)
            or type_.shape is None
        ):
            continue
        for name in sorted(size.symbols & type_.shape.names):
            bound = bindings.get(name)
            if bound is not None:
                return (
                    (
                        frame.module,
                        places[param.name],
                        f"{name!r} of {func.name} is bound to {bound} by this argument",
                    ),
                )
    return ()


def parameter_value(
    it: Interpreter, frame: Frame, param: ir.Param, type_: Type
) -> Value:
    """What a function may assume of a parameter."""
    if param.kind in ("*", "**"):
        return Unknown("takes any number of arguments")
    if isinstance(type_, ScalarType) and type_.kind == "int":
        negative = isinstance(param.default, ir.Unary)
        return IntValue(None if negative else it.named(param.name))
    text = (
        isinstance(param.default, ir.Const)
        and isinstance(param.default.value, str)
        and "axis" in param.name
    )
    if (
        isinstance(type_, ScalarType)
        and type_.kind == "str"
        and not _is_none(param.default)
    ):
        return StringValue(param.name)
    if isinstance(type_, AnyType) and not isinstance(type_, FunctionType):
        if text:
            return StringValue(param.name)
        return Unknown(
            f"parameter {param.name} has no array annotation", it.named(param.name)
        )
    value = matching.instantiate(it, type_, frame.bindings, matching.as_symbol)
    if isinstance(value, FunctionValue):
        value = replace(value, name=param.name)
    if _is_none(param.default) and isinstance(type_, (ArrayType, ClassType)):
        return Unknown("may be None")
    return value


def note_layout(it: Interpreter, type_: Type, value: Value) -> None:
    """Remember how a parameter lies by its annotation, which another annotation of the same array does not contradict.
    What is computed of it lies as the compiler likes."""
    if not isinstance(type_, ArrayType) or not isinstance(value, ArrayValue):
        return
    shape = type_.shape
    if value.manual or shape is None or shape.dialect != "shardtypes":
        return
    if shape.rank is not None and any(dim.axes for dim in shape.dims):
        it.declared_layouts[id(value)] = value, type_


def _is_none(default: ir.Expr | None) -> bool:
    return isinstance(default, ir.Const) and default.value is None
