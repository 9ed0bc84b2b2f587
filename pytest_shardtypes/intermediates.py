"""The values of annotated parameters and results while a function runs, inside compiled code too.

Every annotated value is seen by its check. While ``recorded`` is on, what the check sees is copied to the host: at
once where it is an array, by a callback of the compiled program where it is traced. Inside ``shard_map`` each device
calls back with its part and its place on the mesh.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from shardtypes import array_check, sharding_check
from shardtypes.array_check import ArraySpec
from shardtypes.compiled import asking
from shardtypes.meshes import View, axes_of_type, mesh_sizes
from shardtypes.scopes import Site

Host = np.ndarray[Any, np.dtype[Any]]
Coordinates = tuple[int, ...]


@dataclass
class Value:
    """One annotated value: where it is in the program, and its parts by their place along ``axes``.

    ``dims`` are the declared axes of each dimension among ``axes``, ``pending`` those over which it is a partial sum.
    A part is there more than once where the value is in a loop.
    """

    label: str
    axes: tuple[str, ...]
    sizes: tuple[int, ...]
    dims: tuple[tuple[str, ...], ...]
    pending: frozenset[str]
    parts: dict[Coordinates, list[Host]] = field(default_factory=dict)

    def whole(self) -> list[Host] | None:
        """The global value, one for each time it was met; None where its parts do not come together."""
        counts = {len(seen) for seen in self.parts.values()}
        if len(counts) != 1 or len(self.parts) != math.prod(self.sizes):
            return None
        return [self._joined({at: seen[time] for at, seen in self.parts.items()}) for time in range(counts.pop())]

    def unequal_axis(self, same: Callable[[Host, Host], bool]) -> str | None:
        """An axis along which devices hold other values though the annotation says that they hold the same."""
        split = {axis for axes in self.dims for axis in axes} | self.pending
        for number, axis in enumerate(self.axes):
            if axis in split:
                continue
            for at, seen in self.parts.items():
                first = self.parts.get((*at[:number], 0, *at[number + 1 :]), seen)
                if len(first) == len(seen) and not all(map(same, first, seen)):
                    return axis
        return None

    def _joined(self, parts: Mapping[Coordinates, Host]) -> Host:
        """Sum over the pending axes, join along the split ones, minor axes first, and take the first along others."""
        left = list(self.axes)
        split = [(axis, dim) for dim, axes in enumerate(self.dims) for axis in reversed(axes)]
        for axis, dim in [*split, *((axis, None) for axis in self.axes if axis not in dict(split))]:
            number = left.index(axis)
            left.remove(axis)
            lines: dict[Coordinates, list[tuple[int, Host]]] = {}
            for at, part in parts.items():
                lines.setdefault(at[:number] + at[number + 1 :], []).append((at[number], part))
            parts = {rest: self._along(axis, dim, line) for rest, line in lines.items()}
        return parts[()]

    def _along(self, axis: str, dim: int | None, line: list[tuple[int, Host]]) -> Host:
        ordered = [part for _, part in sorted(line, key=lambda entry: entry[0])]
        if axis in self.pending:
            return np.asarray(np.sum(ordered, axis=0))
        return ordered[0] if dim is None else np.concatenate(ordered, axis=dim)


class Recording:
    """The annotated values in the order in which the program meets them."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._met: Counter[str] = Counter()

    def add(self, spec: ArraySpec, value: Any, view: View, site: Site) -> None:
        """See one value; one that cannot be copied is left out."""
        if any(type(level).__name__ == "BatchTracer" for level in _levels(value)):
            return
        dims = sharding_check.claims(spec, len(value.shape))
        if dims is None or set(view.bound) != set(view.manual):
            return
        sizes = {name: size for name, size in mesh_sizes(view.mesh).items() if name in view.manual}
        axes = tuple(sizes)
        held = tuple(tuple(axis for axis in entry or () if axis in axes) for entry in dims)
        self._met[str(site)] += 1
        times = f" (call {self._met[str(site)]})" if self._met[str(site)] > 1 else ""
        seen = Value(
            f"{site}{times}", axes, tuple(sizes.values()), held, frozenset(spec.shape.pending) & frozenset(axes)
        )
        self.values.append(seen)
        if not isinstance(value, jax.core.Tracer):
            seen.parts[()] = [np.asarray(value)]
            return
        if not axes and view.is_global and not axes_of_type(jax.typeof(value).sharding.mesh, "Explicit"):
            # Gathered first: XLA complains at length about moving a sharded value to where the callback runs.
            value = jax.lax.with_sharding_constraint(value, PartitionSpec())
        jax.debug.callback(partial(_store, seen), value, *(jax.lax.axis_index(axis) for axis in axes))


def _store(seen: Value, part: Any, *at: Any) -> None:
    seen.parts.setdefault(tuple(int(number) for number in at), []).append(np.array(part))


def _levels(value: Any) -> Iterator[Any]:
    """A tracer and those inside it."""
    while isinstance(value, jax.core.Tracer):
        yield value
        value = getattr(value, "primal", None) if hasattr(value, "primal") else getattr(value, "val", None)


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record while the block runs. Everything compiled before is traced again, in the block and after it."""
    recording = Recording()
    check = sharding_check.check_sharding

    def check_and_record(spec: ArraySpec, value: Any, *context: Any) -> None:
        __tracebackhide__ = True
        check(spec, value, *context)
        *_, view, site = context
        if not asking():  # what is compiled for the check alone never runs
            recording.add(spec, value, view, site)

    jax.clear_caches()
    # The one place through which every annotated value goes.
    setattr(array_check, "check_sharding", check_and_record)  # noqa: B010 - mypy takes an assignment for a mistake
    try:
        yield recording
        jax.effects_barrier()
    finally:
        setattr(array_check, "check_sharding", check)  # noqa: B010 - as above
        jax.clear_caches()  # what was compiled here calls back
