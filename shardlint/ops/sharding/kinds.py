"""How elementwise functions treat their operands: read off their lowerings, so that no list has to name them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from inspect import BoundArguments, Parameter
from typing import Any, Literal, TypeAlias

from shardlint import values
from shardlint.ops.registry import Call, is_none
from shardlint.values import Value, number_in
from shardtypes.lang import Size
from shardtypes.lang.frozen import frozen
from shardtypes.semantics.array import Array, NotConcrete, UnknownRank
from shardtypes.semantics.lazy import np
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.registry import LOWERINGS, Unsupported, public_signature
from shardtypes.semantics.relation import (
    SAME,
    Monoid,
    Relation,
    Relations,
    part,
    split,
)
from shardtypes.semantics.simulated import Simulated

Kind: TypeAlias = Literal[
    "linear", "add", "multiply", "divide", "zero", "nonlinear", "choose", "test"
]
"""How a function treats its operands.

``linear`` (of one operand), ``add`` (a sum of them), ``multiply``, ``divide``; ``zero``: not linear, but 0 stays 0;
``nonlinear``; ``choose``: a maximum or a bound, which programs use on parts of sums as well; ``test``: a question.
"""

Option: TypeAlias = "tuple[str, bool | int | float | str]"
"""An argument that is no operand, and its name."""

_ARRAY_LIKE = frozenset({"ArrayLike", "ArrayLike | None"})
#: Dtypes that operands may have: the first that a function takes tells its kind.
_DTYPES = ("float32", "complex64", "bool", "int32")
_SHAPE = (Size.symbol("m"), Size.symbol("n"))
_AXIS = "axis"
_SUM = part("sum")
_EXTREMA: tuple[Monoid, ...] = ("max", "min")
#: They are lowered to a selection by a comparison, of which no maximum is declared.
_CHOOSE = frozenset({"jax.numpy.fmax", "jax.numpy.fmin"})


def kind_of(call: Call) -> Kind | None:
    """That of the function in this call; None if it is not elementwise, or its lowering does not cover the call."""
    import shardtypes.semantics.lowerings  # noqa: F401 - takes its time, and registers them

    if call.qualname not in LOWERINGS:
        return None
    operands: list[str] = []
    options: list[Option] = []
    for name, parameter in public_signature(call.qualname).parameters.items():
        value = call.args.get(name)
        if value is None or _is_left_out(value, parameter):
            continue
        if parameter.annotation in _ARRAY_LIKE:
            operands.append(name)
        else:
            options.append((name, _constant(value)))
    return _kind(call.qualname, tuple(operands), tuple(options))


def _is_left_out(value: Value, parameter: Parameter) -> bool:
    """Whether a parameter has its default, or may have it for all that is known of an option."""
    if parameter.default is Parameter.empty:
        return False
    constant = _constant(value)
    if constant is None and parameter.annotation in _ARRAY_LIKE:
        return is_none(value)
    return constant is None or bool(constant == parameter.default)


def _constant(value: Value) -> Any:
    """The constant that an argument is, None where it is none or not known."""
    if isinstance(value, values.Literal):
        return value.value
    return number_in(value)


@cache
def _kind(
    qualname: str, operands: tuple[str, ...], options: tuple[Option, ...]
) -> Kind | None:
    for dtype in _DTYPES:
        try:
            found = _Calls(qualname, operands, options, dtype).kind()
        except _NOT_COVERED:
            continue  # for the dtype, or because it takes no arrays of one shape
        if found is not None:
            return found
    return None


#: What lowerings raise for arguments that they do not take.
_NOT_COVERED = (
    NotConcrete,
    UnknownRank,
    Unsupported,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
)


@frozen
class _Calls:
    """Calls of a function with operands of one shape and dtype, of which different things are known."""

    qualname: str
    operands: tuple[str, ...]
    options: tuple[Option, ...]
    dtype: str

    def kind(self) -> Kind | None:
        count = len(self.operands)
        if not count or not self._is_elementwise() or self._reads_sizes():
            return None
        if self._of(*[SAME] * count).dtype == "bool":
            return "test"
        if count == 1:
            return self._kind_of_one()
        if count == 2 and self._relation(_SUM, _SUM) == _SUM:
            return "add"
        if count == 2 and self._relation(_SUM, SAME) == _SUM:
            both = self._relation(SAME, _SUM) == _SUM
            return "multiply" if both else "divide"
        if self.qualname in _CHOOSE or self._keeps_extrema():
            return "choose"
        return "nonlinear"

    def _is_elementwise(self) -> bool:
        """Whether a part of each operand makes the same part of the result, along each dimension."""
        for k in range(len(_SHAPE)):
            result = self._of(*[split(k)] * len(self.operands))
            if not isinstance(result, Array) or result.shape != _SHAPE:
                return False
            if result.relations is None or result.relations[_AXIS] != split(k):
                return False
        return True

    def _reads_sizes(self) -> bool:
        """Whether entries depend on how many there are."""
        with evaluation(), np.errstate(all="ignore"):
            one, several = (self._of_numbers(1, (count, count)) for count in (1, 2))
            is_nan = one != one
            return not np.all((one == several) | is_nan)

    def _kind_of_one(self) -> Kind:
        if self._relation(_SUM) == _SUM:
            return "linear"
        return "zero" if self._keeps_zeros() else "nonlinear"

    def _keeps_extrema(self) -> bool:
        """Whether a maximum or a minimum of the devices' values stays one beside complete operands."""
        rest = [SAME] * (len(self.operands) - 1)
        return any(self._relation(part(m), *rest) == part(m) for m in _EXTREMA)

    def _keeps_zeros(self) -> bool:
        with evaluation(), np.errstate(all="ignore"):
            return not np.any(self._of_numbers(0, ()))

    def _relation(self, *relations: Relation) -> Relation:
        found: Relations = self._of(*relations).relations
        return found[_AXIS]

    def _of(self, *relations: Relation) -> Any:
        arrays = []
        for one in relations:
            of_axis = Relations.of({_AXIS: one})
            arrays.append(Array(_SHAPE, self.dtype, relations=of_axis))
        return self._call(arrays)

    def _of_numbers(self, number: int, shape: tuple[int, ...]) -> Any:
        """What it gives for operands that have this number everywhere."""
        held = Simulated.everywhere(np.full(shape, number, self.dtype))
        array = Array(shape, self.dtype, value=held)
        return self._call([array] * len(self.operands)).numbers()

    def _call(self, arrays: Sequence[Array]) -> Any:
        given: dict[str, Any] = dict(self.options)
        given.update(zip(self.operands, arrays, strict=True))
        arguments = BoundArguments(public_signature(self.qualname), given)
        return LOWERINGS[self.qualname](*arguments.args, **arguments.kwargs)
