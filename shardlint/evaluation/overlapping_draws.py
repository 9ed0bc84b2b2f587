"""Random numbers that devices draw for rows of their own, some of them alike: the numbers that make the keys overlap.

Rows are counted from the index of the device in place of that index times how many each has, say. Results then depend
on the number of devices, as they do where each device draws what it likes; but there no two draw alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from shardlint.evaluation.comparison import Outcome
from shardlint.evaluation.recording import KEYS, Recorded, Recorder, Where
from shardlint.evaluation.repeated_draws import (
    POSITIONS,
    RepeatedDraw,
    key_of,
    led_to_results,
)
from shardtypes.semantics.lazy import np
from shardtypes.semantics.simulated import is_of_examples

_Place: TypeAlias = tuple[int, ...]
"""Of a device in the mesh."""
_Held: TypeAlias = Mapping[_Place, frozenset[Any]]
"""The entries that each device has, each once."""


def overlapping_draws(run: Outcome, axes: frozenset[str]) -> Iterator[RepeatedDraw]:
    """The first draw along each of the axes for which some rows of different devices have the same key; of a run that
    is recorded, and if results of mapped functions depend on it."""
    recorder = run.recorder
    assert recorder is not None
    led = sorted(led_to_results(run, recorder)) if axes else []
    for axis in sorted(axes):
        for number in led:
            draw = recorder.values[number]
            key = key_of(recorder, draw)
            if key is None or not _is_draw(draw, axis):
                continue
            if _overlaps(key, axis):
                yield _described(recorder, draw, key, axis)
                break


def _is_draw(value: Recorded, axis: str) -> bool:
    """Whether devices along an axis draw a value with keys of their own."""
    if value.array.dtype in KEYS or value.name in POSITIONS:
        return False
    return axis in value.array.own


def _overlaps(value: Recorded, axis: str) -> bool:
    """Whether the entries of each device are different, and devices at different places along an axis have some in
    common; not if those that differ along this axis alone have the same, as copies do."""
    numbers = value.array.value
    if numbers is None or not numbers.varies_along(axis):
        return False
    of_mesh = [one for one in numbers.axes if not is_of_examples(one)]
    sizes = [size for _, size in of_mesh]
    spread = numbers.spread(numbers.axes)
    places = [numbers.axes.index(one) for one in of_mesh]
    rows = np.moveaxis(spread, places, range(len(places)))
    held: dict[_Place, frozenset[Any]] = {}
    for place in itertools.product(*map(range, sizes)):
        entries = rows[place].ravel().tolist()
        held[place] = frozenset(entries)
        if len(held[place]) < len(entries):
            return False
    along = [name for name, _ in of_mesh].index(axis)
    pairs = [
        (one, other)
        for one, other in itertools.combinations(held, 2)
        if one[along] != other[along]
    ]
    are_copies = any(_differ_in_one(*pair) and _same(held, pair) for pair in pairs)
    return not are_copies and any(_share_some(held, pair) for pair in pairs)


def _differ_in_one(one: _Place, other: _Place) -> bool:
    return sum(a != b for a, b in zip(one, other, strict=True)) == 1


def _same(held: _Held, pair: tuple[_Place, _Place]) -> bool:
    one, other = pair
    return held[one] == held[other]


def _share_some(held: _Held, pair: tuple[_Place, _Place]) -> bool:
    one, other = pair
    return not held[one].isdisjoint(held[other])


def _described(
    recorder: Recorder, draw: Recorded, key: Recorded, axis: str
) -> RepeatedDraw:
    keys: dict[Where, None] = {}
    current: Recorded | None = key
    while current is not None and _overlaps(current, axis):
        keys[current.where] = None
        key = current
        current = key_of(recorder, current)
    calls = recorder.drawn_in.get(draw.number, ())
    numbers = tuple(_numbers_of(recorder, key, axis))
    return RepeatedDraw(
        axis, draw.what, draw.where, calls, tuple(keys), numbers, None, overlaps=True
    )


def _numbers_of(recorder: Recorder, key: Recorded, axis: str) -> Iterator[Where]:
    """Where the numbers begin to overlap that a key is made of."""
    sources = [recorder.values[number] for number in key.sources]
    folded = {one.number for one in sources if one.array.dtype not in KEYS}
    for number in sorted(recorder.led(folded)):
        one = recorder.values[number]
        if one.is_inside and not one.is_argument and _overlaps(one, axis):
            yield one.where
            return
