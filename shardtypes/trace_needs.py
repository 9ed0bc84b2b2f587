"""What a program asks of symbolic sizes while JAX traces it: what it divides, compares and turns into numbers.

From this come sizes that a program accepts: multiples of what it divides by, and sizes in the order that it needs.
JAX's symbolic dimensions have no public hook for it.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jax._src.export import shape_poly

from shardtypes.lang import Size

_EXPRESSION: Any = shape_poly._DimExpr
_FACTOR: Any = shape_poly._DimFactor
# What a number is asked of: numpy calls the methods that its functions are named for.
_AS_NUMBER = (
    "__float__",
    "__int__",
    "__index__",
    "sqrt",
    "log",
    "log2",
    "log10",
    "exp",
    "ceil",
    "floor",
)
_OPERATORS = ("add", "sub", "mul", "truediv")
_WITH_FRACTION = tuple(
    f"__{side}{operator}__" for operator in _OPERATORS for side in ("", "r")
)
_REPEATS = "__mul__", "__rmul__"
# The module that compares sizes with annotations.
_CHECKS = "shardtypes.array_check"
# No size is larger: JAX asks whether an index needs more than 32 bits.
_LARGE = 2**24


@dataclass
class Needs:
    """What was asked in one evaluation. Sizes are made of the free symbols of that evaluation."""

    divisions: list[tuple[Size, Size]] = field(default_factory=list)
    minima: list[tuple[Size, Size]] = field(default_factory=list)
    #: ``a >= b``, where that could not be decided
    compared: tuple[Size, Size] | None = None
    #: sizes that the user's code compared with a number: they were taken to differ
    equalities: list[tuple[Size, int]] = field(default_factory=list)
    #: whether a size was used as a number, so that nothing is proved
    numbers: bool = False
    #: whether as an integer, from which the program may have made other sizes, or a decision
    integers: bool = False
    #: the symbols of these
    counted: set[str] = field(default_factory=set)
    #: what JAX said where it wanted an integer, as where rows of an array are gone through, and of which symbols
    wanted: list[tuple[Exception, frozenset[str]]] = field(default_factory=list)

    def looped(self, error: Exception | None) -> set[str]:
        """The symbols that the program uses as numbers; ``error`` is what it raised."""
        wanted = [symbols for raised, symbols in self.wanted if raised is error]
        return self.counted.union(*wanted)


def size_of(expression: Any) -> Size:
    """A symbolic dimension of JAX as a ``Size``."""
    if not isinstance(expression, _EXPRESSION):
        return Size.const(int(expression))
    total = Size.const(0)
    for term, count in expression._sorted_terms:
        product = Size.const(count)
        for factor, power in term._factors:
            for _ in range(power):
                product = product * _factor(factor)
        total = total + product
    return total


def _factor(factor: Any) -> Size:
    if factor.var is not None:
        return Size.symbol(factor.var)
    first, second = (size_of(operand) for operand in factor.operands)
    if factor.operation == _FACTOR.FLOORDIV:
        return first // second
    if factor.operation == _FACTOR.MOD:
        return first % second
    if factor.operation == _FACTOR.MAX:
        return Size.maximum(first, second)
    return Size.minimum(first, second)


@contextlib.contextmanager
def watched(supposed: Mapping[str, int]) -> Iterator[Needs]:
    """Note what is asked of symbolic sizes in the block. Where the user's code wants a number, it gets the value that
    its symbols have in ``supposed``."""
    needs = Needs()
    with contextlib.ExitStack() as replaced:
        _watch_operations(needs, replaced)
        _watch_comparisons(needs, replaced)
        _watch_equalities(needs, replaced)
        _give_numbers(needs, supposed, replaced)
        yield needs


def _replace(target: Any, name: str, value: Any, replaced: contextlib.ExitStack) -> Any:
    before = vars(target).get(name)
    if before is None:
        replaced.callback(delattr, target, name)
    else:
        replaced.callback(setattr, target, name, before)
    setattr(target, name, value)
    return before


def _watch_operations(needs: Needs, replaced: contextlib.ExitStack) -> None:
    def from_operation(operation: str, *operands: Any, scope: Any) -> Any:
        if operation in (_FACTOR.FLOORDIV, _FACTOR.MOD):
            needs.divisions.append((size_of(operands[0]), size_of(operands[1])))
        else:
            needs.minima.append((size_of(operands[0]), size_of(operands[1])))
        return before.__func__(operation, *operands, scope=scope)

    before = _replace(_FACTOR, "from_operation", staticmethod(from_operation), replaced)


def _watch_comparisons(needs: Needs, replaced: contextlib.ExitStack) -> None:
    def decision(first: Any, second: Any, *rest: Any) -> bool:
        try:
            return bool(before(first, second, *rest))
        except shape_poly.InconclusiveDimensionOperation:
            for index, side in enumerate((first, second)):
                if isinstance(side, int) and side > _LARGE:
                    return index == 0
            needs.compared = size_of(first), size_of(second)
            raise

    before = _replace(shape_poly, "_geq_decision", decision, replaced)


def _watch_equalities(needs: Needs, replaced: contextlib.ExitStack) -> None:
    def equals(self: Any, other: Any) -> bool:
        # Our annotations are other expressions than JAX's rules make, and JAX does not find all that are equal.
        if before(self, other):
            return True
        return (
            isinstance(other, _EXPRESSION)
            and _asked_by_checks()
            and size_of(self) == size_of(other)
        )

    def equal(self: Any, other: Any) -> bool:
        result = equals(self, other)
        if isinstance(other, int) and not result and _asked_by_user():
            needs.equalities.append((size_of(self), other))
        return result

    def differs(self: Any, other: Any) -> bool:
        result = not equals(self, other)
        if isinstance(other, int) and result and _asked_by_user():
            needs.equalities.append((size_of(self), other))
        return result

    # A class that gets a new `__eq__` keeps its `__hash__`: only a class body takes that away.
    before: Callable[[Any, Any], bool] = _replace(
        _EXPRESSION, "__eq__", equal, replaced
    )
    _replace(_EXPRESSION, "__ne__", differs, replaced)


def _give_numbers(
    needs: Needs, supposed: Mapping[str, int], replaced: contextlib.ExitStack
) -> None:
    import math

    def number(expression: Any, integer: bool = False) -> int:
        needs.numbers = True
        needs.integers = needs.integers or integer
        return size_of(expression).evaluate(supposed)

    def asked(name: str) -> Callable[[Any], Any]:
        before = vars(_EXPRESSION).get(name)
        compute: Any = {"__float__": float, "__int__": int, "__index__": int}.get(
            name
        ) or getattr(math, name, None)
        compute = compute or {"sqrt": math.sqrt}[name]

        as_integer = name in ("__int__", "__index__")

        def method(self: Any) -> Any:
            if _asked_by_user():
                needs.counted |= size_of(self).symbols if as_integer else set()
                return compute(number(self, as_integer))
            if as_integer and before is not None:
                return constant(before, self)
            if before is not None:
                return before(self)
            raise TypeError(f"a symbolic dimension is not a number: {self}")

        return method

    def constant(before: Callable[[Any], Any], expression: Any) -> Any:
        try:
            return before(expression)
        except shape_poly.InconclusiveDimensionOperation as error:
            symbols = frozenset(size_of(expression).symbols)
            needs.wanted.append((error, symbols))
            raise

    def repeated(items: Any, times: Any, by_user: bool) -> Any:
        if not by_user:
            return items * constant(as_int, times)
        needs.counted |= size_of(times).symbols
        return items * number(times, integer=True)

    def power(self: Any, exponent: Any, modulo: Any = None) -> Any:
        if isinstance(exponent, float) or (isinstance(exponent, int) and exponent < 0):
            return number(self) ** exponent
        return powered(self, exponent, modulo)

    def with_fraction(name: str) -> Callable[[Any, Any], Any]:
        before: Callable[[Any, Any], Any] = vars(_EXPRESSION)[name]

        def method(self: Any, other: Any) -> Any:
            if isinstance(other, float):
                return getattr(float(number(self, integer=True)), name)(other)
            if name in _REPEATS and isinstance(other, (list, tuple)):
                return repeated(other, self, _asked_by_user())
            return before(self, other)

        return method

    as_int: Callable[[Any], int] = vars(_EXPRESSION)["__int__"]
    for name in _WITH_FRACTION:
        _replace(_EXPRESSION, name, with_fraction(name), replaced)
    for name in _AS_NUMBER:
        _replace(_EXPRESSION, name, asked(name), replaced)
    powered = _replace(_EXPRESSION, "__pow__", power, replaced)


def _asked_by_checks() -> bool:
    """Whether a size is compared with what an annotation says."""
    frame: types.FrameType | None = sys._getframe(3)
    return frame is not None and frame.f_globals.get("__name__") == _CHECKS


def _asked_by_user() -> bool:
    """Whether the question comes from the user's code, not from JAX, which has a way of its own with such sizes."""
    frame: types.FrameType | None = sys._getframe(2)
    module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] not in (
        "jax",
        "jaxlib",
        "shardtypes",
        "numpy",
        "einops",
        "opt_einsum",
    )
