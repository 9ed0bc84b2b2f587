"""What the results of indexing may depend on, where the index is known and where it is not."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from shardtypes.laws.cells import Cells, Depends
from shardtypes.laws.walk import Host, any_along, bind


def indexed(eqn: Any, name: str, cells: Cells) -> Host | None:
    """On what the elements of ``gather``, ``scatter`` and the dynamic slices may depend; None for anything else."""
    if name == "gather":
        return _gathered(eqn, *cells)
    if name == "dynamic_slice":
        return _sliced(eqn, cells)
    if name == "dynamic_update_slice":
        return _updated(cells)
    if name.startswith("scatter"):
        return _scattered(eqn, *cells)
    return None


def _anything(cell: Depends) -> Host:
    """What anything in a cell depends on."""
    return any_along(cell.on.reshape(cell.on.shape[0], -1), 1)


def _spread(on: Host, rank: int) -> Host:
    return on.reshape(-1, *(1,) * rank)


def _gathered(eqn: Any, operand: Depends, indices: Depends) -> Host:
    numbers = eqn.params["dimension_numbers"]
    on = operand.on
    places = np.zeros(indices.known.shape, np.int32)
    for at, dim in enumerate(numbers.start_index_map):
        known = indices.known[..., at]
        if known.all() and indices.values is not None:
            places[..., at] = indices.values[..., at]
        else:
            on = np.broadcast_to(on.any(dim + 1, keepdims=True), on.shape)
    looked_up = []
    for bits in on:
        (values,) = bind(eqn, [bits.astype(np.float32), places], ())
        looked_up.append(_bits(values))
    found = np.stack(looked_up)
    rank = found.ndim - 1
    batch = [at for at in range(rank) if at not in numbers.offset_dims]
    chosen = indices.on.any(-1)
    sizes = [1] * rank
    for at, size in zip(batch, chosen.shape[1:], strict=True):
        sizes[at] = size
    return np.asarray(found | chosen.reshape(-1, *sizes))


def _bits(array: Any) -> Host:
    values = np.asarray(array)
    return np.asarray((values != 0) | np.isnan(values))


def _start(cell: Depends) -> int | None:
    if cell.values is None or not cell.known.all():
        return None
    return int(cell.values)


def _sliced(eqn: Any, cells: Cells) -> Host:
    operand, *starts = cells
    on = operand.on
    cut = [slice(None)]
    for dim, (cell, size) in enumerate(
        zip(starts, eqn.params["slice_sizes"], strict=True)
    ):
        whole = on.shape[dim + 1]
        start = _start(cell)
        if start is None:
            on = np.broadcast_to(on.any(dim + 1, keepdims=True), on.shape)
        first = min(max(start or 0, 0), whole - size)
        cut.append(slice(first, first + size))
    on = on[tuple(cut)]
    for cell in starts:
        on = on | _spread(_anything(cell), on.ndim - 1)
    return on


def _updated(cells: Cells) -> Host:
    operand, update, *starts = cells
    on = np.array(operand.on)
    new = update.on
    cut: list[slice] = [slice(None)]
    exact = True
    for dim, cell in enumerate(starts):
        whole = on.shape[dim + 1]
        size = update.on.shape[dim + 1]
        start = _start(cell)
        if start is None and size != whole:
            exact = False
            new = any_along(new, dim + 1, keepdims=True)
            cut.append(slice(None))
            continue
        first = min(max(start or 0, 0), whole - size)
        cut.append(slice(first, first + size))
    written = tuple(cut)
    if not exact:
        new = on[written] | new
    on[written] = new
    for cell in starts:
        on |= _spread(_anything(cell), on.ndim - 1)
    return on


def _scattered(
    eqn: Any, operand: Depends, indices: Depends, updates: Depends
) -> Host | None:
    """Where the index is known: what was there, and what is put there."""
    if (
        indices.values is None
        or not indices.known.all()
        or eqn.params.get("mode") is None
    ):
        return None
    numbers = eqn.params["dimension_numbers"]
    mode = eqn.params["mode"]
    found = [
        jax.lax.scatter_add(
            old.astype(np.float32),
            indices.values,
            new.astype(np.float32),
            numbers,
            mode=mode,
        )
        for old, new in zip(operand.on, updates.on, strict=True)
    ]
    return np.stack([_bits(array) for array in found])
