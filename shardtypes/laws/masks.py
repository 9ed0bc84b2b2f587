"""Padded positions change nothing (``padding``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from shardtypes.laws.arguments import AxesOf, Call, Leaf, call_of, out_axes_of
from shardtypes.laws.changes import changed
from shardtypes.laws.culprit import culprit
from shardtypes.laws.differences import differs, largest, on_host, wide
from shardtypes.laws.fillings import judged
from shardtypes.laws.positions import along
from shardtypes.laws.program import Program, program_of
from shardtypes.laws.proofs import affordable, depends
from shardtypes.laws.source import where_of
from shardtypes.laws.verdict import CannotTell, Verdict
from shardtypes.laws.walk import Host, any_along, first_along


def padding(
    f: Callable[..., Any],
    dim: str = "L",
    /,
    *examples: Any,
    mask: str = "mask",
    padded: bool = False,
    in_axes: Any = ...,
    out_axes: Any = ...,
    sizes: Mapping[str, int] | None = None,
    seeds: int = 3,
    tolerance: float | None = None,
    **named: Any,
) -> Verdict:
    """What stands at padded positions of a dimension changes nothing: no real position, and no result without it.

    ``mask`` names the parameter that says which positions are real: an array with the dimension, or, for an array of
    integers without it, the number of real positions at the beginning. It is True at real positions, or with
    ``padded`` at the others. Other arguments as those of ``laws.independent``.
    """

    def make() -> Call:
        return _masked(
            call_of(f, dim, examples, named, in_axes, out_axes, sizes),
            dim,
            mask,
            padded,
        )

    return judged(
        f, make, lambda made: _tried(made, dim, mask, padded, seeds, tolerance)
    )


def _masked(call: Call, dim: str, mask: str, padded: bool) -> Call:
    """The call with a mask that says something, where it was made."""
    if any(isinstance(leaf.axis, int) for leaf in call.leaves):
        count = call.size(dim)
    else:
        count = 0
    leaves = []
    for leaf in call.leaves:
        if leaf.name == mask and leaf.made:
            leaf = replace(leaf, value=_made(leaf, count, padded), made=False)
        leaves.append(leaf)
    return replace(call, leaves=tuple(leaves))


def _made(leaf: Leaf, count: int, padded: bool) -> Host:
    """One row after the other with one real position less, beginning with all but one."""
    shape = leaf.value.shape
    dtype = leaf.value.dtype
    axis = leaf.axis
    if axis is None:
        rows = int(np.prod(shape))
    else:
        rows = int(np.prod(shape)) // count
    lengths = 1 + (count - 2 - np.arange(rows)) % (count - 1)
    if not isinstance(axis, int):
        return lengths.reshape(shape).astype(dtype)
    others = [size for at, size in enumerate(shape) if at != axis]
    rows_real = np.arange(count) < lengths[:, None]
    real = np.moveaxis(rows_real.reshape(*others, count), -1, axis)
    return np.asarray(real != padded).astype(dtype)


def _real(leaf: Leaf, count: int, padded: bool) -> Host:
    """Which positions are real, the positions last."""
    value = on_host(leaf.value)
    if not isinstance(leaf.axis, int):
        return np.asarray(np.arange(count) < value.reshape(*value.shape, 1))
    return np.moveaxis((value != 0) != padded, leaf.axis, -1)


def _region(real: Host, shape: Sequence[int], axis: int) -> Host:
    """Which elements of an array are at real positions: real in any row, where rows are not in front."""
    front = tuple(shape[:axis])
    count = real.shape[-1]
    batch = [size for size in real.shape[:-1] if size != 1]
    rows = real.reshape(*batch, count)
    if tuple(batch) != front[: len(batch)] or len(batch) > axis:
        batch = []
        rows = any_along(rows.reshape(-1, count), 0)
    sizes = [1] * len(shape)
    sizes[: len(batch)] = batch
    sizes[axis] = count
    return np.broadcast_to(rows.reshape(sizes), tuple(shape))


def _tried(
    call: Call, dim: str, mask: str, padded: bool, seeds: int, tolerance: float | None
) -> Verdict:
    masks = [leaf for leaf in call.leaves if leaf.name == mask]
    if not masks:
        raise CannotTell(
            f"no argument is named {mask!r}: say with mask= which one tells what is real"
        )
    count = call.size(dim)
    real = _real(masks[0], count, padded)
    if real.shape[-1] != count or real.all() or not real.any():
        raise CannotTell(
            f"{mask} says that all positions are real, or none: give one that has both"
        )
    program = program_of(call)
    axes = out_axes_of(call, program.results(call.values), dim, needed=False)
    law = _Padding(call, program, mask, real, axes, count, tolerance)
    for seed in range(seeds):
        found = law.broken(np.random.default_rng(seed))
        if found is not None:
            return _failed(call, dim, found)
    if law.is_proved():
        if not call.sizes:
            assumed = f"with {mask} as given"
        else:
            assumed = f"with the rows of {mask} of several lengths"
        reason = f"{call.name}: padding in {dim!r} changes nothing: proved for all values, {assumed}"
        return Verdict(True, reason, proved=True, assumed=(assumed, *law.assumed))
    if not law.moved:
        raise CannotTell(
            f"no result changed with any position of {dim!r}, real or padded: give other examples"
        )
    reason = f"{call.name}: padding in {dim!r} changes nothing: holds in numbers with {seeds} seeds"
    return Verdict(True, reason)


class _Padding:
    def __init__(
        self,
        call: Call,
        program: Program,
        mask: str,
        real: Host,
        axes: AxesOf,
        count: int,
        tolerance: float | None,
    ) -> None:
        self._call = call
        self._program = program
        self._mask = mask
        self._real = real
        self._axes = axes
        self._count = count
        self._before = program.run(call.values)
        self._tolerances = program.allowed(tolerance)
        self.assumed: tuple[str, ...] = ()
        self.moved = False

    def broken(self, rng: np.random.Generator) -> _Broken | None:
        """A padded position that changes a real one, or a result without positions."""
        if not self.moved:
            everywhere = self._program.run(
                self._changed(np.ones(self._count, bool), False, rng)
            )
            self.moved = any(
                differs(a, b, t).any()
                for a, b, t in zip(
                    self._before, everywhere, self._tolerances, strict=True
                )
            )
        anywhere = self._compared(self._changed(np.ones(self._count, bool), True, rng))
        if anywhere is None:
            return None
        for of in range(self._count):
            other = self._changed(np.arange(self._count) == of, True, rng)
            found = self._compared(other)
            if found is not None:
                return self._explained(other, of, *found)
        return None

    def _changed(self, at: Host, padded: bool, rng: np.random.Generator) -> list[Any]:
        """Other values at these positions, where they are padded."""
        values = []
        for leaf in self._call.leaves:
            value = leaf.value
            if isinstance(leaf.axis, int) and leaf.name != self._mask:
                where = along(at, value.ndim, leaf.axis) & (
                    ~self._region(leaf) | (not padded)
                )
                value = changed(leaf, where, rng)
            values.append(value)
        return values

    def _region(self, leaf: Leaf) -> Host:
        assert isinstance(leaf.axis, int)
        return _region(self._real, leaf.value.shape, leaf.axis)

    def _compared(self, other: list[Any]) -> tuple[int, Host, float] | None:
        after = self._program.run(other)
        for number, (one, two, axis) in enumerate(
            zip(self._before, after, self._axes, strict=True)
        ):
            wrong = differs(one, two, self._tolerances[number])
            if axis is not None and one.shape[axis] == self._count:
                wrong = wrong & _region(self._real, one.shape, axis)
            if wrong.any():
                return (
                    number,
                    wrong,
                    float(np.abs(wide(one) - wide(two))[wrong].max())
                    / largest(one, two),
                )
        return None

    def _explained(
        self, other: list[Any], of: int, leaf: int, wrong: Host, error: float
    ) -> _Broken:
        homes = [
            ~self._region(part) & (part.name != self._mask)
            if isinstance(part.axis, int)
            else np.zeros(np.shape(part.value), bool)
            for part in self._call.leaves
        ]
        canonical = ~any_along(self._real.reshape(-1, self._count), 0)
        place = culprit(
            self._program, self._call.values, other, homes, canonical, leaf, wrong
        )
        axis = self._axes[leaf]
        at = None
        if axis is not None:
            at = first_along(wrong, axis)
        paths = jax.tree_util.tree_flatten_with_path(
            jax.tree.unflatten(self._program.tree, self._before)
        )[0]
        return _Broken(of, at, jax.tree_util.keystr(paths[leaf][0]), error, place)

    def is_proved(self) -> bool:
        if self._program.jaxpr is None or not affordable(self._program.jaxpr, 2):
            return False
        # The second is nothing at all, to tell what depends on padding from what may depend on anything.
        on = []
        for leaf in self._call.leaves:
            bits = np.zeros((2, *np.shape(leaf.value)), bool)
            if isinstance(leaf.axis, int):
                bits[0] = ~self._region(leaf)
            on.append(bits)
        found = depends(self._program, self._call, on, 2, self._mask)
        if found is None:
            return False
        dependence, results = found
        for array, axis in zip(results, self._axes, strict=True):
            bits = array[0]
            if axis is not None and bits.shape[axis] == self._count:
                bits = bits & _region(self._real, bits.shape, axis)
            if bits.any():
                return False
        self.assumed = tuple(
            text
            for text in dependence.assumed
            if not text.startswith(f"with {self._mask} ")
        )
        return True


class _Broken:
    def __init__(
        self, of: int, at: int | None, path: str, error: float, place: Any
    ) -> None:
        self.of = of
        self.at = at
        self.path = path
        self.error = error
        self.place = place


def _failed(call: Call, dim: str, found: _Broken) -> Verdict:
    if found.at is None:
        what = f"result{found.path}"
    else:
        what = f"position {found.at} of result{found.path}, which is real,"
    reason = (
        f"{call.name}: padding in {dim!r} changes the result: {what} depends on position {found.of}, which is padded "
        f"and moves it by {found.error:.2g} of its largest value"
    )
    if found.place is not None:
        reason += f"; it comes in by {found.place}"
    where = where_of(found.place)
    positions: tuple[int, ...] = (found.of,)
    if found.at is not None:
        positions = (found.at, found.of)
    return Verdict(False, reason, positions=positions, where=where)
