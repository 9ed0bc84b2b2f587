"""The arguments that a law tries a function with: given, or made from annotations; and where a dimension is in them."""

from __future__ import annotations

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

# no public way to find the programs inside a program
from jax._src.core import jaxprs_in_params

from shardtypes.array_types import array_annotation
from shardtypes.checked import _MISSING, UNREADABLE, evaluated_hints
from shardtypes.dtypes import ArrayType, shape_of_type
from shardtypes.errors import ShapeStringError
from shardtypes.function_names import display_name
from shardtypes.jaxtyping_types import translated
from shardtypes.lang import Shape
from shardtypes.lang.size import Sizes
from shardtypes.laws.verdict import CannotTell, first_line
from shardtypes.partition_specs import map_type
from shardtypes.prng_keys import is_key
from shardtypes.switches import enabled
from shardtypes.trace_arguments import Argument, arguments_of, shapes_of
from shardtypes.trace_calls import struct
from shardtypes.trace_forms import innermost, mappings
from shardtypes.trace_guesses import CannotTell as CannotMake

Axes = Any
Function: TypeAlias = Callable[..., Any]
Arguments: TypeAlias = tuple[list[Any], dict[str, Any]]
"""Positional ones and named ones."""

AxesOf: TypeAlias = list[int | None]
"""Where a dimension is in each of several arrays; None where it is not."""

_REST = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_SIZE = 4  # of the dimension of a law
_OTHERS = (3, 5, 7, 11, 13), (2, 6, 8, 10, 12, 14), (2, 4, 8, 16), (8,), (4,)


@dataclass(frozen=True)
class Leaf:
    """One array among the arguments: its name in messages, and the dimension's position in it; several positions where
    it lies between positions, as a mask of attention does, and None where it has not the dimension."""

    name: str
    value: Any
    axis: int | tuple[int, ...] | None
    made: bool = False

    @property
    def kind(self) -> str:
        """``key``, or the letter of NumPy's kind of dtype, ``f`` for every float."""
        if is_key(self.value):
            return "key"
        dtype = self.value.dtype
        if jnp.issubdtype(dtype, jnp.inexact):
            return "f"
        if dtype == np.bool_:
            return "b"
        return "i"


@dataclass(frozen=True)
class Call:
    """A function with arguments whose arrays are taken out. ``out_axes`` has an entry for each leaf of the result,
    once it is known how many there are: a prefix of its tree before."""

    name: str
    f: Function
    leaves: tuple[Leaf, ...]
    rebuild: Callable[[Sequence[Any]], Arguments]
    out_axes: Axes
    sizes: Sizes = field(default_factory=dict)
    refilled: bool = False  # with other values than were given or made first

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """The result for other arrays."""
        positional, named = self.rebuild(arrays)
        return self.f(*positional, **named)

    @property
    def values(self) -> list[Any]:
        """The arrays."""
        return [leaf.value for leaf in self.leaves]

    @property
    def is_made(self) -> bool:
        """Whether values were made that a caller may never give: truth values and integers."""
        return any(leaf.made and leaf.kind in "bi" for leaf in self.leaves)

    def with_values(self, values: Sequence[Any]) -> Call:
        """The same with other arrays."""
        leaves = tuple(
            replace(leaf, value=value)
            for leaf, value in zip(self.leaves, values, strict=True)
        )
        return replace(self, leaves=leaves)

    def size(self, dim: str) -> int:
        """The size of the dimension. Raises ``CannotTell`` where there is none, or several."""
        found = {
            leaf.value.shape[leaf.axis]: leaf.name
            for leaf in self.leaves
            if isinstance(leaf.axis, int)
        }
        if not found:
            raise CannotTell(
                f"no argument has the dimension {dim!r}: annotate it, or say where it is with in_axes="
            )
        if len(found) > 1:
            sizes = ", ".join(f"{size} in {name}" for size, name in found.items())
            raise CannotTell(f"the dimension {dim!r} has different sizes: {sizes}")
        (size,) = found
        if size < 2:
            raise CannotTell(
                f"the dimension {dim!r} has size {size} in the examples: give at least 2"
            )
        return int(size)


def call_of(
    f: Function,
    dim: str,
    examples: Sequence[Any],
    named: Mapping[str, Any],
    in_axes: Axes = ...,
    out_axes: Axes = ...,
    sizes: Sizes | None = None,
) -> Call:
    """The call to try, with arguments made where none are given. Raises ``CannotTell``."""
    arguments = _arguments(f, examples, named)
    values, made_sizes = _values(f, dim, arguments, sizes or {})
    leaves: list[Leaf] = []
    places: list[tuple[Argument, Any, AxesOf]] = []
    given = _given_axes(in_axes, arguments)
    for argument, value in zip(arguments, values, strict=True):
        name = argument.parameter.name
        flat, structure = jax.tree_util.tree_flatten_with_path(value)
        axes = _axes_of(argument, value, dim, given)
        numbers: AxesOf = []
        for (path, leaf), axis in zip(flat, axes, strict=True):
            if not _is_array(leaf):
                numbers.append(None)
                continue
            numbers.append(len(leaves))
            made = argument.value is _MISSING
            leaves.append(
                Leaf(
                    name + jax.tree_util.keystr(path),
                    leaf,
                    _from_front(axis, leaf.ndim),
                    made,
                )
            )
        places.append((argument, (structure, [leaf for _, leaf in flat]), numbers))

    def rebuild(arrays: Sequence[Any]) -> Arguments:
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for argument, (structure, flat), numbers in places:
            parts = [
                old if at is None else arrays[at]
                for old, at in zip(flat, numbers, strict=True)
            ]
            value = jax.tree.unflatten(structure, parts)
            if argument.is_positional:
                positional.append(value)
            else:
                keywords[argument.parameter.name] = value
        return positional, keywords

    if out_axes is ...:
        results = _result_axes(f)
    else:
        results = out_axes
    return Call(
        display_name(innermost(f)), f, tuple(leaves), rebuild, results, made_sizes
    )


def out_axes_of(call: Call, result: Any, dim: str, needed: bool = True) -> AxesOf:
    """The dimension's position in each leaf of the result. Raises ``CannotTell``, where it is ``needed`` also if none
    has it."""
    if call.out_axes is ...:
        raise CannotTell(
            f"no annotation says where {dim!r} is in the result: annotate it, or say so with out_axes="
        )
    found: AxesOf = []

    def note(axis: Any, part: Any) -> None:
        if isinstance(axis, ArrayType):
            axis = axis_in(shape_of_type(axis), dim)
        for leaf in jax.tree.leaves(part):
            found.append(
                axis % np.ndim(leaf)
                if isinstance(axis, int) and np.ndim(leaf)
                else None
            )

    try:
        jax.tree.map(
            note,
            call.out_axes,
            result,
            is_leaf=lambda x: x is None or isinstance(x, (ArrayType, int)),
        )
    except (TypeError, ValueError) as error:
        line = str(error).splitlines()[0]
        raise CannotTell(
            f"the result has another structure than its annotation or out_axes: {line}"
        ) from None
    if needed and all(axis is None for axis in found):
        raise CannotTell(f"no result has the dimension {dim!r}")
    return found


def axis_in(shape: Shape, dim: str) -> int | tuple[int, ...] | None:
    """The position of a dimension in a shape string, or its positions; None for one that it does not have alone."""
    found = [
        at
        for at, entry in enumerate(shape.dims)
        if entry.size is not None and entry.size.symbol_name == dim
    ]
    variadic = [at for at, entry in enumerate(shape.dims) if entry.kind == "variadic"]
    found = [
        at - len(shape.dims) if variadic and variadic[0] < at else at for at in found
    ]
    if len(found) > 1:
        return tuple(found)
    if found:
        return found[0]
    return None


def hints_of(f: Function) -> dict[str, Any]:
    """The annotations of a function, those of jaxtyping as ours; none where they cannot be read."""
    inner = innermost(f)
    try:
        hints = evaluated_hints(inner)
    except UNREADABLE:
        return {}
    return {name: translated(hint, any_array=True) for name, hint in hints.items()}


def _arguments(
    f: Function, examples: Sequence[Any], named: Mapping[str, Any]
) -> list[Argument]:
    try:
        return [
            replace(
                argument, annotation=translated(argument.annotation, any_array=True)
            )
            for argument in arguments_of(f, tuple(examples), named)
        ]
    except ShapeStringError as error:
        raise CannotTell(str(error)) from None
    except CannotMake as error:
        found = _jaxtyped(f, examples, named)
        if found is None:
            raise CannotTell(str(error)) from None
        return found
    except UNREADABLE:
        return [
            Argument(
                inspect.Parameter(f"argument{at}", inspect.Parameter.POSITIONAL_ONLY),
                _MISSING,
                value,
            )
            for at, value in enumerate(examples)
        ] + [
            Argument(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY), _MISSING, value
            )
            for name, value in named.items()
        ]


def _jaxtyped(
    f: Function, examples: Sequence[Any], named: Mapping[str, Any]
) -> list[Argument] | None:
    """The arguments where those that are not given have annotations of jaxtyping; None where others are missing."""
    hints = hints_of(f)
    signature = inspect.signature(f)
    given = dict(signature.bind_partial(*examples, **named).arguments)
    found = []
    for name, parameter in signature.parameters.items():
        hint = hints.get(name, _MISSING)
        if name in given:
            found.append(Argument(parameter, hint, given[name]))
        elif array_annotation(hint) is not None:
            found.append(Argument(parameter, hint, _MISSING))
        elif parameter.default is parameter.empty or parameter.kind in _REST:
            return None
    return found


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray)) and not (
        isinstance(leaf, np.ndarray) and leaf.dtype == object
    )


# --- where the dimension is -----------------------------------------------------------------------------------------


def _given_axes(in_axes: Axes, arguments: list[Argument]) -> dict[str, Any] | None:
    """What the caller says, by parameter."""
    if in_axes is ...:
        return None
    if isinstance(in_axes, dict):
        return in_axes
    names = [argument.parameter.name for argument in arguments]
    if in_axes is None or isinstance(in_axes, int):
        return dict.fromkeys(names, in_axes)
    return dict(zip(names, in_axes, strict=False))


def _axes_of(
    argument: Argument, value: Any, dim: str, given: dict[str, Any] | None
) -> list[Any]:
    """The dimension's position in each leaf of an argument."""
    count = len(jax.tree.leaves(value))
    found: list[Any] = []
    if given is not None:
        prefix = given.get(argument.parameter.name)
        is_end = lambda x: x is None or isinstance(x, int)  # noqa: E731
    else:
        prefix = _array_types(argument.annotation, value)
        is_end = lambda x: x is None or isinstance(x, ArrayType)  # noqa: E731

    def note(end: Any, part: Any) -> None:
        if isinstance(end, ArrayType):
            axis = axis_in(shape_of_type(end), dim)
        else:
            axis = end
        found.extend([axis] * len(jax.tree.leaves(part)))

    try:
        jax.tree.map(note, prefix, value, is_leaf=is_end)
    except (TypeError, ValueError):
        found = []
    if len(found) == count:
        return found
    return [None] * count


def _from_front(axis: Any, rank: int) -> Any:
    """A position, or positions, that may count from the end."""
    if isinstance(axis, tuple):
        return tuple(at % rank for at in axis)
    if isinstance(axis, int) and rank:
        return axis % rank
    return None


def _array_types(annotation: Any, value: Any) -> Any:
    if annotation is _MISSING or value is None:
        return None
    try:
        return map_type(annotation, lambda array: array, example=value)
    except (TypeError, ValueError, AttributeError):
        return None


def _result_axes(f: Function) -> Any:
    """Annotations of the result; ``...`` where there are none, or ``vmap`` adds dimensions to it."""
    hint = hints_of(f).get("return")
    if hint is None or mappings(f):
        return ...
    try:
        return map_type(hint, lambda array: array)
    except (TypeError, ValueError):
        return ...


# --- values ---------------------------------------------------------------------------------------------------------


def _values(
    f: Function, dim: str, arguments: list[Argument], fixed: Sizes
) -> tuple[list[Any], Sizes]:
    """The values of all arguments; sizes are tried until the program takes them."""
    if all(
        argument.value is not _MISSING
        for argument in arguments
        if argument.guess is None
    ) and not any(argument.guess is not None for argument in arguments):
        return [argument.value for argument in arguments], {}
    known = {**_sizes_given(arguments), **fixed}
    names = _names(arguments)
    refused: Exception | None = None
    for sizes in _assignments([name for name in names if name not in known], dim):
        sizes = {**known, **sizes}
        try:
            values = made(arguments, dim, sizes)
        except (CannotMake, TypeError, ValueError) as error:
            raise CannotTell(str(error)) from None
        try:
            is_split = _is_split(f, arguments, values)
        except Exception as error:  # noqa: BLE001 - whatever a program raises for sizes that it is not for
            refused = refused or error
            continue
        if is_split and dim not in known:  # several positions for each device
            sizes = {**sizes, dim: 2 * sizes[dim]}
            larger = made(arguments, dim, sizes)
            with contextlib.suppress(Exception):
                _is_split(f, arguments, larger)
                return larger, sizes
            sizes[dim] //= 2
        return values, sizes
    text = first_line(refused) or type(refused).__name__
    raise CannotTell(
        f"no sizes were found that it takes ({text}): give examples, or sizes="
    ) from refused


def _is_split(f: Function, arguments: list[Argument], values: list[Any]) -> bool:
    """Whether the program runs over devices. Raises whatever it raises for these arguments."""
    arrays = [value if _all_arrays(value) else None for value in values]

    def run(traced: list[Any]) -> Any:
        whole = [
            value if part is None else part
            for part, value in zip(traced, values, strict=True)
        ]
        pairs = list(zip(arguments, whole, strict=True))
        first = [value for argument, value in pairs if argument.is_positional]
        return f(
            *first,
            **{a.parameter.name: value for a, value in pairs if not a.is_positional},
        )

    with enabled(False):
        try:
            return _has_shard_map(jax.make_jaxpr(run)(arrays).jaxpr)
        except jax.errors.JAXTypeError:  # what it does depends on values
            run(arrays)
            return False


def _has_shard_map(jaxpr: Any) -> bool:
    return any(
        eqn.primitive.name == "shard_map"
        or any(map(_has_shard_map, jaxprs_in_params(eqn.params)))
        for eqn in jaxpr.eqns
    )


def _all_arrays(value: Any) -> bool:
    leaves = jax.tree.leaves(value)
    return bool(leaves) and all(map(_is_array, leaves))


def _names(arguments: list[Argument]) -> list[str]:
    found: dict[str, None] = {}
    for shape in shapes_of(arguments):
        for dim in shape.dims:
            found.update(
                dict.fromkeys(sorted(dim.size.symbols) if dim.size is not None else ())
            )
    return list(found)


def _sizes_given(arguments: list[Argument]) -> dict[str, int]:
    """The sizes that given values have for names."""
    found: dict[str, int] = {}
    for argument in arguments:
        if argument.value is _MISSING or argument.annotation is _MISSING:
            continue
        types = _array_types(argument.annotation, argument.value)

        def note(end: Any, part: Any) -> None:
            if isinstance(end, ArrayType):
                dims = shape_of_type(end).dims
                for leaf in jax.tree.leaves(part):
                    if len(np.shape(leaf)) == len(dims):
                        found.update(
                            (dim.size.symbol_name, size)
                            for dim, size in zip(dims, np.shape(leaf), strict=True)
                            if dim.size is not None and dim.size.symbol_name is not None
                        )

        try:
            jax.tree.map(
                note,
                types,
                argument.value,
                is_leaf=lambda x: x is None or isinstance(x, ArrayType),
            )
        except (TypeError, ValueError):
            continue
    return found


def _assignments(names: list[str], dim: str) -> Iterator[dict[str, int]]:
    for series, own in itertools.product(_OTHERS, (_SIZE, 2 * _SIZE)):
        endless = itertools.chain(series, itertools.cycle(series[-2:]))
        others = [name for name in names if name != dim]
        sizes = dict(zip(others, endless, strict=False))
        if dim in names:
            sizes[dim] = own
        yield sizes


def made(arguments: list[Argument], dim: str, sizes: Sizes) -> list[Any]:
    """Values for all arguments: those that are given, and random ones of the annotated shapes."""
    rng = np.random.default_rng(0)
    values = []
    for argument in arguments:
        if argument.guess is not None:
            values.append(argument.guess.value(sizes))
        elif argument.value is not _MISSING:
            values.append(argument.value)
        else:
            tree = map_type(
                argument.annotation,
                lambda array: struct(array, sizes, None, ()),
                many=_several,
            )
            if any(
                isinstance(axis_in(shape_of_type(array), dim), tuple)
                for array in _leaf_types(argument.annotation)
            ):
                name = argument.parameter.name
                raise CannotMake(
                    f"give an example of {name!r}, which is between positions of {dim!r}"
                )
            values.append(jax.tree.map(lambda leaf: random_array(leaf, rng), tree))
    return values


def _leaf_types(annotation: Any) -> list[ArrayType]:
    found: list[ArrayType] = []
    map_type(annotation, found.append, many=lambda container, item: item)
    return found


def _several(container: type, item: Any) -> Any:
    if issubclass(container, (list, tuple)):
        return container([item, item])
    if container is type(None):
        return item
    raise CannotMake("give an example of a dict: its annotation does not say its keys")


def random_array(struct: Any, rng: np.random.Generator) -> Any:
    """Values of a shape and dtype: floats about 1, integers 0 and 1, which are in range everywhere, True, keys."""
    if is_key(struct):
        return jax.random.split(
            jax.random.key(int(rng.integers(1 << 30))), struct.shape
        )
    if struct.dtype == bool:
        return np.ones(struct.shape, bool)
    if jnp.issubdtype(struct.dtype, jnp.integer):
        return rng.integers(0, 2, struct.shape).astype(struct.dtype)
    values = rng.standard_normal(struct.shape)
    if jnp.issubdtype(struct.dtype, jnp.complexfloating):
        values = values + 1j * rng.standard_normal(struct.shape)
    return values.astype(struct.dtype)
