"""What is known of sizes that have names, as lowerings ask for it, and how what JAX refuses is worded."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.ops.arguments import Arguments
from shardlint.ops.arrays import (
    axis_error,
    axis_given_twice,
    cannot_broadcast,
    different,
    pick,
    shown,
    shown_size,
)
from shardlint.ops.mismatches import worded
from shardlint.ops.open_sizes import known_size
from shardlint.ops.registry import OpError
from shardlint.values import ArrayValue
from shardtypes.lang import Different, Size, dtypes
from shardtypes.lang.facts import broadcast
from shardtypes.semantics.array import (
    Dim,
    Shape,
)
from shardtypes.semantics.comparison import Said, Why, aligned, undivided
from shardtypes.semantics.lowerings.convert import (
    AxisGivenTwice,
    AxisOutOfRange,
)
from shardtypes.semantics.mismatches import Mismatch
from shardtypes.semantics.registry import (
    NegativeSize,
    Refused,
)
from shardtypes.semantics.sizes import simple

CODES = {
    "operands": "ST204",
    "sizes": "ST206",
    "ranks": "ST208",
    "dtypes": "ST212",
    "indices": "ST214",
    "equations": "ST205",
    "patterns": "ST215",
    "joins": "ST209",
}
#: Of a condition and what it chooses of, as of what is joined.
_BROADCAST = {"jax.numpy.where": "ST209", "jax.numpy.select": "ST209"}


class NotFollowed(Exception):
    """Raised for a call that is not covered."""


class NotBroadcast(OpError):
    """Raised for shapes that do not broadcast."""


class Refusing(Arguments):
    """The arguments of one call, of which sizes are compared. Raises OpError where JAX certainly refuses them."""

    def require_equal(self, a: Dim, b: Dim, why: Why) -> None:
        """Two sizes that have to be equal. Raises OpError where they are not."""
        first, second = known_size(a), known_size(b)
        if first is None or second is None:
            return
        witness = different(self.ctx, first, second)
        if witness is None:
            self._rely_on(first, second)
            return
        if isinstance(why, Mismatch):
            code, text, number = worded(why, first, second)
            place = self._place_of_operand(number)
            raise OpError(code, f"{self.call.name}: {text}", witness, place)
        if why is not None:
            raise self._because(why, witness)
        shapes = " and ".join(map(shown, self.arrays))
        sizes = f"{shown_size(first)} is not {shown_size(second)}"
        text = f"{shapes} do not fit: {sizes}"
        raise OpError(CODES["operands"], f"{self.call.name}: {text}", witness)

    def _because(self, why: Refused | str, witness: dict[str, int]) -> OpError:
        """What is said of sizes that do not fit."""
        text = f"{self.call.name}: {self.with_shapes(str(why))}"
        if isinstance(why, Refused):
            place = self._place_of_operand(why.operand)
            return OpError(CODES[why.of], text, witness, place)
        return OpError(CODES["operands"], text, witness)

    def _place_of_operand(self, number: int | None) -> int | None:
        """Which argument an operand is."""
        if number is None or number >= len(self.places):
            return None
        return self.places[number]

    def _rely_on(self, a: Size, b: Size) -> None:
        """Two sizes that are written otherwise are equal: then the divisions in them come out even."""
        if a != b:
            self.ctx.facts = self.ctx.facts.even(a).even(b)

    def unknown(self) -> Dim:
        return self._opaque()

    def is_known(self, size: Dim) -> bool:
        return known_size(size) is not None

    def numpy_refuses(self, why: Refused) -> None:
        if self.ctx.numpy:
            raise why

    def divided(self, size: Dim, count: Dim, why: Refused | None) -> Dim:
        """The size of each of equal parts: a fact from here on. Raises OpError where there are none."""
        known, parts = known_size(size), known_size(count)
        if known is None or parts is None:
            return self._opaque()
        exact = known.divides_exactly(parts)
        if exact is not None:
            found: Dim = simple(exact)
            return found
        if known.constant is not None and parts.constant is not None:
            raise self.refused(why or undivided(size, count))
        quotient = known // parts
        self.ctx.facts = self.ctx.facts.even(quotient)
        return quotient

    def either(self, a: Dim, b: Dim) -> Dim:
        """Of two sizes that are equal, or not known to differ, the one that says more."""
        first, second = known_size(a), known_size(b)
        if second is None:
            return a
        if first is None or pick(first, second) is second:
            return b
        return a

    def broadcast(self, shapes: Sequence[Shape], why: Said) -> Shape:
        """The shape that shapes broadcast to. Raises OpError where they do not."""
        result: Shape = ()
        for i, shape in enumerate(shapes):
            merged: list[Dim] = []
            for size, other in zip(*aligned([result, shape]), strict=True):
                found = self._stretched(size, other)
                if isinstance(found, Different):
                    raise self._not_broadcast(shapes[: i + 1], found, why)
                merged.append(found)
            result = tuple(merged)
            if None in map(known_size, result):
                self._refuse_beside_open(shapes[: i + 1], why)
        return result

    def _refuse_beside_open(self, shapes: Sequence[Shape], why: Said) -> None:
        """Raises OpError where the last of several shapes fits what is known of all together, but not one of them."""
        *before, last = shapes
        for one in before:
            found = self._difference(one, last)
            if found is not None:
                raise self._not_broadcast(shapes, found, why)

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
        sizes = known_size(a), known_size(b)
        if None not in sizes:
            outcome = broadcast(*sizes, self.ctx.facts)
            if isinstance(outcome, Different):
                return outcome
            if isinstance(outcome, Size):
                found: Dim = simple(outcome)
                return found
        numbers = [size for size in (a, b) if isinstance(size, int)]
        return next(iter(numbers), self._opaque())

    def _not_broadcast(
        self, shapes: Sequence[Shape], found: Different, why: Said
    ) -> OpError:
        """The last of several shapes, and the first before it that it does not fit."""
        if why is not None:
            return self._because(why, found.witness)
        *before, last = shapes
        previous = next(one for one in before if self._difference(one, last))
        sizes = [list(map(known_size, shape)) for shape in (previous, last)]
        text = cannot_broadcast(self.call.name, *sizes)
        code = _BROADCAST.get(self.call.qualname, "ST204")
        return NotBroadcast(code, text, found.witness, self._place_of(shapes))

    def _place_of(self, shapes: Sequence[Shape]) -> int | None:
        """Which argument the last of several shapes is, if these are those of the arguments."""
        for array, shape in zip(self.arrays, shapes, strict=False):
            known = None if array.dims is None else [dim.size for dim in array.dims]
            if known != list(map(known_size, shape)):
                return None
        return len(shapes) - 1

    def with_shapes(self, text: str) -> str:
        """``needs square matrices, got 'B M'``. A key has no shape to speak of."""
        arrays = [array for array in self.operands if array.dtype != dtypes.KEY]
        if not arrays:
            return text
        shapes = " and ".join(map(shown, arrays))
        return f"{text}, got {shapes}"

    def refused(self, error: Refused) -> OpError | NotFollowed:
        """What JAX refuses, as a finding; something that is not followed where a dtype merely stands in for that of an
        operand."""
        text = str(error)
        if isinstance(error, NegativeSize) and self.ctx.numpy:
            return NotFollowed(text)
        if error.of == "dtypes" and (self.stands_in or self._has_complex()):
            return NotFollowed(text)
        is_text = error.of in ("equations", "patterns") and error.operand is None
        if error.of != "dtypes" and not is_text:
            text = self.with_shapes(text)
        place = self._place_of_operand(error.operand)
        return OpError(CODES[error.of], f"{self.call.name}: {text}", operand=place)

    def _has_complex(self) -> bool:
        """Whether an operand is complex: ``jax.numpy`` takes them where the functions it is made of do not."""
        known = {array.dtype for array in self.arrays} - {None, dtypes.KEY}
        return any(dtypes.is_kind(one, "complex") is not False for one in known)

    def given_twice(self, error: AxisGivenTwice) -> OpError:
        if len(self.arrays) == 1:
            return axis_given_twice(self.call, error.axis, self.arrays[0])
        return OpError("ST208", f"{self.call.name}: {error}")

    def refused_axis(self, error: AxisOutOfRange) -> OpError | NotFollowed:
        """An axis that an operand has not."""
        if self.ctx.numpy and error.rank == 0:
            return NotFollowed("NumPy reduces a scalar along its first axis")
        ranked = [array for array in self.arrays if len(array.dims or ()) == error.rank]
        if ranked:
            return axis_error(self.call, error.axis, ranked[0], error.rank)
        if error.rank == 0:
            return axis_error(self.call, error.axis, ArrayValue(()), 0)
        return OpError("ST208", f"{self.call.name}: {error}")
