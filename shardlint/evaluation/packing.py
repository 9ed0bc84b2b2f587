"""``einops.pack``, ``unpack``, ``parse_shape`` and ``asnumpy`` in guarded code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardlint.evaluation.arrays import local_shape
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.lowered import jnp
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, sizes_of


class EinopsError(RuntimeError):
    """``einops.EinopsError``."""


setattr(EinopsError, MARK, True)
provide("einops.EinopsError")(EinopsError)


def _around(pattern: str) -> tuple[int, int]:
    """How many dimensions a pattern names before and behind its star."""
    names = pattern.split()
    if names.count("*") != 1:
        raise EinopsError(f"No *-axis in pattern: {pattern!r}")
    place = names.index("*")
    return place, len(names) - place - 1


@provide("einops.pack")
def pack(tensors: Sequence[Any], pattern: str) -> tuple[Array, list[Any]]:
    """Arrays side by side, their other dimensions as one, and the sizes of these."""
    before, behind = _around(pattern)
    flat, shapes = [], []
    for one in tensors:
        array = asarray(one)
        if array.rank < before + behind:
            raise EinopsError(
                f"packed tensor has {array.rank} dims, pattern {pattern!r} needs more"
            )
        sizes = local_shape(array)
        end = array.rank - behind
        shapes.append(sizes[before:end])
        flat.append(jnp.reshape(array, (*sizes[:before], -1, *sizes[end:])))
    return jnp.concatenate(flat, axis=before), shapes


@provide("einops.unpack")
def unpack(tensor: Any, packed_shapes: Sequence[Any], pattern: str) -> list[Array]:
    """The arrays that are side by side, in their own sizes, of which one may be -1."""
    array = asarray(tensor)
    before, behind = _around(pattern)
    sizes = sizes_of(array)
    if array.rank != before + behind + 1:
        raise EinopsError(f"unpack({pattern!r}) got an input of rank {array.rank}")
    lengths = [-1 if -1 in tuple(one) else math.prod(one) for one in packed_shapes]
    if lengths.count(-1) > 1:
        raise EinopsError("more than one length that is not known")
    known = sum(length for length in lengths if length != -1)
    lengths = [sizes[before] - known if one == -1 else one for one in lengths]
    if sum(lengths) != sizes[before] or min(lengths, default=0) < 0:
        raise EinopsError(f"cannot unpack {sizes[before]} into {lengths}")
    found = []
    start = 0
    ahead = (slice(None),) * before
    for length, own in zip(lengths, packed_shapes, strict=True):
        piece = array[(*ahead, slice(start, start + length))]
        whole = (*sizes[:before], *own, *sizes[before + 1 :])
        found.append(jnp.reshape(piece, whole))
        start += length
    return found


@provide("einops.parse_shape")
def parse_shape(x: Any, pattern: str) -> dict[str, Any]:
    """The sizes of an array by the names of a pattern."""
    array = asarray(x)
    names = pattern.split()
    if "..." in names:
        place = names.index("...")
        hidden = array.rank - len(names) + 1
        names[place : place + 1] = ["_"] * max(hidden, 0)
    if len(names) != array.rank:
        raise RuntimeError(
            f"Can't parse shape with different number of dimensions: {pattern!r} {array.dims}"
        )
    sizes = zip(names, local_shape(array), strict=True)
    return {name: size for name, size in sizes if name != "_"}


@provide("einops.asnumpy")
def asnumpy(tensor: Any) -> Any:
    return np.array(tensor)
