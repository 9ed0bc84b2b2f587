"""Arguments of a call as lowerings take them, with what stands for those of which little is known."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from inspect import BoundArguments
from typing import Any

from shardlint.ops.alternatives import AXES, LEFT_OUT
from shardlint.ops.arrays import (
    as_array,
    dtype_name,
    only_array,
    refuse_list_of_axes,
    refuse_non_axis,
)
from shardlint.ops.open_sizes import open_size
from shardlint.ops.registry import (
    Call,
    OpContext,
)
from shardlint.ops.sharding.base import adopted
from shardlint.ops.sharding.state import (
    axes_met,
    clean,
    marks,
    state,
)
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    DTypeValue,
    ExternalValue,
    FunctionValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    SliceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes
from shardtypes.semantics.array import (
    Array,
    Dim,
    UnknownRank,
)
from shardtypes.semantics.lowerings import LOWERINGS, Unsupported
from shardtypes.semantics.lowerings.collectives import collectives
from shardtypes.semantics.lowerings.convert import DType
from shardtypes.semantics.registry import unread
from shardtypes.semantics.relation import (
    SAME,
    UNKNOWN,
    VARYING,
    Relation,
    Relations,
    part,
    split,
)
from shardtypes.semantics.sizes import simple

#: What stands for a dtype that is not known: the shape of a result seldom depends on it.
_STAND_IN = {
    "signed": "int32",
    "unsigned": "uint32",
    "bool": "bool",
    "complex": "complex64",
}


_SLIDING = """conv conv_general_dilated conv_with_general_padding conv_transpose conv_general_dilated_patches
reduce_window""".split()
_OF_WINDOWS = tuple(
    """window_strides strides padding lhs_dilation rhs_dilation feature_group_count batch_group_count filter_shape
    window_dimensions base_dilation window_dilation""".split()
)
#: Parameters that say sizes alone: of one that is not known the result has an unknown size.
NUMBERS: dict[str, tuple[str, ...]] = {
    "jax.numpy.repeat": ("repeats",),
    "jax.numpy.tile": ("reps",),
    "jax.numpy.pad": ("pad_width",),
    "jax.numpy.resize": ("new_shape",),
    "jax.lax.top_k": ("k",),
    "jax.lax.approx_max_k": ("k",),
    "jax.lax.iota": ("size",),
    "jax.numpy.indices": ("dimensions",),
    "jax.numpy.eye": ("N", "M"),
    "jax.numpy.tri": ("N", "M"),
    "jax.numpy.identity": ("n",),
    "jax.scipy.special.bernoulli": ("n",),
    **{f"jax.numpy.{name}": ("num",) for name in "linspace logspace geomspace".split()},
    **{
        f"jax.numpy.{name}": ("M",)
        for name in "bartlett blackman hamming hanning kaiser".split()
    },
    **{f"jax.lax.{name}": _OF_WINDOWS for name in _SLIDING},
    "jax.lax.slice_in_dim": ("start_index", "limit_index"),
    "jax.lax.dynamic_slice_in_dim": ("slice_size",),
    **{
        f"jax.numpy.fft.{name}": ("n",)
        for name in "fft ifft rfft irfft hfft ihfft".split()
    },
    **{
        f"jax.numpy.{name}": ("size",)
        for name in "argwhere flatnonzero nonzero union1d unique".split()
    },
    **{
        f"jax.ops.segment_{name}": ("num_segments",)
        for name in "sum prod min max".split()
    },
}
#: Parameters that take any number of sizes, or one shape.
_ARE_SIZES = frozenset({("jax.Array.reshape", "args")})
#: Parameters of any function that are one size or several.
OF_SIZES = frozenset({"shape", "new_sizes", "sizes", "slice_sizes"})
_ARRAY_LIKE = ("ArrayLike", "ArrayLike | None", "Array")
#: Parameters that are several arrays.
_OF_ARRAYS = frozenset(
    "arrays tup operands tensor tensors choicelist tensors_and_pattern xi".split()
)
_DTYPES = frozenset({"dtype", "new_dtype", "index_dtype", "preferred_element_type"})
#: Those of all these whose length the rank of the result may depend on.
_MAYBE_SEVERAL = frozenset({"reps", "new_shape", "dimensions", *OF_SIZES})
#: Parameters on which values depend, but no shape and no dtype, and what stands for one that is not known.
_ZERO = IntValue(Size.const(0))
_STAND_INS: dict[tuple[str, str], Value] = {
    ("jax.numpy.triu", "k"): _ZERO,
    ("jax.numpy.tril", "k"): _ZERO,
    ("jax.numpy.trace", "offset"): _ZERO,
    ("jax.numpy.eye", "k"): _ZERO,
    ("jax.numpy.tri", "k"): _ZERO,
    ("jax.numpy.kaiser", "beta"): _ZERO,
    ("jax.numpy.ravel", "order"): Literal("C"),
    ("jax.numpy.reshape", "order"): Literal("C"),
    ("jax.Array.ravel", "order"): Literal("C"),
    ("jax.Array.flatten", "order"): Literal("C"),
    ("jax.Array.reshape", "order"): Literal("C"),
    ("jax.numpy.take", "mode"): Literal(None),
    ("jax.numpy.take", "fill_value"): Literal(None),
    ("jax.numpy.take_along_axis", "mode"): Literal(None),
    ("jax.numpy.take_along_axis", "fill_value"): Literal(None),
    ("jax.numpy.linalg.norm", "ord"): Literal(None),
    ("jax.numpy.partition", "kth"): _ZERO,
    ("jax.lax.integer_pow", "y"): IntValue(Size.const(1)),
    ("jax.lax.reduce_window", "computation"): Literal(None),
    ("jax.lax.reduce_window", "init_value"): Literal(0.0),
}


def is_lowered(qualname: str) -> bool:
    """Whether there is a lowering, of a function that talks to no other device."""
    return qualname in LOWERINGS and qualname not in _COLLECTIVES


_COLLECTIVES = {
    f"jax.lax.{name}" for name in collectives("combines", "exchanges", "asks", "casts")
}


@dataclass
class Arguments:
    """Those of one call. ``arrays`` are those among them, ``operands`` also its numbers that stand for arrays, in these
    ``places``, ``vague`` whether the dtype of an array is not known, or known as one of several only: a concrete dtype
    ``stands_in`` for it by wish. ``rank`` is the one that is tried for arrays of which it is not known."""

    call: Call
    stands_in: bool = False
    rank: int | None = None
    arrays: list[ArrayValue] = field(default_factory=list)
    operands: list[ArrayValue] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    place: int = 0
    is_operand: bool = False
    vague: bool = False
    opaque: int = 0

    @property
    def ctx(self) -> OpContext:
        return self.call.ctx

    def bound(self, signature: inspect.Signature) -> BoundArguments:
        """As the lowering takes them. Raises Unsupported for one that is not known."""
        given = {}
        for place, (name, parameter) in enumerate(signature.parameters.items()):
            if self.call.args.get(name, LEFT_OUT) is LEFT_OUT:
                continue
            if name in unread(self.call.qualname):
                continue
            value = self.call[name]
            self.place = place
            self._refuse_argument(parameter, value)
            self.is_operand = name in _OF_ARRAYS or parameter.annotation in _ARRAY_LIKE
            if name in _OF_ARRAYS:
                value = _all_arrays(value)
            if name == "axes_lengths":
                value = _all_numbers(value)
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                given[name] = self._several(name, value)
            else:
                is_flag = isinstance(parameter.default, bool)
                given[name] = self._argument(name, value, is_flag)
        return BoundArguments(signature, given)

    def _several(self, name: str, value: Value) -> Any:
        """The arguments of a parameter that takes any number of them."""
        if not isinstance(value, SequenceValue):
            return self.given(value)
        if (self.call.qualname, name) in _ARE_SIZES:
            return self._sizes_or_shape(value.items)
        found = []
        for item in value.items:
            found.append(self.given(item))
            self.place += 1
        return tuple(found)

    def _refuse_argument(self, parameter: inspect.Parameter, value: Value) -> None:
        """Raises OpError for a sequence in the place of an array, and for an axis that is none."""
        is_axis = parameter.name in AXES
        if parameter.name in NUMBERS.get(self.call.qualname, ()):
            is_axis = False
        if is_axis:
            refuse_non_axis(self.call, value)
        if not isinstance(value, SequenceValue):
            return
        if is_axis:
            refuse_list_of_axes(self.call, value)
            for item in value.items:
                refuse_non_axis(self.call, item)
        is_one = parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        if is_one and parameter.annotation in ("ArrayLike", "ArrayLike | None"):
            position = list(self.call.args).index(parameter.name)
            only_array(self.call, value, position)

    def _argument(self, name: str, value: Value, is_flag: bool) -> Any:
        if name in _DTYPES and _may_be_dtype(value):
            return self._dtype_argument(value)
        if name in NUMBERS.get(self.call.qualname, ()) or name in OF_SIZES:
            value = self._numbered(value, name not in _MAYBE_SEVERAL)
        elif isinstance(value, FunctionValue):
            value = self._without_shape(name, value)
        elif self.ctx.view is None and isinstance(value, (Unknown, IntValue)):
            value = self._without_shape(name, value)
        if name in OF_SIZES and _is_unknown_shape(value):
            return self._unknown_shape()
        if is_flag and isinstance(value, IntValue) and value.size is None:
            raise Unsupported("a flag that is not known")
        return self.given(value)

    def _sizes_or_shape(self, items: Sequence[Value]) -> tuple[Any, ...]:
        """Sizes, or one argument that is a shape."""
        if len(items) != 1:
            return tuple(self.given(self._size_in_shape(item)) for item in items)
        (shape,) = items
        if _is_unknown_shape(shape):
            return (self._unknown_shape(),)
        return (self.given(self._numbered(shape, False)),)

    def _unknown_shape(self) -> tuple[Size, ...]:
        """A shape of which nothing is known: that of the rank that is tried."""
        if self.rank is None:
            raise UnknownRank
        return tuple(self._opaque() for _ in range(self.rank))

    def _dtype_argument(self, value: Value) -> DType:
        known = dtype_name(value, self.ctx)
        if known is not None:
            return DType(known)
        self.vague = True
        return DType("float32" if self.stands_in else None)

    def _numbered(self, value: Value, is_one: bool) -> Value:
        """An argument that says sizes, with others for those that are not known. ``is_one``: whatever it is, it makes
        one size."""
        match value:
            case IntValue(size=None) | ArrayValue(dims=()):
                return IntValue(self._opaque())
            case Unknown(size=Size() as size) if is_one:
                return IntValue(size)
            case Unknown() | ArrayValue() if is_one:
                return IntValue(self._opaque())
            case SequenceValue(items=items):
                return replace(value, items=tuple(map(self._size_in_shape, items)))
            case _:
                return value

    def _size_in_shape(self, value: Value) -> Value:
        """One of several sizes; what is not known there is a number for certain."""
        return self._numbered(value, True)

    def _without_shape(self, name: str, value: Value) -> Value:
        """An argument on which no shape depends, as one that is known."""
        stand_in = _STAND_INS.get((self.call.qualname, name))
        is_known = isinstance(value, IntValue) and value.size is not None
        return value if is_known or stand_in is None else stand_in

    def _opaque(self) -> Size:
        """A size that is not known."""
        self.opaque += 1
        return open_size(self.opaque)

    def given(self, value: Value) -> Any:
        """An argument as lowerings take it. Raises Unsupported for one that is not known."""
        if isinstance(value, ArrayValue) or (self.is_operand and _is_a_number(value)):
            self.places.append(self.place)
            self.operands.append(as_array(value) or ArrayValue(()))
        match value:
            case ArrayValue():
                return self._array(value)
            case IntValue(size=size):
                return simple(size or self._opaque())
            case ScalarValue():
                return self._number(value)
            case Literal(value=known):
                return known
            case SequenceValue(items=items, kind="list"):
                return [self.given(item) for item in items]
            case SequenceValue(items=items):
                return tuple(self.given(item) for item in items)
            case DictValue(items=pairs):
                return {key: self.given(item) for key, item in pairs}
            case SliceValue(lower=lower, upper=upper, step=step):
                return slice(*(self.given(one) for one in (lower, upper, step)))
            case DTypeValue() | ExternalValue():
                return self._named(value)
        raise Unsupported("an argument that is not known")

    def _number(self, value: ScalarValue) -> Array:
        array = as_array(value)
        if array is None:
            raise Unsupported("an argument that is not known")
        relations = None
        if self.ctx.view is not None:
            relations = Relations()
        return Array((), array.dtype, array.weak, relations)

    def _named(self, value: DTypeValue | ExternalValue) -> Any:
        name = dtype_name(value, self.ctx)
        if name is not None:
            return DType(name)
        if isinstance(value, ExternalValue) and is_lowered(value.qualname):
            return LOWERINGS[value.qualname]
        raise Unsupported("an argument that is not known")

    def _array(self, value: ArrayValue) -> Array:
        dtype = self._dtype(value)
        if self.ctx.view is not None:
            value = adopted(value)
        self.arrays.append(value)
        shape: tuple[Dim, ...] | None = None
        if value.dims is not None:
            shape = tuple(map(self._size, value.dims))
        elif self.rank is not None:
            shape = tuple(self._opaque() for _ in range(self.rank))
        made = Array(shape, dtype, value.weak, self._relations(value))
        if self.ctx.view is not None or value.dims is None:
            return made
        assert shape is not None
        number = len(self.arrays) - 1
        origins = tuple(frozenset({(number, k)}) for k in range(len(shape)))
        return replace(made, origins=origins)

    def _dtype(self, value: ArrayValue) -> str | None:
        dtype = value.dtype
        if value.numpy and dtype is not None:
            dtype = dtypes.canonical(dtype, self.ctx.x64)
        if dtype in dtypes.CONCRETE:
            return dtype
        self.vague = True
        if self.stands_in:
            return _stand_in(dtype)
        return dtype

    def _size(self, dim: Dimension) -> Dim:
        if dim.size is None:
            return self._opaque()
        found: Dim = simple(dim.size)
        return found

    def _relations(self, value: ArrayValue) -> Relations | None:
        if self.ctx.view is None:
            return None
        over = {}
        # of the axes that shard one dimension, the major one comes first
        split_axes = [axis for dim in value.dims or () for axis in dim.axes or ()]
        for axis in dict.fromkeys([*split_axes, *sorted(axes_met([value]))]):
            over[axis] = _relation(value, axis)
        rest = UNKNOWN if value.unclear.all_but else SAME
        return Relations.of(over, rest)


def _is_a_number(value: Value) -> bool:
    if isinstance(value, Literal):
        return isinstance(value.value, (bool, float, complex))
    return isinstance(value, (IntValue, ScalarValue))


def _may_be_dtype(value: Value) -> bool:
    is_text = isinstance(value, Literal) and isinstance(value.value, str)
    return is_text or isinstance(value, (Unknown, DTypeValue))


def _is_unknown_shape(value: Value) -> bool:
    """Whether it is a shape of which nothing is known; an array of rank 0 is one size."""
    if isinstance(value, ArrayValue):
        return value.dims != ()
    return isinstance(value, Unknown)


def _all_arrays(value: Value) -> Value:
    """Several arrays, with those among them of which nothing is known."""
    if not isinstance(value, SequenceValue):
        return value
    items = [
        ArrayValue(None) if isinstance(item, Unknown) else item for item in value.items
    ]
    return replace(value, items=tuple(items))


def _all_numbers(value: Value) -> Value:
    """Lengths by name, with those of which nothing is known."""
    if not isinstance(value, DictValue):
        return value
    pairs = []
    for name, size in value.items:
        known = IntValue(size.size) if isinstance(size, Unknown) else size
        pairs.append((name, known))
    return DictValue(tuple(pairs))


def _relation(value: ArrayValue, axis: str) -> Relation:
    """The relation that state and marks stand for; nothing is known where they say more than it does."""
    found = state(value, axis)
    beyond = marks(value, axis) - {"split", "reduction"}
    if beyond:
        return UNKNOWN
    if found == "replicated":
        return SAME
    if found == "varying":
        return VARYING
    if found == "pending":
        return part()
    if found == "sharded" and clean(value, axis):
        for k, dim in enumerate(value.dims or ()):
            if axis in (dim.axes or ()):
                return split(k)
    return UNKNOWN


def _stand_in(dtype: str | None) -> str:
    for kind, name in _STAND_IN.items():
        if dtype is not None and dtypes.is_kind(dtype, kind) is True:
            return name
    return "float32"
