"""Functions that have no model here, by their lowering onto primitives: what a lowering says of shapes, dtypes and
relations holds of them, too."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from inspect import BoundArguments
from typing import Any, TypeVar

from shardlint.ops import alternatives, open_ranks
from shardlint.ops.alternatives import AXES, LEFT_OUT
from shardlint.ops.arrays import (
    ONE,
    as_array,
    axis_error,
    axis_given_twice,
    cannot_broadcast,
    different,
    dtype_name,
    only_array,
    refuse_list_of_axes,
    refuse_non_axis,
    shown,
    shown_size,
)
from shardlint.ops.registry import (
    Call,
    Model,
    OpContext,
    OpError,
    Parameter,
    Signature,
    constant,
)
from shardlint.ops.sharding.base import Op, adopted, computed
from shardlint.ops.sharding.combining import used
from shardlint.ops.sharding.explicit import GlobalOp, Split
from shardlint.ops.sharding.origins import Origins as ExplicitOrigins
from shardlint.ops.sharding.state import (
    FACTORED,
    axes_met,
    clean,
    marks,
    settled,
    state,
    unclear_axes,
)
from shardlint.ops.sharding.view import View
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    DTypeValue,
    ExternalValue,
    IntValue,
    Literal,
    MeshValue,
    Note,
    ScalarValue,
    SequenceValue,
    SliceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Different, Size, dtypes
from shardtypes.lang.facts import Facts, broadcast
from shardtypes.lang.messages import sharded_over
from shardtypes.semantics.array import (
    Array,
    Dim,
    NotConcrete,
    Origin,
    Origins,
    Shape,
    UnknownRank,
)
from shardtypes.semantics.comparison import Why, aligned, comparing
from shardtypes.semantics.lowerings import LOWERINGS, Unsupported
from shardtypes.semantics.lowerings.collectives import collectives
from shardtypes.semantics.lowerings.convert import (
    AxisGivenTwice,
    AxisOutOfRange,
    DType,
    x64,
)
from shardtypes.semantics.registry import Refused, public_signature, unread
from shardtypes.semantics.relation import (
    SAME,
    UNKNOWN,
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


#: Parameters that say sizes alone: of one that is not known the result has an unknown size.
NUMBERS: dict[str, tuple[str, ...]] = {
    "jax.numpy.repeat": ("repeats",),
    "jax.numpy.tile": ("reps",),
    "jax.numpy.pad": ("pad_width",),
    "jax.numpy.resize": ("new_shape",),
    "jax.lax.top_k": ("k",),
    "jax.lax.approx_max_k": ("k",),
    "jax.lax.iota": ("size",),
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
#: Parameters of any function that are one size or several.
_OF_SIZES = frozenset({"shape", "new_sizes", "sizes", "slice_sizes"})
_DTYPES = frozenset({"dtype", "new_dtype", "index_dtype"})
#: Those of all these whose length the rank of the result may depend on.
_MAYBE_SEVERAL = frozenset({"reps", "new_shape", *_OF_SIZES})
#: Parameters on which values depend, but no shape and no dtype, and what stands for one that is not known.
_ZERO = IntValue(Size.const(0))
_STAND_INS: dict[tuple[str, str], Value] = {
    ("jax.numpy.triu", "k"): _ZERO,
    ("jax.numpy.tril", "k"): _ZERO,
    ("jax.numpy.trace", "offset"): _ZERO,
    ("jax.numpy.linalg.norm", "ord"): Literal(None),
    ("jax.numpy.partition", "kth"): _ZERO,
    ("jax.lax.integer_pow", "y"): IntValue(Size.const(1)),
}


def is_lowered(qualname: str) -> bool:
    """Whether there is a lowering, of a function that talks to no other device."""
    return qualname in LOWERINGS and qualname not in _COLLECTIVES


_COLLECTIVES = {
    f"jax.lax.{name}" for name in collectives("combines", "exchanges", "asks", "casts")
}


@cache
def find_lowered(qualname: str) -> Model | None:
    """What is known of a function by its lowering, as a model; NumPy's functions fall back on their twins."""
    for name in (qualname, f"jax.{qualname}"):
        if is_lowered(name):
            return _Lowered(name, partial(model, name), "", places=True)
    return None


class _Lowered(Model):
    """A function that is known by its lowering."""

    __slots__ = ()

    @property
    def signature(self) -> Signature:
        return _parameters(self.qualname)

    @property
    def most(self) -> int:
        return len(self.signature.positional) + len(unread(self.qualname))


@cache
def _parameters(qualname: str) -> Signature:
    """Those of a lowering. A default that is no constant is left out, as the lowering has it."""
    found = []
    for one in public_signature(qualname).parameters.values():
        default: Value | None = None
        if one.default is not one.empty:
            default = LEFT_OUT
        if _is_simple(one.default):
            default = constant(one.default)
        found.append(Parameter(one.name, _KINDS[one.kind], default))
    return Signature(tuple(found))


_KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}


def _is_simple(default: object) -> bool:
    return default is None or isinstance(default, (bool, int, float, str))


#: How sizes are named here that are not known. (``?name`` is a number that a function was given.)
_OPEN = "??"
_CODES = {
    "operands": "ST204",
    "sizes": "ST206",
    "ranks": "ST208",
    "dtypes": "ST212",
    "indices": "ST214",
}
#: Of a condition and what it chooses of, as of what is joined.
_BROADCAST = {"jax.numpy.where": "ST209"}


def model(qualname: str, call: Call) -> Value:
    """The result of a call by the lowering of a function; something unknown where that does not cover the call.

    Raises OpError where JAX certainly refuses the call, or a partial sum is used as if it were complete.
    """
    if call.ctx.view is not None:
        return _model(qualname, call)
    calls = alternatives.of_call(qualname, call, public_signature(qualname))
    if len(calls) == 1:
        return _model(qualname, calls[0])
    if not calls:
        return _not_followed(qualname, call, "arguments that are not known")
    found = alternatives.in_common([_tried(qualname, one) for one in calls])
    if isinstance(found, OpError):
        raise found
    return found


def _tried(qualname: str, call: Call) -> Value | OpError:
    try:
        return _model(qualname, call)
    except OpError as error:
        return error


def _model(qualname: str, call: Call) -> Value:
    reading = _Reading(call)
    try:
        return _read(qualname, reading)
    except _NotFollowed as error:
        reason = str(error)
    if reading.vague:
        # the lowering may have asked for a dtype that is not known: shapes seldom depend on it
        try:
            return _read(qualname, _Reading(call, stands_in=True))
        except _NotFollowed:
            pass
    return _not_followed(qualname, call, reason)


def _not_followed(qualname: str, call: Call, reason: str) -> Value:
    if _gives_array(qualname):
        return _open(call)
    return open_ranks.of_call(call) or Unknown(reason)


@cache
def _gives_array(qualname: str) -> bool:
    """Whether the result of a function is an array, whatever it is given."""
    return public_signature(qualname).return_annotation in ("Array", Array)


def _open(call: Call) -> Value:
    """The result of a function that gives an array, where nothing more than that is known, or its rank."""
    view = call.ctx.view
    if view is None:
        return open_ranks.of_call(call) or ArrayValue(None)
    values = list(call.args.values())
    arrays = tuple(_arrays_in(values))
    positions = tuple(range(len(arrays)))
    op = Op(call, view, arrays, positions)
    return computed(op, ArrayValue(None), [])


def _arrays_in(values: Sequence[Value]) -> Iterator[ArrayValue]:
    for value in values:
        if isinstance(value, ArrayValue):
            yield adopted(value)
        if isinstance(value, SequenceValue):
            yield from _arrays_in(value.items)


class _NotFollowed(Exception):
    """Raised for a call that is not covered."""


def _read(qualname: str, reading: _Reading) -> Value:
    call = reading.call
    try:
        given = reading.arguments(public_signature(qualname))
        with x64(call.ctx.x64), comparing(reading):
            found = LOWERINGS[qualname](*given.args, **given.kwargs)
    except UnknownRank:
        return reading.of_unknown_rank(qualname)
    except AxisOutOfRange as error:
        raise reading.refused_axis(error) from None
    except AxisGivenTwice as error:
        raise reading.given_twice(error) from None
    except Refused as error:
        raise reading.refused(error) from None
    except (Unsupported, NotConcrete):
        raise _NotFollowed(f"{call.name} in this form is not followed") from None
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        ArithmeticError,
    ):
        # arguments of another kind than the function takes: of what JAX says to them nothing is known here
        raise _NotFollowed(f"arguments of {call.name} not understood") from None
    return reading.value(found)


def kept_axes(op: GlobalOp, out: ArrayValue, origins: ExplicitOrigins) -> Split:
    """On explicit axes: the dimensions of one array that come out again keep their axes, if none that has any is
    lost."""
    if len(op.operands) != 1 or op.dims is None:
        return None
    places = [origin[1] for origin in origins if origin is not None]
    lost = [dim for k, dim in enumerate(op.dims) if k not in places]
    if any(dim.axes != () for dim in lost) or any(dim.axes is None for dim in op.dims):
        return None
    return [op.dims[origin[1]].axes if origin else () for origin in origins]


@dataclass
class _Reading:
    """One call. ``arrays`` are those among its arguments, ``vague`` whether the dtype of one is not known, or known as
    one of several only: a concrete dtype ``stands_in`` for it by wish. ``rank`` is the one that is tried for arrays of
    which it is not known."""

    call: Call
    stands_in: bool = False
    rank: int | None = None
    arrays: list[ArrayValue] = field(default_factory=list)
    vague: bool = False
    opaque: int = 0

    @property
    def ctx(self) -> OpContext:
        return self.call.ctx

    # --- arguments --------------------------------------------------------------------------------------------------

    def arguments(self, signature: inspect.Signature) -> BoundArguments:
        """As the lowering takes them. Raises Unsupported for one that is not known."""
        given = {}
        for name, parameter in signature.parameters.items():
            if self.call.args.get(name, LEFT_OUT) is not LEFT_OUT:
                value = self.call[name]
                self._refuse_argument(parameter, value)
                is_flag = isinstance(parameter.default, bool)
                given[name] = self._argument(name, value, is_flag)
        return BoundArguments(signature, given)

    def _refuse_argument(self, parameter: inspect.Parameter, value: Value) -> None:
        """Raises OpError for a sequence in the place of an array, and for an axis that is none."""
        if parameter.name in AXES:
            refuse_non_axis(self.call, value)
        if not isinstance(value, SequenceValue):
            return
        if parameter.name in AXES:
            refuse_list_of_axes(self.call, value)
            for item in value.items:
                refuse_non_axis(self.call, item)
        is_one = parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        if is_one and parameter.annotation in ("ArrayLike", "ArrayLike | None"):
            position = list(self.call.args).index(parameter.name)
            only_array(self.call, value, position)

    def _argument(self, name: str, value: Value, is_flag: bool) -> Any:
        if name in _DTYPES and isinstance(value, (Unknown, DTypeValue)):
            return self._dtype_argument(value)
        if name in NUMBERS.get(self.call.qualname, ()) or name in _OF_SIZES:
            value = self._numbered(value, name not in _MAYBE_SEVERAL)
        elif self.ctx.view is None and isinstance(value, (Unknown, IntValue)):
            value = self._without_shape(name, value)
        if is_flag and isinstance(value, IntValue) and value.size is None:
            raise Unsupported("a flag that is not known")
        return self.given(value)

    def _dtype_argument(self, value: Unknown | DTypeValue) -> DType:
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
            case Unknown() | ArrayValue() if is_one:
                return IntValue(self._opaque())
            case SequenceValue(items=items):
                return replace(value, items=tuple(map(self._size_in_shape, items)))
            case _:
                return value

    def _size_in_shape(self, value: Value) -> Value:
        """One of several sizes; what is not known there is a number for certain."""
        if isinstance(value, Unknown) and value.size is not None:
            return IntValue(value.size)
        return self._numbered(value, True)

    def _without_shape(self, name: str, value: Value) -> Value:
        """An argument on which no shape depends, as one that is known."""
        stand_in = _STAND_INS.get((self.call.qualname, name))
        is_known = isinstance(value, IntValue) and value.size is not None
        return value if is_known or stand_in is None else stand_in

    def _opaque(self) -> Size:
        """A size that is not known."""
        self.opaque += 1
        return Size.symbol(f"{_OPEN}{self.opaque}")

    def given(self, value: Value) -> Any:
        """An argument as lowerings take it. Raises Unsupported for one that is not known."""
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

    def require_equal(self, a: Dim, b: Dim, why: Why) -> None:
        """Two sizes that have to be equal. Raises OpError where they are not."""
        sizes = _known(a), _known(b)
        witness = different(self.ctx, *sizes)
        if witness is None:
            return
        if why is None:
            first, second = map(shown_size, sizes)
            shapes = " and ".join(map(shown, self.arrays))
            text = f"{shapes} do not fit: {first} is not {second}"
        else:
            text = self.with_shapes(str(why))
        of = why.of if isinstance(why, Refused) else "operands"
        raise OpError(_CODES[of], f"{self.call.name}: {text}", witness)

    def divided(self, size: Dim, count: int) -> Dim:
        """The size of each of equal parts: a fact from here on. Raises OpError where there are none."""
        known = _known(size)
        if known is None:
            return self._opaque()
        exact = known.divides_exactly(Size.const(count))
        if exact is not None:
            found: Dim = simple(exact)
            return found
        if known.constant is not None:
            text = f"a size of {known} is not divisible by {count}"
            raise self.refused(Refused(text, "sizes"))
        self.ctx.facts = self.ctx.facts.divides(count, known)
        return known // count

    def broadcast(self, shapes: Sequence[Shape]) -> Shape:
        """The shape that shapes broadcast to. Raises OpError where they do not."""
        result: Shape = ()
        for i, shape in enumerate(shapes):
            merged: list[Dim] = []
            for size, other in zip(*aligned([result, shape]), strict=True):
                found = self._stretched(size, other)
                if isinstance(found, Different):
                    raise self._not_broadcast(shapes[: i + 1], found)
                merged.append(found)
            result = tuple(merged)
            if any(map(_is_not_known, result)):
                self._refuse_beside_open(shapes[: i + 1])
        return result

    def _refuse_beside_open(self, shapes: Sequence[Shape]) -> None:
        """Raises OpError where the last of several shapes fits what is known of all together, but not one of them."""
        *before, last = shapes
        for one in before:
            found = self._difference(one, last)
            if found is not None:
                raise self._not_broadcast(shapes, found)

    def _difference(self, one: Shape, other: Shape) -> Different | None:
        """Why two shapes do not broadcast."""
        pairs = zip(*aligned([one, other]), strict=True)
        stretched = (self._stretched(*pair) for pair in pairs)
        return next((one for one in stretched if isinstance(one, Different)), None)

    def _stretched(self, a: Dim, b: Dim) -> Dim | Different:
        """The size that two broadcast to: one that is not known where either may be 1."""
        if a == b or b == 1:
            return a
        if a == 1:
            return b
        sizes = _known(a), _known(b)
        if None not in sizes:
            outcome = broadcast(*sizes, self.ctx.facts)
            if isinstance(outcome, Different):
                return outcome
            if isinstance(outcome, Size):
                found: Dim = simple(outcome)
                return found
        numbers = [size for size in (a, b) if isinstance(size, int)]
        return next(iter(numbers), self._opaque())

    def _not_broadcast(self, shapes: Sequence[Shape], found: Different) -> OpError:
        """The last of several shapes, and the first before it that it does not fit."""
        *before, last = shapes
        previous = next(one for one in before if self._difference(one, last))
        sizes = [list(map(_known, shape)) for shape in (previous, last)]
        text = cannot_broadcast(self.call.name, *sizes)
        code = _BROADCAST.get(self.call.qualname, "ST204")
        return _NotBroadcast(code, text, found.witness, self._place_of(shapes))

    def _place_of(self, shapes: Sequence[Shape]) -> int | None:
        """Which argument the last of several shapes is, if these are those of the arguments."""
        for array, shape in zip(self.arrays, shapes, strict=False):
            known = None if array.dims is None else [dim.size for dim in array.dims]
            if known != list(map(_known, shape)):
                return None
        return len(shapes) - 1

    def with_shapes(self, text: str) -> str:
        """``needs square matrices, got 'B M'``. A key has no shape to speak of."""
        arrays = [array for array in self.arrays if array.dtype != dtypes.KEY]
        if not arrays:
            return text
        shapes = " and ".join(map(shown, arrays))
        return f"{text}, got {shapes}"

    def refused(self, error: Refused) -> OpError | _NotFollowed:
        """What JAX refuses, as a finding; something that is not followed where a dtype merely stands in for that of an
        operand."""
        text = str(error)
        if error.of == "dtypes" and (self.stands_in or self._has_complex()):
            return _NotFollowed(text)
        if error.of != "dtypes":
            text = self.with_shapes(text)
        return OpError(_CODES[error.of], f"{self.call.name}: {text}")

    def _has_complex(self) -> bool:
        """Whether an operand is complex: ``jax.numpy`` takes them where the functions it is made of do not."""
        known = {array.dtype for array in self.arrays} - {None, dtypes.KEY}
        return any(dtypes.is_kind(one, "complex") is not False for one in known)

    def given_twice(self, error: AxisGivenTwice) -> OpError:
        if len(self.arrays) == 1:
            return axis_given_twice(self.call, error.axis, self.arrays[0])
        return OpError("ST208", f"{self.call.name}: {error}")

    def refused_axis(self, error: AxisOutOfRange) -> OpError | _NotFollowed:
        """An axis that an operand has not."""
        if self.ctx.numpy and error.rank == 0:
            return _NotFollowed("NumPy reduces a scalar along its first axis")
        ranked = [array for array in self.arrays if len(array.dims or ()) == error.rank]
        if len(ranked) == 1:
            return axis_error(self.call, error.axis, ranked[0], error.rank)
        if error.rank == 0:
            return axis_error(self.call, error.axis, ArrayValue(()), 0)
        return OpError("ST208", f"{self.call.name}: {error}")

    # --- relations, in manual code ----------------------------------------------------------------------------------

    def _relations(self, value: ArrayValue) -> Relations | None:
        if self.ctx.view is None:
            return None
        over = {}
        for axis in axes_met([value]):
            over[axis] = _relation(value, axis)
        rest = UNKNOWN if value.unclear.all_but else SAME
        return Relations.of(over, rest)

    # --- results ----------------------------------------------------------------------------------------------------

    def value(self, found: Any) -> Value:
        """What a lowering gives as a value."""
        match found:
            case Array():
                return self._of_array(found)
            case list() | tuple():
                kind = "list" if isinstance(found, list) else "tuple"
                return SequenceValue(tuple(map(self.value, found)), kind)
            case dict():
                return DictValue(
                    tuple((key, self.value(item)) for key, item in found.items())
                )
            case Size():
                return IntValue(None if _is_open(found) else found)
            case None | bool() | int() | float() | complex() | str():
                return constant(found)
        return Unknown(f"what {self.call.name} gives")

    def of_unknown_rank(self, qualname: str) -> Value:
        """The result where more would have to be known of an operand: what all ranks have in common. In manual code,
        what any function gives of such operands."""
        found = self._of_all_ranks(qualname)
        view = self.ctx.view
        if view is None:
            return found
        out = found if isinstance(found, ArrayValue) else ArrayValue(None)
        return computed(self._op(view), replace(out, pending=None), [])

    def _of_all_ranks(self, qualname: str) -> Value:
        if self.rank is not None:
            return ArrayValue(None)  # which is being tried
        ctx = self.ctx
        settings = (ctx.facts, ctx.x64, ctx.numpy, ctx.explicit)
        args = tuple(self.call.args.items())
        call = _AnyRank(self.call.qualname, args, self.stands_in, *settings)
        found = _common_to_all_ranks(qualname, call)
        if isinstance(found, OpError):
            raise OpError(found.code, found.message, found.witness, found.operand)
        return found

    def _op(self, view: View) -> Op:
        arrays = tuple(self.arrays)
        positions = tuple(range(len(arrays)))
        return Op(self.call, view, arrays, positions)

    def _of_array(self, found: Array) -> Value:
        dims: tuple[Dimension, ...] | None = None
        if found.shape is not None:
            dims = tuple(Dimension(_known(size)) for size in found.shape)
        pending: frozenset[str] | None = None
        if all(array.pending == frozenset() for array in self.arrays):
            pending = frozenset()
        if self._is_certain(found.dtype):
            out = ArrayValue(dims, found.dtype, found.weak, pending)
        else:
            out = ArrayValue(dims, pending=pending)
        if self.ctx.view is None:
            return self._with_axes(out, found.origins)
        return self._placed(out, found.relations or Relations())

    def _with_axes(self, out: ArrayValue, origins: Origins | None) -> ArrayValue:
        """In the global view: dimensions that are those of operands are sharded as these are, and have their labels."""
        if out.dims is None or origins is None:
            return out
        dims = []
        for dim, origin in zip(out.dims, origins, strict=True):
            dims.append(self._with_origin(dim, origin))
        return replace(out, dims=tuple(dims))

    def _with_origin(
        self, dim: Dimension, origin: frozenset[Origin] | None
    ) -> Dimension:
        places = origin or ()
        found = [(self.arrays[number].dims or ())[k] for number, k in places]
        axes = _only({one.axes for one in found})
        if self._is_explicit:
            # there JAX may refuse what it would have to gather first
            axes = axes or None
        if dim.size == ONE:
            axes = ()
        return Dimension(dim.size, axes, _only({one.label for one in found}))

    @property
    def _is_explicit(self) -> bool:
        on_mesh = any(array.mesh is not None for array in self.arrays)
        return on_mesh or self.ctx.explicit is not None

    def _is_certain(self, dtype: str | None) -> bool:
        """Whether the dtype of a result is. With 64 bits, JAX's functions differ in which floats they make of integers
        and in which integers of booleans."""
        if self.stands_in or dtype is None:
            return False
        given = {array.dtype for array in self.arrays}
        if not self.ctx.x64 or not given or dtype in given:
            return True
        if any(dtypes.is_kind(one, "floating", "complex") for one in given):
            return True
        return dtype == "int64" and "bool" not in given

    def _placed(self, out: ArrayValue, relations: Relations) -> ArrayValue:
        """The result, as its relations over the mesh axes say."""
        met = axes_met(self.arrays)
        for axis in met:
            self._refuse_partial(axis, relations[axis])
        local = {axis for axis in met if _is_of_parts(relations[axis])}
        unclear = {axis for axis in met - local if not _is_told(relations[axis])}
        axes = None
        if out.dims is not None:
            axes = [relations.sharding(k) for k in range(len(out.dims))]
        if unclear or any(array.unclear.all_but for array in self.arrays):
            axes = None
        lasting = {
            mark for array in self.arrays for mark in array.marks if mark[1] == "scaled"
        }
        return settled(
            out,
            axes,
            pending=[axis for axis in met if relations[axis].kind == "part"],
            varying=[
                *local,
                *(axis for axis in met if relations[axis].kind == "varying"),
            ],
            unclear=unclear_axes(self.arrays, met, unclear),
            marks=[FACTORED, *lasting, *((axis, "local") for axis in local)],
            constant=all(array.constant for array in self.arrays),
            notes=[
                *(note for array in self.arrays for note in array.notes),
                *map(self._note_of_parts, sorted(local)),
            ],
        )

    def _note_of_parts(self, axis: str) -> Note:
        module, at = self.ctx.place
        name = self.call.name
        text = f"{name} over a dimension {sharded_over([axis])}"
        return Note(axis, text, module, at)

    def _refuse_partial(self, axis: str, relation: Relation) -> None:
        """Raises OpError where the function is applied to partial sums, and is not linear."""
        if relation.breach is None or relation.breach.fault != "partial":
            return
        partial = [array for array in self.arrays if state(array, axis) == "pending"]
        if (
            len(self.arrays) == 1
            and partial
            and not marks(partial[0], axis) - {"reduction"}
        ):
            assert self.ctx.view is not None
            raise used(self._op(self.ctx.view), axis, partial)


_T = TypeVar("_T")


def _only(values: set[_T]) -> _T | None:
    """The one that there is, if there is one alone."""
    if len(values) == 1:
        return values.pop()
    return None


#: So many ranks are tried for an array of which it is not known.
_RANKS = 5


def _relation(value: ArrayValue, axis: str) -> Relation:
    """The relation that state and marks stand for; nothing is known where they say more than it does."""
    found = state(value, axis)
    beyond = marks(value, axis) - {"split", "reduction"}
    if beyond:
        return UNKNOWN
    if found == "replicated":
        return SAME
    if found == "pending":
        return part()
    if found == "sharded" and clean(value, axis):
        for k, dim in enumerate(value.dims or ()):
            if axis in (dim.axes or ()):
                return split(k)
    return UNKNOWN


def _is_of_parts(relation: Relation) -> bool:
    """Whether each device has computed something of its own part of what is needed whole."""
    return relation.breach is not None and relation.breach.fault == "whole"


def _is_told(relation: Relation) -> bool:
    """Whether states have a name for it."""
    if relation.power:
        return False
    if relation.kind == "part":
        return relation.monoid == "sum"
    return relation.kind in ("zero", "same", "split", "varying")


@dataclass(frozen=True, slots=True)
class _AnyRank:
    """A call with arrays of unknown rank, and what its result depends on besides."""

    qualname: str
    args: tuple[tuple[str, Value], ...]
    stands_in: bool
    facts: Facts
    x64: bool
    numpy: bool
    explicit: MeshValue | None

    def of_rank(self, qualname: str, rank: int) -> Value | OpError | None:
        """The result if the arrays were of this rank, or what JAX would say to them."""
        ctx = OpContext(
            self.facts, x64=self.x64, numpy=self.numpy, explicit=self.explicit
        )
        call = Call(self.qualname, dict(self.args), ctx)
        try:
            return _read(qualname, _Reading(call, self.stands_in, rank=rank))
        except OpError as error:
            return error
        except _NotFollowed:
            return None


# Where no rank is known, the same few calls are made over and over.
@lru_cache(4096)
def _common_to_all_ranks(qualname: str, call: _AnyRank) -> Value | OpError:
    """What all ranks have in common, or why JAX refuses all of them."""
    tried = [call.of_rank(qualname, rank) for rank in range(_RANKS)]
    found = [one for one in tried if one is not None]
    taken = [one for one in found if not isinstance(one, OpError)]
    is_complete = len(found) == len(tried)
    if not taken:
        if is_complete and all(map(_is_of_any_rank, found)):
            return alternatives.in_common(found)
        return ArrayValue(None)
    # where the highest rank alone is taken, those above it may be as well
    is_only_one = is_complete and taken[0] is not tried[-1]
    if len(taken) == 1 and not is_only_one:
        return alternatives.without_dims(taken[0])
    return alternatives.in_common(taken)


class _NotBroadcast(OpError):
    """Raised for shapes that do not broadcast."""


def _is_of_any_rank(found: Value | OpError) -> bool:
    """Whether JAX refuses a call for what has nothing to do with the ranks that are not known."""
    if isinstance(found, _NotBroadcast):
        return True
    return isinstance(found, OpError) and found.code == _CODES["dtypes"]


def _is_not_known(size: Dim) -> bool:
    return _known(size) is None


def _is_open(size: Size) -> bool:
    """Whether a size is made of one that is not known."""
    return any(name.startswith(_OPEN) for name in size.symbols)


def _known(size: Dim) -> Size | None:
    if not isinstance(size, (int, Size)):
        return None  # an array was given as a size, say
    found = Size.of(size)
    if _is_open(found):
        return None
    return found


def _stand_in(dtype: str | None) -> str:
    for kind, name in _STAND_IN.items():
        if dtype is not None and dtypes.is_kind(dtype, kind) is True:
            return name
    return "float32"
