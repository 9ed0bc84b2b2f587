"""Random numbers that all devices along an axis draw alike, each for its own shard.

Examples on different devices get the same noise, or units the same dropout mask, where one device would draw for each
its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.comparison import Outcome
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.recording import KEYS, Alike, Recorded, Recorder, Where
from shardtypes.semantics.array import Array
from shardtypes.semantics.simulated import is_of_examples
from shardtypes.semantics.trees import flatten

# What gives positions in a shard: rows may be put in the same order on all devices.
POSITIONS = frozenset(
    f"jax.random.{name}" for name in ("permutation", "choice", "randint", "shuffle")
)


@dataclass(frozen=True)
class RepeatedDraw:
    """The first expression that draws the same on all devices along an ``axis``; ``what`` is the function that draws.
    ``calls`` are those of the program's functions in the mapped one that it is in, the outermost first, ``keys`` the
    expressions that made its key, the last one first, and ``given`` is the call that gives the key to the mapped
    function. ``numbers`` are where numbers begin that are folded into the key, such as those of rows, and that are the
    same on all devices, too."""

    axis: str
    what: Any
    draw: Where
    calls: tuple[Where, ...]
    keys: tuple[Where, ...]
    numbers: tuple[Where, ...]
    given: Where | None
    overlaps: bool = False
    """Whether devices draw alike for some of their rows, and the numbers are those that overlap."""

    @property
    def where(self) -> Where:
        """What the mapped function itself does: a function that draws may be right for its other callers. Numbers that
        overlap are wrong themselves."""
        if self.overlaps and self.numbers:
            return self.numbers[0]
        return self.calls[0] if self.calls else self.draw


def axes_to_judge(run: Outcome) -> tuple[frozenset[str], frozenset[str]]:
    """The axes with several devices along which all of them drew with the same key: for their shards, and, in functions
    under ``pmap`` or for examples under ``vmap``, where only another number of devices shows what is a shard."""
    several = {axis for axis, size in run.sizes.items() if size > 1}
    stacked = {
        axis
        for region in run.regions
        if region.stacked is not None
        for axis in region.split
    }
    others = (run.alike.others & stacked) | run.alike.mapped
    return run.alike.shards & several, others & several


def repeated_draws(run: Outcome, axes: frozenset[str]) -> tuple[RepeatedDraw, ...]:
    """The first draw for its shard that is the same on all devices, along each of the axes; of a run that is recorded,
    and if results of mapped functions depend on it."""
    assert run.recorder is not None
    found: dict[str, RepeatedDraw] = {}
    for draw, alike in _draws(run, run.recorder):
        for axis in sorted((alike.shards & axes) - found.keys()):
            if not _is_told_apart(run.recorder, draw, axis):
                found[axis] = _described(run.recorder, draw, axis)
    return tuple(found.values())


def repeated_beside(run: Outcome, trace: Trace) -> RepeatedDraw | None:
    """The same along the axis of a trace, of draws that are for more entries, or for more examples, on few devices: for
    what these share out."""
    assert run.recorder is not None
    axis = trace.axis
    is_stacked = axis in run.machine.pmapped
    for draw, alike in _draws(run, run.recorder):
        twin = trace.first_twin(draw)
        if axis not in alike.others or twin is None:
            continue
        is_for_shard = axis in alike.mapped and _examples(draw) != _examples(twin)
        if is_stacked and draw.array.rank:
            is_for_shard |= draw.array.dims != twin.array.dims
        if is_for_shard and not _is_told_apart(run.recorder, draw, axis):
            return _described(run.recorder, draw, axis)
    return None


def _examples(draw: Recorded) -> tuple[int, ...]:
    """For how many examples ``vmap`` makes a draw."""
    value = draw.array.value
    axes = () if value is None else value.axes
    return tuple(size for name, size in axes if is_of_examples((name, size)))


def _described(recorder: Recorder, draw: Recorded, axis: str) -> RepeatedDraw:
    keys: dict[Where, None] = {}
    numbers: dict[Where, None] = {}
    given = None
    current = key_of(recorder, draw)
    while current is not None:
        given = given or recorder.calls.get(current.number)
        if not current.is_argument:
            keys[current.where] = None
            numbers.update(dict.fromkeys(_numbers_of(recorder, current, axis)))
        current = key_of(recorder, current)
    calls = recorder.drawn_in[draw.number]
    return RepeatedDraw(
        axis, draw.what, draw.where, calls, tuple(keys), tuple(numbers), given
    )


def _numbers_of(recorder: Recorder, key: Recorded, axis: str) -> Iterator[Where]:
    """Where the numbers begin that make keys for examples of one key, unless they are an argument's."""
    before = key_of(recorder, key)
    if before is None or (_examples(key) and _rank(key) == _rank(before)):
        return
    for number in sorted(key.sources):
        folded = recorder.values[number]
        # A step of a loop is one number of all those that its keys are made of.
        if folded.array.dtype in KEYS or _rank(key) < _rank(folded):
            continue
        led = [recorder.values[one] for one in recorder.led({number})]
        begin = min(
            (one for one in led if _rank(one) and _is_alike(one, axis)),
            key=lambda one: one.number,
            default=None,
        )
        if begin is not None:
            yield begin.where


def _rank(value: Recorded) -> int:
    """The rank that it has on one device, of all examples together."""
    return value.array.rank + len(_examples(value))


def _is_alike(one: Recorded, axis: str) -> bool:
    """Whether a mapped function computed a value that is the same on all devices along an axis."""
    if one.is_argument or not one.is_inside:
        return False
    value = one.array.value
    return value is not None and not value.varies_along(axis)


def key_of(recorder: Recorder, value: Recorded) -> Recorded | None:
    """The key that a value was drawn with, or split from."""
    sources = [recorder.values[number] for number in sorted(value.sources)]
    keys = [one for one in sources if one.array.dtype in KEYS]
    return keys[0] if keys else None


def _draws(run: Outcome, recorder: Recorder) -> Iterator[tuple[Recorded, Alike]]:
    led = led_to_results(run, recorder)
    for number in sorted(led & recorder.alike.keys()):
        draw = recorder.values[number]
        if draw.name not in POSITIONS:
            yield draw, recorder.alike[number]


def led_to_results(run: Outcome, recorder: Recorder) -> set[int]:
    """The numbers of the recorded values that results of mapped functions were computed from."""
    results = [leaf for region in run.regions for leaf in flatten(region.places[0])[0]]
    sources = [leaf.sources for leaf in results if isinstance(leaf, Array)]
    return recorder.led(frozenset[int]().union(*sources))


def _is_told_apart(recorder: Recorder, draw: Recorded, axis: str) -> bool:
    """Whether keys that were split for the shard differ after all, by what is folded into them later."""
    of_it = {draw.number}
    for one in recorder.values[draw.number + 1 :]:
        if of_it.isdisjoint(one.sources):
            continue
        of_it.add(one.number)
        is_key = one.array.dtype == draw.array.dtype and draw.array.dtype in KEYS
        value = one.array.value
        if is_key and value is not None and value.varies_along(axis):
            return True
    return False
