"""How an array is broadcast to a shape that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from shardlint.ops.arrays import (
    same,
    shown,
    shown_sizes,
)
from shardlint.ops.registry import (
    Call,
    OpError,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
)
from shardtypes.lang import Size, find_witness


def broadcast_onto(
    call: Call, value: ArrayValue, target: list[Size | None]
) -> tuple[Dimension, ...]:
    """The target's dimensions; every dimension of ``value`` must be equal to its own or 1."""
    assert value.dims is not None
    extra = len(target) - len(value.dims)
    if extra < 0:
        message = f"{call.name}: {shown(value)} has more dimensions than {shown_sizes(target)}"
        raise OpError("ST204", message)
    dims = [Dimension(size, ()) for size in target[:extra]]
    for dim, size in zip(value.dims, target[extra:], strict=True):
        if dim.size is None or size is None or same(call.ctx, dim.size, size):
            dims.append(Dimension(size, dim.axes))
            continue
        have, want = dim.size, size
        witness = find_witness(
            partial(_does_not_stretch, have, want), [have, want], call.ctx.facts
        )
        if have != 1 and (
            witness is not None
            or (have.constant is not None and want.constant is not None)
        ):
            message = f"{call.name}: {shown(value)} does not broadcast to {shown_sizes(target)}"
            raise OpError("ST204", message, witness or {})
        dims.append(Dimension(size))
    return tuple(dims)


def _does_not_stretch(have: Size, want: Size, sizes: Mapping[str, int]) -> bool:
    return have.evaluate(sizes) not in (1, want.evaluate(sizes))
