"""Where no rule says what an operation gives: the operations since the last values that are known, in exact arithmetic.

The values that are known are arbitrary numbers, related as is known of them. What the operations make of these on
devices is compared with what one device makes of them. A relation that holds for numbers drawn at random, in a field of
two thousand million, holds for all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from shardtypes.proving.evaluation import Held, constant
from shardtypes.proving.exact import field
from shardtypes.proving.exact.evaluation import Exactly, Number, exact
from shardtypes.proving.exact.field import NotExact, Residues
from shardtypes.proving.observed import guesses, joined
from shardtypes.proving.one_device import OneDevice
from shardtypes.proving.program import Constant, Name, Operand, Program, Step
from shardtypes.proving.state import State, checked

DRAWS = 3
MOST = 30_000_000
"""Entries that are computed for one proof, over all devices and draws."""
_DEEPEST = 400
_LARGEST = 2_000_000


class Region:
    """Values of one program and of one device in exact arithmetic. ``left`` entries may still be computed."""

    def __init__(
        self,
        many: Program,
        one: Program,
        single: OneDevice,
        sizes: Mapping[str, int],
        left: list[int],
    ) -> None:
        self.many = many
        self.one = one
        self.single = single
        self.sizes = sizes
        self.left = left
        self.devices: dict[Name, list[Number]] = {}
        self.alone: dict[Name, list[Number]] = {}
        self.rests: dict[Name, frozenset[Step]] = {}
        self.makers = {name: step for step in one.steps for name in step.results}
        self._places = {step: number for number, step in enumerate(many.steps)}
        self._makers: dict[Name, Step] = {}

    def run(self, step: Step, operands: Sequence[list[Number]]) -> None:
        """An operation on devices, of which ``rests`` says on which others without a known relation it rests. Raises
        ``NotExact``."""
        found = [
            Exactly(seed, self.left).step(
                step, [one[seed] for one in operands], self.many
            )
            for seed in range(DRAWS)
        ]
        for number, name in enumerate(step.results):
            self.devices[name] = [one[number] for one in found]
            before = (
                self.rests.get(operand, frozenset())
                for operand in step.operands
                if isinstance(operand, int)
            )
            self.rests[name] = frozenset({step}).union(*before)

    def known(
        self, name: Name, state: State, partner: Operand, local: tuple[int, ...]
    ) -> list[Number]:
        """Any numbers on devices that are related as is known to those of one device. Raises ``NotExact``."""
        if any(monoid != "sum" for _, monoid in state.parts) and not state.zero:
            raise NotExact("a partial result that is no sum")
        wholes = self.whole(partner, state)
        if any(tuple(_shape_of(one)) != tuple(state.whole) for one in wholes):
            raise NotExact("one device has another shape")
        # Parts are drawn for the value: two values of one relation are the same only if nothing is left open by it.
        self.devices[name] = [
            self._on_devices(seed, name, state, exact(whole).array, local)
            for seed, whole in zip(range(DRAWS), wholes, strict=True)
        ]
        return self.devices[name]

    def maker(self, name: Name) -> Step | None:
        """The operation on devices that a value is a result of."""
        if not self._makers:
            self._makers = {
                result: step for step in self.many.steps for result in step.results
            }
        return self._makers.get(name)

    def place(self, step: Step) -> int:
        """Where an operation is in the program on devices."""
        return self._places[step]

    def whole(self, partner: Operand, state: State | None = None) -> list[Number]:
        """What one device has; anything where nothing is known yet, if a state is given. Raises ``NotExact``."""
        partner_value = self.single.value(self.single.resolved(partner))
        if partner_value is not None:
            return [Held(partner_value)] * DRAWS
        name = self.single.resolved(partner)
        if isinstance(name, Constant):
            return [Held(constant(name))] * DRAWS
        if name in self.single.repeated:
            shape = self._shape(name)
            return [
                Held(np.broadcast_to(np.ravel(self.single.repeated[name])[0], shape))
            ] * DRAWS
        if name not in self.alone:
            if state is not None:
                self.alone[name] = self._fresh(name, state)
            else:
                self._made(name)
        return self.alone[name]

    def _shape(self, name: Name) -> tuple[int, ...]:
        return tuple(self.one.types[name].shape)

    def _fresh(self, name: Name, state: State | None) -> list[Number]:
        shape = self._shape(name)
        if math.prod(shape) > _LARGEST:
            raise NotExact("too large")
        self.left[0] -= DRAWS * math.prod(shape)
        if state is not None and state.zero:
            zeros = np.zeros(shape, np.int64)
            return [Held(Residues(zeros, zeros))] * DRAWS
        if state is not None:
            uniform = state.uniform
        else:
            uniform = frozenset()
        small = tuple(1 if dim in uniform else size for dim, size in enumerate(shape))
        drawn = [field.fresh(small, seed, (0, name)) for seed in range(DRAWS)]
        return [Held(_each(one, shape)) for one in drawn]

    def _made(self, name: Name) -> None:
        """Compute a value of one device from those that are known; what nothing makes is anything."""
        order: list[Step] = []
        seen: set[Step] = set()
        left: list[Operand] = [name]
        while left:
            one = self.single.resolved(left.pop())
            if (
                isinstance(one, Constant)
                or one in self.alone
                or self.single.value(one) is not None
            ):
                continue
            if one in self.single.repeated:
                continue
            step = self.makers.get(one)
            if step is None:
                self.alone[one] = self._fresh(one, None)
            elif step not in seen:
                seen.add(step)
                order.append(step)
                left += step.operands
            if len(seen) > _DEEPEST:
                raise NotExact("too far from what is known")
        places = {step: number for number, step in enumerate(self.one.steps)}
        for step in sorted(order, key=places.__getitem__):
            if all(result in self.alone for result in step.results):
                continue
            operands = [self.whole(operand) for operand in step.operands]
            for seed in range(DRAWS):
                found = Exactly(seed, self.left).step(
                    step, [one[seed] for one in operands], self.one
                )
                for result, number in zip(step.results, found, strict=True):
                    self.alone.setdefault(result, []).append(number)

    def _on_devices(
        self,
        seed: int,
        name: Name,
        state: State,
        whole: Residues,
        local: tuple[int, ...],
    ) -> Number:
        """The shards and parts of a value of one device."""
        self.left[0] -= math.prod(local) * math.prod(
            self.sizes[axis] for axis in (*state.axes, *state.over)
        )
        if self.left[0] < 0:
            raise NotExact("too large")
        if state.zero:
            zeros = np.zeros(local, np.int64)
            return Held(Residues(zeros, zeros))
        whole = field.scaled(whole, state.factor)
        axes = tuple(
            axis for axis in self.sizes if axis in state.axes or axis in state.over
        )
        p = self._shards(whole.p, state, local)
        if whole.q is None:
            q = None
        else:
            q = self._shards(whole.q, state, local)
        if state.over:
            drawn = field.fresh(
                (*(self.sizes[a] for a in axes), *local), seed, (1, name)
            )
            p = self._parts(p, drawn.p, state, axes, field.P)
            if q is not None:
                q = self._parts(q, drawn.q, state, axes, field.Q)
        return Held(Residues(p, q), axes)

    def _shards(self, array: Any, state: State, local: tuple[int, ...]) -> Any:
        """With a leading dimension for each axis that shards, or over which there are parts: of size one for these."""
        axes: list[str] = []
        for dim, names in enumerate(state.dims):
            for name in names:
                at = len(axes) + dim
                size = array.shape[at]
                array = array.reshape(
                    *array.shape[:at],
                    self.sizes[name],
                    size // self.sizes[name],
                    *array.shape[at + 1 :],
                )
                array = np.moveaxis(array, at, len(axes))
                axes.append(name)
        order = [axis for axis in self.sizes if axis in axes]
        array = np.moveaxis(
            array, [axes.index(axis) for axis in order], range(len(order))
        )
        for dim, size in enumerate(local):
            at = len(order) + dim
            if array.shape[at] != size:  # all entries are the same
                first = np.take(array, [0], axis=at)
                if not np.array_equal(np.broadcast_to(first, array.shape), array):
                    raise NotExact("a constant dimension that is none")
                array = np.broadcast_to(
                    first, (*array.shape[:at], size, *array.shape[at + 1 :])
                )
        for number, axis in enumerate(
            axis for axis in self.sizes if axis in axes or axis in state.over
        ):
            if axis not in order:
                array = np.expand_dims(array, number)
        return array

    def _parts(
        self, total: Any, drawn: Any, state: State, axes: tuple[str, ...], prime: int
    ) -> Any:
        """Numbers of which those of all devices along the axes of the parts add up to the total."""
        over = tuple(number for number, axis in enumerate(axes) if axis in state.over)
        drawn = np.array(
            np.broadcast_to(drawn, np.broadcast_shapes(drawn.shape, total.shape))
        )
        rest = (total - np.sum(drawn, axis=over, keepdims=True)) % prime
        last = tuple(
            slice(-1, None) if number in over else slice(None)
            for number in range(len(axes))
        )
        drawn[last] = (drawn[last] + rest) % prime
        return drawn

    # --- which relation holds -------------------------------------------------------------------------------------

    def observed(self, name: Name, partner: Operand) -> State | None:
        """How a value on devices is related to one of one device; None if no relation holds. Raises ``NotExact``."""
        held = [exact(one) for one in self.devices[name]]
        wholes = [exact(one) for one in self.whole(partner)]
        arrays, axes = self._unlike(held)
        singles = [one.array.p for one in wholes]
        local = arrays[0].shape[len(axes) :]
        whole = singles[0].shape
        if len(local) != len(whole) or not math.prod(whole) or not math.prod(local):
            return None
        if any(not few or many % few for few, many in zip(local, whole, strict=True)):
            return None
        if not any(map(np.any, arrays)) and not any(map(np.any, singles)):
            return None
        ratios = [many // few for few, many in zip(local, whole, strict=True)]
        return self._guessed(arrays, axes, singles, ratios)

    def _guessed(
        self,
        arrays: list[Any],
        axes: tuple[str, ...],
        singles: list[Any],
        ratios: list[int],
    ) -> State | None:
        local = tuple(arrays[0].shape[len(axes) :])
        for dims, how in itertools.islice(guesses(axes, (), ratios, self.sizes), 200):
            if any(monoid != "sum" for monoid in how.values()):
                continue
            state = self._tried(arrays, axes, singles, dims, tuple(how))
            if state is not None:
                return checked(state, local, self.sizes)
        return None

    def _unlike(self, held: list[Number]) -> tuple[list[Any], tuple[str, ...]]:
        """Without the axes along which all devices hold the same; and the axes that are left."""
        axes = tuple(
            axis for axis in self.sizes if any(axis in one.axes for one in held)
        )
        arrays = [_aligned(one, axes, self.sizes) for one in held]
        for axis in axes:
            at = axes.index(axis)
            if all(
                np.array_equal(np.broadcast_to(np.take(a, [0], axis=at), a.shape), a)
                for a in arrays
            ):
                arrays = [np.take(a, 0, axis=at) for a in arrays]
                axes = tuple(one for one in axes if one != axis)
        return arrays, axes

    def _tried(
        self,
        arrays: list[Any],
        axes: tuple[str, ...],
        singles: list[Any],
        dims: Mapping[int, tuple[str, ...]],
        over: tuple[str, ...],
    ) -> State | None:
        at = tuple(axes.index(axis) for axis in over)
        left = [axis for axis in axes if axis not in over]
        found = [
            joined(np.sum(array, axis=at) % field.P, left, dims, 0) for array in arrays
        ]
        for factor in self._factors():
            by, _ = field.scalar(factor)
            if all(
                np.array_equal(a, b * by % field.P)
                for a, b in zip(found, singles, strict=True)
            ):
                whole = tuple(singles[0].shape)
                names = tuple(tuple(dims.get(dim, ())) for dim in range(len(whole)))
                return State(
                    whole, names, tuple((axis, "sum") for axis in sorted(over)), factor
                )
        return None

    def _factors(self) -> Iterator[Fraction]:
        yield Fraction(1)
        for powers in itertools.product((0, 1, -1, 2, -2), repeat=len(self.sizes)):
            factor = math.prod(
                Fraction(size) ** power
                for size, power in zip(self.sizes.values(), powers, strict=True)
            )
            if factor != 1:
                yield Fraction(factor)


def _shape_of(held: Number) -> tuple[int, ...]:
    if isinstance(held.array, Residues):
        return tuple(held.array.shape)
    return tuple(np.shape(held.array))


def _each(one: Residues, shape: tuple[int, ...]) -> Residues:
    """The same along dimensions of size one."""
    return Residues(
        np.broadcast_to(one.p, shape),
        None if one.q is None else np.broadcast_to(one.q, shape),
    )


def _aligned(held: Number, axes: tuple[str, ...], sizes: Mapping[str, int]) -> Any:
    """Held once for each device along the axes."""
    order = [axis for axis in axes if axis in held.axes]
    array = np.moveaxis(
        held.array.p, [held.axes.index(axis) for axis in order], range(len(order))
    )
    for number, axis in enumerate(axes):
        if axis not in held.axes:
            array = np.expand_dims(array, number)
    shape = tuple(sizes[axis] for axis in axes)
    return np.broadcast_to(array, (*shape, *array.shape[len(axes) :]))


__all__ = ["DRAWS", "MOST", "NotExact", "Region"]
