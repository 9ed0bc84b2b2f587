"""The program of a question, traced on meshes of other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardtypes.proving.arguments import (
    Layout,
    as_shards,
)
from shardtypes.proving.calls import Call
from shardtypes.proving.relation import Sizes
from shardtypes.proving.tracing import Traced, traced


def on_one(call: Call, places: Sequence[Layout], sizes: Sizes, context: Any) -> Traced:
    arrays = [
        place.one(array) for place, array in zip(places, call.arrays, strict=True)
    ]
    return traced_again(call, arrays, dict.fromkeys(sizes, 1), context)


def traced_again(
    call: Call, arrays: Sequence[Any], sizes: Sizes, context: Any
) -> Traced:
    """The program on a mesh of other sizes than those that it has read."""
    with call.on_mesh(sizes):
        return traced(call.flat, (list(arrays),), {}, sizes, context)


def laid_out(
    call: Call, places: list[Layout], sizes: Sizes, context: Any
) -> tuple[Traced | Exception, list[Layout]]:
    """The program on one device, or what it raises there; and the places of its arguments: others than these where it
    runs only for those."""
    one = try_on_one(call, places, sizes, context)
    if not isinstance(one, Exception):
        return one, places
    others = as_shards(places, call.arrays, call.paths)
    if others == places:
        return one, places
    again = try_on_one(call, others, sizes, context)
    if isinstance(again, Exception):
        return one, places
    return again, others


def try_on_one(
    call: Call, places: Sequence[Layout], sizes: Sizes, context: Any
) -> Traced | Exception:
    try:
        return on_one(call, places, sizes, context)
    except Exception as error:  # noqa: BLE001 - the user's program, on a mesh that it may not be for
        return error
