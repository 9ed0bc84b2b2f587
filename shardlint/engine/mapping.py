"""``vmap`` and ``pmap``: one example goes in, every result gets the mapped dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shardlint.engine.dependence import depends
from shardlint.engine.frames import Frame
from shardlint.engine.sharding import copies, divergence, named_axes, outside, sends
from shardlint.engine.trees import (
    children,
    is_leaf,
    map_leaves,
    may_be_tree,
    rebuilt,
    traced,
)
from shardlint.ops.registry import is_none, static_int
from shardlint.ops.sharding.examples import example, stacked
from shardlint.ops.sharding.explicit import explicit_axes, placed, specs_of
from shardlint.ops.sharding.state import Axes, sharded
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    InstanceValue,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
    size_in,
)
from shardtypes.lang import Different, Size, compare, format_shape
from shardtypes.lang.messages import sharded_differently, sharded_over

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: The mapping transformations, with their positional parameters after the function.
MAPPINGS = {
    "jax.vmap": ("in_axes", "out_axes", "axis_name", "axis_size", "spmd_axis_name"),
    "jax.pmap": ("axis_name",),
    "equinox.filter_vmap": (),
    "equinox.filter_pmap": (),
}
_ZERO = IntValue(Size.const(0))


class _Wrong(Exception):
    """A certain mistake in the mapped axes."""

    def __init__(
        self,
        message: str,
        witness: dict[str, int] | None = None,
        code: str = "ST211",
        related: Sequence[tuple[str, int, str]] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.witness = witness or {}
        self.code = code
        self.related = tuple(related)


@dataclass(frozen=True, slots=True)
class Before:
    """The arguments in front of those that have axes: how many, and what they are in messages."""

    count: int = 0
    words: str = ""


@dataclass(slots=True)
class _Mapped:
    """What a call maps over: each mapped array by its name in messages, with the axis and the mapped size."""

    name: str
    # equinox: only arrays are mapped, numbers and other leaves are passed on
    lenient: bool
    sizes: list[tuple[str, Size]] = field(default_factory=list)
    certain: bool = True  # every argument was understood
    any: bool = False
    # of the positional arguments that are mapped arrays
    positions: set[int] = field(default_factory=set)
    before: Before = Before()
    # how the mapped dimensions lie on the mesh, where that is followed
    axes: set[Axes] = field(default_factory=set)
    # the same on explicit axes, by argument
    split: list[tuple[str, tuple[str, ...], ArrayValue]] = field(default_factory=list)

    def one(self, value: Value, axes: Value, what: str) -> Value:
        """One example of an argument."""
        if is_none(axes):
            return value
        if isinstance(axes, (SequenceValue, DictValue)):
            return self._by_structure(value, axes, what)
        axis = static_int(axes)
        if axis is None:
            self.certain = False
            return Unknown("in_axes is not known")
        if isinstance(value, ArrayValue):
            return self._array(value, axis, what)
        parts = children(value)
        if parts is not None:
            made = rebuilt(
                value,
                [
                    (key, self.one(item, axes, f"{what}{_step(value, key)}"))
                    for key, item in parts
                ],
            )
            return (
                replace(made, prefix=made.prefix[1:])
                if isinstance(made, InstanceValue)
                else made
            )
        # many an array is annotated ``int``
        if is_leaf(value) and not self.lenient and value != IntValue(None):
            raise _Wrong(f"{what} is a scalar, which has no axis {axis} to map over")
        if self.lenient and not isinstance(value, Unknown):
            return value
        self.certain = False
        return Unknown("a mapped argument", leaf=copies.kept(value))

    def _array(self, value: ArrayValue, axis: int, what: str) -> Value:
        self.any = True
        if value.dims is None:
            self.certain = False
            return copies.marked(ArrayValue(None, value.dtype), value)
        rank = len(value.dims)
        if not -rank <= axis < rank:
            shape = format_shape([d.size for d in value.dims])
            if self.lenient and not rank:
                return value
            raise _Wrong(f"{what} is {shape!r}, which has no axis {axis} to map over")
        axis %= rank
        size = value.dims[axis].size
        if size is None:
            self.certain = False
        else:
            self.sizes.append((what, size))
        axes = value.dims[axis].axes
        self.axes.add(axes if value.manual or value.mesh is not None else None)
        if placed(value) and axes is not None:
            self.split.append((what, axes, value))
        return copies.marked(example(value, axis), value)

    def _by_structure(
        self, value: Value, axes: SequenceValue | DictValue, what: str
    ) -> Value:
        parts = children(value)
        wanted = dict(children(axes) or [])
        if isinstance(value, ArrayValue) and not may_be_tree(value):
            raise _Wrong(f"{what} is one array, but in_axes has a {_kind(axes)} for it")
        if (
            parts is None
            or type(value) is not type(axes)
            or (isinstance(value, SequenceValue) and value.names)
        ):
            self.certain = False
            return Unknown("in_axes is not understood")
        if dict(parts).keys() != wanted.keys():
            if "list" in (_kind(axes), _kind(value)):
                self.certain = False
                return Unknown("in_axes is not understood")
            raise _Wrong(
                f"{what} has {_entries(value)}, but in_axes has {_entries(axes)} for it"
            )
        made = [
            (key, self.one(item, wanted[key], f"{what}{_step(value, key)}"))
            for key, item in parts
        ]
        return rebuilt(value, made)

    def agree(self, frame: Frame) -> None:
        """All mapped dimensions have one size."""
        for what, size in self.sizes[1:]:
            first, known = self.sizes[0]
            verdict = compare(known, size, frame.facts)
            if isinstance(verdict, Different):
                message = (
                    f"mapped dimensions differ: {first} has {known}, {what} has {size}"
                )
                raise _Wrong(message, verdict.witness)
        for what, axes, value in self.split[1:]:
            first, one, other = self.split[0]
            if axes != one:
                ways = [
                    f"{first} is {sharded_over(one)}",
                    f"{what} is {sharded_over(axes)}",
                ]
                message = sharded_differently(ways, "mapped dimensions")
                raise _Wrong(message, {}, "ST313", specs_of(other, value))


def call_mapped(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """The result of calling a mapped function; what is certainly wrong with its axes is reported."""

    short = func.kind.rpartition(".")[2]
    options = dict(func.options)
    static = _static(options)
    if static is None:
        return Unknown("static_broadcasted_argnums is not known")
    mapped = _Mapped(short, lenient=func.kind.startswith("equinox."))
    try:
        inner, named = _arguments(mapped, options, args, kwargs, static)
        size = options.get("axis_size")
        if isinstance(size, IntValue) and size.size is not None:
            mapped.any = True
            mapped.sizes.insert(0, ("axis_size", size.size))
        mapped.agree(frame)
        if _maps_nothing(mapped, func, [*args, *kwargs.values()]):
            raise _Wrong(
                "no argument is mapped: in_axes needs an axis for at least one"
            )
    except _Wrong as wrong:
        return _report(it, frame, func, at, wrong)
    is_certain = mapped.certain and "axis_size" not in options and len(mapped.axes) == 1
    is_followed = it.view is not None or explicit_axes(frame.mesh) is not None
    axes = next(iter(mapped.axes)) if is_certain and is_followed else None
    dim = Dimension(mapped.sizes[0][1] if mapped.sizes else None, axes)
    naming = named_axes.Naming(func, dim.size, dim.axes)
    inside = it.view is not None
    with named_axes.bound(it, frame, naming) as manual:
        if manual:
            pairs = zip(inner, args, strict=True)
            naming = replace(
                naming,
                copied=func.kind == "jax.pmap"
                and copies.any_copied([*inner, *named.values()]),
            )
            inner = [
                named_axes.entered(naming, value, given is not value, inside)
                for value, given in pairs
            ]
            named = {
                name: named_axes.entered(naming, value, True, inside)
                for name, value in named.items()
            }
        with divergence.of_examples(it):
            function = outside.taken(it, func.func) if not inside else func.func
            with sends.repeated(it, at, _on_one_device(short, dim)):
                result = it.call(frame, function, inner, named, at, places)
    if manual:
        result = named_axes.left(it, frame, naming, result, at)
    out = options.get("out_axes", _ZERO)
    try:
        _unmapped(it, func.func, mapped, out)
        return _stacked(result, out, dim, "the result", mapped.lenient)
    except _Wrong as wrong:
        return _report(it, frame, func, at, wrong)


def _maps_nothing(mapped: _Mapped, func: WrappedValue, given: list[Value]) -> bool:
    """Whether certainly no argument tells how often to call the function, and nothing else does."""
    if not given or not mapped.certain or mapped.any or mapped.lenient:
        return False
    if func.kind.startswith("flax."):
        return False  # variables may be mapped
    return "axis_size" not in dict(func.options) and not _is_partly_unknown(given)


def _on_one_device(name: str, dim: Dimension) -> Size | None:
    """How many of the examples that are mapped over one device has: ``pmap`` gives it one."""
    return Size.const(1) if name.endswith("pmap") else dim.size


def _arguments(
    mapped: _Mapped,
    options: dict[str, Value],
    args: list[Value],
    kwargs: dict[str, Value],
    static: frozenset[int],
) -> tuple[list[Value], dict[str, Value]]:
    axes = options.get("in_axes", _ZERO)
    if isinstance(axes, SequenceValue) and not axes.names:
        wanted = list(axes.items)
        # those are never looked up
        if static and all(i < len(wanted) or i in static for i in range(len(args))):
            wanted = [wanted[i] if i < len(wanted) else _ZERO for i in range(len(args))]
        if len(wanted) != len(args):
            if axes.kind != "list":  # a list may have grown unseen
                raise _miscounted(len(wanted), len(args), mapped.before)
            wanted = [Unknown("in_axes is not known")] * len(args)
    elif is_none(axes) or static_int(axes) is not None:
        wanted = [axes] * len(args)
    else:
        wanted = [Unknown("in_axes is not known")] * len(args)
    inner: list[Value] = []
    for index, (value, one) in enumerate(zip(args, wanted, strict=True)):
        what = f"argument {index + mapped.before.count}"
        inner.append(value if index in static else mapped.one(value, one, what))
        if inner[-1] is not value and isinstance(value, ArrayValue):
            mapped.positions.add(index)
    named = {
        name: mapped.one(value, _ZERO, f"argument {name}")
        for name, value in kwargs.items()
    }
    return inner, named


def _miscounted(axes: int, arguments: int, before: Before) -> _Wrong:
    entries = _count(axes, "entry", "entries")
    given = f"{_count(arguments, 'argument')} {before.words}".rstrip()
    return _Wrong(f"in_axes has {entries} for {given}")


def refused_axes(
    it: Interpreter,
    frame: Frame,
    func: WrappedValue,
    args: list[Value],
    before: Before,
    at: int,
) -> bool:
    """Report what is certainly wrong with the axes of arguments, for transformations that are no ``jax.vmap``; whether
    something is."""
    name = _called(func)
    given = args[before.count :]
    options = dict(func.options)
    axes = options.get("in_axes", _ZERO)
    mapped = _Mapped(name, lenient=False, before=before)
    try:
        if isinstance(axes, SequenceValue) and axes.kind == "list":
            raise _Wrong("in_axes is a list, and the arguments are a tuple")
        _arguments(mapped, options, given, {}, frozenset())
        for option in ("length", "axis_size"):
            size = size_in(options.get(option))
            if size is not None:
                mapped.sizes.insert(0, (option, size))
        mapped.agree(frame)
    except _Wrong as wrong:
        _report(it, frame, func, at, wrong)
        return True
    return False


def count_axes(
    it: Interpreter, frame: Frame, func: WrappedValue, args: list[Value], at: int
) -> None:
    """Report a tuple of axes that are more or fewer than the arguments."""
    axes = dict(func.options).get("in_axes", _ZERO)
    if not isinstance(axes, SequenceValue) or axes.kind != "tuple":
        return
    if len(axes.items) != len(args):
        wrong = _miscounted(len(axes.items), len(args), Before())
        _report(it, frame, func, at, wrong)


def _unmapped(it: Interpreter, func: Value, mapped: _Mapped, out: Value) -> None:
    """Nothing that differs from example to example can come out unmapped."""
    if mapped.name != "vmap":
        return
    paths: list[tuple[int, ...]] = [()] if is_none(out) else []
    if isinstance(out, SequenceValue) and not out.names:
        paths = [(index,) for index, item in enumerate(out.items) if is_none(item)]
    for path in paths:
        if depends(it, func, mapped.positions, path):
            what = f"item {path[0]} of the result" if path else "the result"
            raise _Wrong(
                f"out_axes is None for {what}, which depends on the mapped arguments: give it an axis"
            )


def _static(options: dict[str, Value]) -> frozenset[int] | None:
    """The positions that ``pmap`` passes on as they are, or None where they are not known."""
    given = options.get("static_broadcasted_argnums")
    items = (
        given.items
        if isinstance(given, SequenceValue)
        else ()
        if given is None
        else (given,)
    )
    numbers = [static_int(item) for item in items]
    return (
        None
        if None in numbers
        else frozenset(number for number in numbers if number is not None)
    )


def _is_partly_unknown(values: list[Value]) -> bool:
    found = False

    def look(leaf: Value) -> Value:
        nonlocal found
        found |= not is_leaf(leaf)
        return leaf

    for value in values:
        map_leaves(value, look)
    return found


def stack(value: Value, dim: Dimension) -> Value:
    """Results of a mapped function: every array gets the dimension in front."""
    return _stacked(value, _ZERO, dim, "the result", True)


def _stacked(
    value: Value, axes: Value, dim: Dimension, what: str, lenient: bool
) -> Value:
    if is_none(axes):
        return value
    if isinstance(axes, (SequenceValue, DictValue)):
        return _stacked_parts(value, axes, dim, what, lenient)
    axis = static_int(axes)
    parts = children(value)
    if parts is not None:
        made = [
            (key, _stacked(item, axes, dim, f"{what}{_step(value, key)}", lenient))
            for key, item in parts
        ]
        result = rebuilt(value, made)
        if isinstance(result, InstanceValue):
            return replace(result, prefix=(dim, *result.prefix))
        return result
    leaf = traced(value)
    if isinstance(leaf, ArrayValue) and axis is not None:
        return _stacked_leaf(leaf, axis, dim, what)
    if lenient and not isinstance(value, Unknown):
        return value
    return Unknown("a stacked result", leaf=copies.kept(value))


def _stacked_parts(
    value: Value,
    axes: SequenceValue | DictValue,
    dim: Dimension,
    what: str,
    lenient: bool,
) -> Value:
    """Each part of a value with the axes that are given for it."""
    parts, wanted = children(value), dict(children(axes) or [])
    if isinstance(value, ArrayValue):
        raise _Wrong(f"{what} is one array, but out_axes has a {_kind(axes)} for it")
    if parts is None or type(value) is not type(axes):
        return Unknown("out_axes is not understood")
    if dict(parts).keys() != wanted.keys():
        if isinstance(value, SequenceValue) and value.kind == "list":
            return Unknown("out_axes is not understood")
        raise _Wrong(
            f"{what} has {_entries(value)}, but out_axes has {_entries(axes)} for it"
        )
    made = [
        (
            key,
            _stacked(item, wanted[key], dim, f"{what}{_step(value, key)}", lenient),
        )
        for key, item in parts
    ]
    return rebuilt(value, made)


def _stacked_leaf(leaf: ArrayValue, axis: int, dim: Dimension, what: str) -> Value:
    if leaf.dims is None:
        if copies.mark(leaf):
            return replace(leaf, weak=False)
        return ArrayValue(None, leaf.dtype)
    rank = len(leaf.dims)
    sizes = [d.size for d in leaf.dims]
    if not -rank - 1 <= axis <= rank:
        raise _Wrong(
            f"{what} is {format_shape(sizes)!r} for one example, "
            f"so the mapped dimension cannot be its axis {axis}"
        )
    axis = axis if axis >= 0 else axis + rank + 1
    own = dim.axes or ()
    twice = sharded(leaf).intersection(own)
    if twice and placed(leaf):
        shape = format_shape(sizes, [d.axes or () for d in leaf.dims])
        raise _Wrong(
            f"{what} is {shape!r} for one example, "
            f"and the mapped dimension is {sharded_over(own)}: "
            f"two dimensions would be sharded over {min(twice)!r}",
            {},
            "ST313",
        )
    return stacked(leaf, axis, dim, dim.axes)


def _report(
    it: Interpreter, frame: Frame, func: WrappedValue, at: int, wrong: _Wrong
) -> Value:
    """At the axes where they are written in this module, else at the call."""
    text = f"{_called(func)}: {wrong.message}"
    if func.origin is not None and func.origin[0] == frame.module:
        it.report(
            frame,
            wrong.code,
            func.origin[1],
            text,
            wrong.witness,
            ((frame.module, at, "called here"), *wrong.related),
        )
    else:
        it.report(frame, wrong.code, at, text, wrong.witness, wrong.related)
    return Unknown("an error was reported here")


def _called(func: WrappedValue) -> str:
    """The name of the transformation, in messages."""
    return func.kind.partition(".<")[0].rpartition(".")[2]


def _kind(axes: Value) -> str:
    return (
        "dict"
        if isinstance(axes, DictValue)
        else axes.kind
        if isinstance(axes, SequenceValue)
        else "tree"
    )


def _entries(value: Value) -> str:
    if isinstance(value, DictValue):
        return "the keys " + ", ".join(repr(key) for key, _ in value.items)
    return _count(
        len(value.items) if isinstance(value, SequenceValue) else 0, "entry", "entries"
    )


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"


def _step(value: Value, key: object) -> str:
    return f".{key}" if isinstance(value, InstanceValue) else f"[{key!r}]"
