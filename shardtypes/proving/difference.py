"""What a person is shown of a result that is not the same on devices as on one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from shardtypes.proving.arguments import Draws
from shardtypes.proving.numbers import Values, finite
from shardtypes.proving.observed import Host
from shardtypes.proving.verdict import Numbers


def difference(
    number: int,
    paths: Sequence[str],
    found: list[Values],
    wanted: list[Host],
    many: Draws,
    on: str,
) -> Numbers:
    """Of one result, where it differs most: ``found`` is on devices and ``wanted`` ``on`` fewer, for each of several
    draws of the arguments, which are ``many``."""
    array = found[number].array
    path = paths[number]
    whole = _beside(array, wanted[number])
    if array.shape != whole.shape:
        shape = array.shape[1:]
        shape_of_one = whole.shape[1:]
        words = f"of shape {shape}, on one device {shape_of_one}"
        unknown = float("nan")
        return Numbers(path, unknown, unknown, float("inf"), words)
    left = finite(array)
    right = finite(whole)
    error = np.abs(left - right)
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    scale = float(np.max(np.abs(right))) or 1.0
    mine = _shown(array[at])
    his = _shown(whole[at])
    if len(at) > 1:
        place = tuple(int(i) for i in at[1:])
        where = f" at {place}"
    else:
        where = ""
    off = float(error[at]) / scale
    if off == 0:
        words = "not the same on all devices"
    else:
        ours = f"{mine:.6g}{where}"
        words = f"{ours} on devices, {his:.6g} on {on}"
    arguments = tuple(many[at[0]])
    return Numbers(path, mine, his, off, words, arguments)


def _beside(array: Host, whole: Host) -> Host:
    """What each device of ``pmap`` would return: one device returns one copy, or all shards in one row."""
    if array.shape == whole.shape or array.ndim != whole.ndim:
        return whole
    if array.size == whole.size:
        return whole.reshape(array.shape)
    fits = all(
        mine == his or his == 1
        for mine, his in zip(array.shape, whole.shape, strict=True)
    )
    if fits:
        return np.broadcast_to(whole, array.shape)
    return whole


def _shown(value: Any) -> float:
    if np.iscomplexobj(value):
        return float(value.real)
    return float(value)
