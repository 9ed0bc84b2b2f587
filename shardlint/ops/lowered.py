"""Functions that have no model here, by their lowering onto primitives: what a lowering says of shapes, dtypes and
relations holds of them, too."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from typing import Any, TypeVar

from shardlint.ops import alternatives, open_ranks
from shardlint.ops.alternatives import LEFT_OUT
from shardlint.ops.arguments import OF_SIZES
from shardlint.ops.arguments import is_lowered as is_lowered
from shardlint.ops.arrays import ONE
from shardlint.ops.open_sizes import is_open, known_size
from shardlint.ops.refusing import CODES, NotBroadcast, NotFollowed, Refusing
from shardlint.ops.registry import (
    Call,
    Model,
    OpContext,
    OpError,
    Parameter,
    Signature,
    constant,
)
from shardlint.ops.sharding.base import Op, adopted, computed, unknown
from shardlint.ops.sharding.combining import used
from shardlint.ops.sharding.explicit import GlobalOp, Split
from shardlint.ops.sharding.origins import Operands
from shardlint.ops.sharding.origins import Origins as ExplicitOrigins
from shardlint.ops.sharding.state import (
    FACTORED,
    axes_met,
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
    IntValue,
    MeshValue,
    Note,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
    number_in,
)
from shardtypes.lang import Size, dtypes
from shardtypes.lang.facts import Facts
from shardtypes.lang.messages import sharded_over
from shardtypes.semantics.array import (
    Array,
    NotConcrete,
    Origin,
    Origins,
    UnknownRank,
)
from shardtypes.semantics.comparison import comparing
from shardtypes.semantics.lowerings import LOWERINGS, Unsupported
from shardtypes.semantics.lowerings.convert import (
    AxisGivenTwice,
    AxisOutOfRange,
    x64,
)
from shardtypes.semantics.registry import (
    Refused,
    public_signature,
    unread,
)
from shardtypes.semantics.relation import (
    Relation,
    Relations,
)


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
    except NotFollowed as error:
        reason = str(error)
    if reading.vague:
        # the lowering may have asked for a dtype that is not known: shapes seldom depend on it
        try:
            return _read(qualname, _Reading(call, stands_in=True))
        except NotFollowed:
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
    out = open_ranks.of_call(call) or ArrayValue(None)
    view = call.ctx.view
    if view is None or not isinstance(out, ArrayValue):
        return out
    operands = Operands(adopted, lambda value: value)
    operands.marked(call)
    if not operands.complete:
        return unknown(out)
    op = Op(call, view, tuple(operands.found), tuple(operands.positions))
    return computed(op, out, [])


def _arrays_in(values: Sequence[Value]) -> Iterator[ArrayValue]:
    for value in values:
        if isinstance(value, ArrayValue):
            yield value
        if isinstance(value, SequenceValue):
            yield from _arrays_in(value.items)


def _read(qualname: str, reading: _Reading) -> Value:
    call = reading.call
    try:
        given = reading.bound(public_signature(qualname))
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
        raise NotFollowed(f"{call.name} in this form is not followed") from None
    except (
        TypeError,
        ValueError,
        LookupError,
        AttributeError,
        ArithmeticError,
    ):
        # arguments of another kind than the function takes: of what JAX says to them nothing is known here
        raise NotFollowed(f"arguments of {call.name} not understood") from None
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


class _Reading(Refusing):
    """One call, and what it gives."""

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
                return IntValue(None if is_open(found) else found)
            case bool() if self.vague:
                return ScalarValue("bool")  # of what the dtype is, which is not known
            case None | bool() | int() | float() | complex() | str():
                return constant(found)
        return Unknown(f"what {self.call.name} gives")

    def of_unknown_rank(self, qualname: str) -> Value:
        """The result where more would have to be known of an operand: what all ranks have in common. In manual code,
        what any function gives of such operands."""
        if qualname in _NUMBERS:
            return IntValue(None)
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
        if self._may_be_weak():
            found = alternatives.without_dtype(found)
        if self._count_unknown_ranks() > 1:
            # which may be others than those that were tried together
            return alternatives.without_dims(found)
        return found

    def _count_unknown_ranks(self) -> int:
        """How many arrays there are of unknown rank, and shapes of unknown length."""
        count = sum(array.dims is None for array in self._of_arguments())
        for name, value in self.call.args.items():
            count += name in OF_SIZES and isinstance(value, Unknown)
            if name == "operands" and isinstance(value, SequenceValue):
                count += sum(isinstance(item, Unknown) for item in value.items)
        return count

    def _may_be_weak(self) -> bool:
        """Whether the result may be weak or not, as weak arguments have a rank that is not known: with arrays of other
        dtypes some functions promote numbers otherwise than arrays."""
        return any(one.weak and one.dims is None for one in self._of_arguments())

    def _of_arguments(self) -> Iterator[ArrayValue]:
        return _arrays_in([*self.call.args.values()])

    def _op(self, view: View) -> Op:
        arrays = tuple(self.arrays)
        positions = tuple(range(len(arrays)))
        return Op(self.call, view, arrays, positions)

    def _of_array(self, found: Array) -> Value:
        dims: tuple[Dimension, ...] | None = None
        if found.shape is not None:
            dims = tuple(Dimension(known_size(size)) for size in found.shape)
        pending: frozenset[str] | None = None
        if all(array.pending == frozenset() for array in self.arrays):
            pending = frozenset()
        if self._is_certain(found.dtype) and not self._may_be_weak():
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
        lasting = {
            mark for array in self.arrays for mark in array.marks if mark[1] == "scaled"
        }
        for axis in sorted(local):
            place = relations[axis].dim
            if axes is not None and place is not None:
                axes[place] = (*axes[place], axis)
                lasting.add((axis, "scan"))
        if unclear or any(array.unclear.all_but for array in self.arrays):
            axes = None
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


#: Functions that give a number where they are given an array.
_NUMBERS = frozenset({"jax.numpy.size"})
#: So many ranks are tried for an array of which it is not known: more, if an argument names a dimension behind them.
_RANKS = 5
_MOST_RANKS = 12
#: What the arguments are called that name dimensions by their numbers.
_OF_AXES = ("ax", "dim", "source", "destination")


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

    @property
    def last_axis(self) -> int:
        """The last dimension that an argument names by its number, of those from the end, too; -1 where none does."""
        values = [value for name, value in self.args if name.startswith(_OF_AXES)]
        numbers = [number_in(value) for value in _each(values)]
        places = [max(one, -one - 1) for one in numbers if one is not None]
        return max((one for one in places if one < _MOST_RANKS), default=-1)

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
        except NotFollowed:
            return None


def _each(values: Iterable[Value]) -> Iterator[Value]:
    for value in values:
        if isinstance(value, SequenceValue):
            yield from _each(value.items)
        else:
            yield value


# Where no rank is known, the same few calls are made over and over.
@lru_cache(4096)
def _common_to_all_ranks(qualname: str, call: _AnyRank) -> Value | OpError:
    """What all ranks have in common, or why JAX refuses all of them."""
    ranks = range(max(_RANKS, 2 + call.last_axis))
    tried = [call.of_rank(qualname, rank) for rank in ranks]
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


def _is_of_any_rank(found: Value | OpError) -> bool:
    """Whether JAX refuses a call for what has nothing to do with the ranks that are not known."""
    if isinstance(found, NotBroadcast):
        return True
    return isinstance(found, OpError) and found.code == CODES["dtypes"]
