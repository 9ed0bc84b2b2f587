"""The results of a program on devices beside what they should be."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from shardtypes.proving.numbers import Values, agree, in_another_order
from shardtypes.proving.observed import Host, observed
from shardtypes.proving.program import Constant, Name, Program, Step, shape_of
from shardtypes.proving.relation import Sizes


@dataclass(frozen=True)
class Results:
    """Those of one program.

    Args:
        program: On devices.
        sizes: Of the mesh.
        mapped: The axes along which each device returns its own.
        grouped: The axes along which devices are compared with fewer devices, and not with one.
        in_any_order: Whether flat results may be in the order of the devices' shards.
    """

    program: Program
    sizes: Sizes
    mapped: Collection[str]
    grouped: Collection[str]
    in_any_order: bool

    def wrong(
        self, found: list[Values], wanted: list[Host], copies: Mapping[Name, Values]
    ) -> list[int]:
        """Which are not what they should be; ``copies`` has what each device returns."""
        makers = {
            step.results[0]: step
            for step in self.program.steps
            if step.primitive == "unshard"
        }
        wrong = []
        for number, (values, whole) in enumerate(zip(found, wanted, strict=True)):
            output = self.program.outputs[number]
            maker = None
            if isinstance(output, int):
                maker = makers.get(output)
            if self.in_any_order and in_another_order(values, whole):
                continue
            if not self._is_right(values, whole, maker, copies):
                wrong.append(number)
        return wrong

    def _is_right(
        self,
        values: Values,
        whole: Host,
        maker: Step | None,
        copies: Mapping[Name, Values],
    ) -> bool:
        array = values.array
        if maker is not None and not set(self.mapped).isdisjoint(maker.params["sizes"]):
            return self._mapped_right(maker, whole, copies)
        if array.shape != whole.shape:
            if maker is None or not self._has_entries(maker, whole):
                return False
            return self._mapped_right(maker, whole, copies)
        good = _finite_draws(whole)
        if not agree(array[good], whole[good]):
            return False
        return maker is None or self._is_the_same_on_all(maker, copies)

    def _is_the_same_on_all(self, maker: Step, copies: Mapping[Name, Values]) -> bool:
        """Whether devices hold the same along the axes that specs do not name."""
        operand = maker.operands[0]
        if isinstance(operand, Constant):
            return True
        held = copies[operand]
        dims = maker.params["dims"]
        sizes = maker.params["sizes"]
        named = {axis for axes in dims for axis in axes}
        unnamed = []
        for axis in held.axes:
            if axis in sizes and axis not in self.grouped and axis not in named:
                unnamed.append(axis)
        places = [held.axes.index(axis) for axis in unnamed]
        moved = np.moveaxis(held.array, places, range(len(unnamed)))
        first = moved[(0,) * len(unnamed)]
        return agree(moved, np.broadcast_to(first, moved.shape))

    def _has_entries(self, maker: Step, whole: Host) -> bool:
        """Whether a result has one entry for each device, by its specs, and so for one device one."""
        shape = shape_of(self.program, maker.operands[0])
        if shape != whole.shape[1:]:
            return False
        dims = maker.params["dims"]
        lengths = [shape[dim] for dim, axes in enumerate(dims) if axes]
        return set(lengths) == {1}

    def _mapped_right(
        self, maker: Step, whole: Host, copies: Mapping[Name, Values]
    ) -> bool:
        """A result of which each device has its own, as those of ``pmap``: a copy, a shard or a part."""
        operand = maker.operands[0]
        if isinstance(operand, Constant):
            return True
        held = copies[operand]
        relation = observed(held.array, held.axes, whole, self.sizes, 1)
        return relation is not None and (relation.right or bool(relation.parts))


def _finite_draws(whole: Host) -> list[int]:
    """Draws for which one device computes numbers; the first if there are none."""
    every = list(range(len(whole)))
    if whole.dtype.kind not in "fc":
        return every
    return [number for number in every if np.isfinite(whole[number]).all()] or [0]
