"""Functions that have no model here, by their lowering onto primitives: what a lowering says of shapes, dtypes and
relations holds of them, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from inspect import BoundArguments, Signature, signature
from typing import Any

from shardlint.ops.arrays import (
    as_array,
    axis_error,
    different,
    dtype_name,
    shown,
    shown_size,
)
from shardlint.ops.registry import Call, Model, OpContext, OpError, constant
from shardlint.ops.sharding.base import Op, adopted, computed
from shardlint.ops.sharding.combining import used
from shardlint.ops.sharding.explicit import GlobalOp, Split
from shardlint.ops.sharding.origins import Origins
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
    Note,
    ScalarValue,
    SequenceValue,
    SliceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes
from shardtypes.lang.messages import sharded_over
from shardtypes.semantics.array import Array, Dim, NotConcrete, UnknownRank
from shardtypes.semantics.lowerings import LOWERINGS, Unsupported
from shardtypes.semantics.lowerings.collectives import collectives
from shardtypes.semantics.lowerings.convert import AxisOutOfRange, DType
from shardtypes.semantics.primitive import comparing
from shardtypes.semantics.registry import Refused
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
    **{
        f"jax.numpy.fft.{name}": ("n",)
        for name in "fft ifft rfft irfft hfft ihfft".split()
    },
    **{
        f"jax.ops.segment_{name}": ("num_segments",)
        for name in "sum prod min max".split()
    },
}
#: Those of them whose length the rank of the result may depend on.
_MAYBE_SEVERAL = frozenset({"reps", "new_shape"})
#: Parameters on which values depend, but no shape and no dtype, and what stands for one that is not known.
_ZERO = IntValue(Size.const(0))
_STAND_INS: dict[tuple[str, str], Value] = {
    ("jax.numpy.triu", "k"): _ZERO,
    ("jax.numpy.tril", "k"): _ZERO,
    ("jax.numpy.trace", "offset"): _ZERO,
    ("jax.numpy.linalg.norm", "ord"): Literal(None),
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

    def bind(
        self, args: Sequence[Value], kwargs: Mapping[str, Value]
    ) -> dict[str, Value] | None:
        parameters = _signature(self.qualname)
        try:
            bound = parameters.bind(*args, **kwargs)
        except TypeError:
            return None
        found: dict[str, Value] = {}
        for name, parameter in parameters.parameters.items():
            if name in bound.arguments:
                found[name] = _as_value(bound.arguments[name])
            elif _is_simple(parameter.default):
                found[name] = constant(parameter.default)
        return found


@cache
def _signature(qualname: str) -> Signature:
    return signature(LOWERINGS[qualname])


def _as_value(argument: Any) -> Value:
    """An argument; those that a function takes any number of as one value."""
    match argument:
        case tuple():
            return SequenceValue(argument)
        case dict():
            return DictValue(tuple(argument.items()))
    found: Value = argument
    return found


def _is_simple(default: object) -> bool:
    return default is None or isinstance(default, (bool, int, float, str))


_CODES = {
    "operands": "ST204",
    "sizes": "ST206",
    "ranks": "ST208",
    "dtypes": "ST212",
}


def model(qualname: str, call: Call) -> Value:
    """The result of a call by the lowering of a function; something unknown where that does not cover the call.

    Raises OpError where JAX certainly refuses the call, or a partial sum is used as if it were complete.
    """
    reading = _Reading(call)
    try:
        given = reading.arguments(_signature(qualname))
        with comparing(reading.compare):
            found = LOWERINGS[qualname](*given.args, **given.kwargs)
    except UnknownRank:
        return reading.of_unknown_rank()
    except AxisOutOfRange as error:
        raise reading.refused_axis(error) from None
    except Refused as error:
        if reading.vague and error.of == "dtypes":
            return Unknown(f"{call.name} of an array of unknown dtype")
        text = str(error)
        if error.of != "dtypes":
            text = reading.with_shapes(text)
        raise OpError(_CODES[error.of], f"{call.name}: {text}") from None
    except (Unsupported, NotConcrete):
        return Unknown(f"{call.name} in this form is not followed")
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        ArithmeticError,
    ):
        # arguments of another kind than the function takes: of what JAX says to them nothing is known here
        return Unknown(f"arguments of {call.name} not understood")
    return reading.value(found)


def kept_axes(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
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
    """One call. ``arrays`` are those among its arguments, ``vague`` whether the dtype of one is not known."""

    call: Call
    arrays: list[ArrayValue] = field(default_factory=list)
    vague: bool = False
    opaque: int = 0

    @property
    def ctx(self) -> OpContext:
        return self.call.ctx

    # --- arguments --------------------------------------------------------------------------------------------------

    def arguments(self, signature: Signature) -> BoundArguments:
        """As the lowering takes them. Raises Unsupported for one that is not known."""
        numbers = NUMBERS.get(self.call.qualname, ())
        given = {}
        for name in signature.parameters:
            if name in self.call.args:
                value = self.call[name]
                if name in numbers:
                    value = self._numbered(value, name not in _MAYBE_SEVERAL)
                elif isinstance(value, (Unknown, IntValue)) and self.ctx.view is None:
                    value = self._without_shape(name, value)
                given[name] = self.given(value)
        return BoundArguments(signature, given)

    def _numbered(self, value: Value, is_one: bool) -> Value:
        """An argument that says sizes, with others for those that are not known. ``is_one``: whatever it is, it makes
        one size."""
        match value:
            case IntValue(size=None) | ArrayValue(dims=()):
                return IntValue(self._opaque())
            case Unknown() | ArrayValue() if is_one:
                return IntValue(self._opaque())
            case SequenceValue(items=items):
                numbers = tuple(self._numbered(item, True) for item in items)
                return replace(value, items=numbers)
            case _:
                return value

    def _without_shape(self, name: str, value: Value) -> Value:
        """An argument on which no shape depends, as one that is known."""
        stand_in = _STAND_INS.get((self.call.qualname, name))
        is_known = isinstance(value, IntValue) and value.size is not None
        return value if is_known or stand_in is None else stand_in

    def _opaque(self) -> Size:
        """A size that is not known."""
        self.opaque += 1
        return Size.symbol(f"?{self.opaque}")

    def given(self, value: Value) -> Any:
        """An argument as lowerings take it. Raises Unsupported for one that is not known."""
        match value:
            case ArrayValue():
                return self._array(value)
            case IntValue(size=Size() as size):
                return simple(size)
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
        if name in dtypes.CONCRETE:
            return DType(name)
        if isinstance(value, ExternalValue) and is_lowered(value.qualname):
            return LOWERINGS[value.qualname]
        raise Unsupported("an argument that is not known")

    def _array(self, value: ArrayValue) -> Array:
        if value.numpy:
            dtype = dtypes.canonical(value.dtype, self.ctx.x64) if value.dtype else None
        else:
            dtype = value.dtype
        if dtype not in dtypes.CONCRETE:
            self.vague = True
            dtype = _stand_in(dtype)
        if self.ctx.view is not None:
            value = adopted(value)
        self.arrays.append(value)
        shape = None
        if value.dims is not None:
            shape = tuple(map(self._size, value.dims))
        return Array(shape, dtype, value.weak, self._relations(value))

    def _size(self, dim: Dimension) -> Dim:
        if dim.size is None:
            return self._opaque()
        found: Dim = simple(dim.size)
        return found

    def compare(self, a: Dim, b: Dim, why: str | None) -> None:
        """Two sizes that have to be equal. Raises OpError where they are not."""
        if a is None or b is None:
            return
        sizes = Size.of(a), Size.of(b)
        if any(map(_is_open, sizes)):
            return
        witness = different(self.ctx, *sizes)
        if witness is None:
            return
        if why is None:
            first, second = map(shown_size, sizes)
            shapes = " and ".join(map(shown, self.arrays))
            text = f"{shapes} do not fit: {first} is not {second}"
        else:
            text = self.with_shapes(why)
        raise OpError("ST204", f"{self.call.name}: {text}", witness)

    def with_shapes(self, text: str) -> str:
        """``needs square matrices, got 'B M'``."""
        shapes = " and ".join(map(shown, self.arrays))
        return f"{text}, got {shapes}"

    def refused_axis(self, error: AxisOutOfRange) -> OpError:
        """An axis that an operand has not."""
        ranked = [array for array in self.arrays if len(array.dims or ()) == error.rank]
        if len(self.arrays) == 1 and ranked:
            return axis_error(self.call, error.axis, ranked[0], error.rank)
        return OpError("ST208", f"{self.call.name}: {error}")

    # --- relations, in manual code ----------------------------------------------------------------------------------

    def _relations(self, value: ArrayValue) -> Relations | None:
        if self.ctx.view is None:
            return _origins(value)
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

    def of_unknown_rank(self) -> ArrayValue:
        """The result where more would have to be known of an operand: in manual code, what any function gives."""
        out = ArrayValue(None)
        if self.ctx.view is None:
            return out
        return computed(self._op(self.ctx.view), out, [])

    def _op(self, view: View) -> Op:
        positions = range(len(self.arrays))
        return Op(self.call, view, tuple(self.arrays), tuple(positions))

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
            return _with_origins(out, found.relations)
        return self._placed(out, found.relations or Relations())

    def _is_certain(self, dtype: str | None) -> bool:
        """Whether the dtype of a result is: lowerings tell that of 32 bits where a program may have chosen 64."""
        if self.vague:
            return False
        if not self.ctx.x64 or dtype == "bool":
            return True
        kinds = {array.dtype for array in self.arrays}
        return dtype in kinds and bool(dtypes.is_kind(dtype, "floating", "complex"))

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


def _origins(value: ArrayValue) -> Relations | None:
    """In the global view the axes of dimensions, each a relation of its own: where one comes out again, so does the
    dimension."""
    over = {}
    for k, dim in enumerate(value.dims or ()):
        for axis in dim.axes or ():
            over[axis] = split(k)
    if not over:
        return None
    return Relations.of(over)


def _with_origins(out: ArrayValue, relations: Relations | None) -> ArrayValue:
    if relations is None or out.dims is None:
        return out
    dims = tuple(
        Dimension(dim.size, relations.sharding(k) or None)
        for k, dim in enumerate(out.dims)
    )
    return replace(out, dims=dims)


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


def _is_open(size: Size) -> bool:
    """Whether a size is made of one that is not known."""
    return any(name.startswith("?") for name in size.symbols)


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
