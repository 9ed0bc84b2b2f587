"""What the searches for changes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from shardlint.evaluation.change import Repair, same
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Recorded, Where
from shardtypes.semantics.simulated import is_of_examples

#: Each reduction that adds up, with the other one.
MEAN_OR_SUM = {"jax.lax.psum": "jax.lax.pmean", "jax.lax.pmean": "jax.lax.psum"}


def at(
    recorded: Recorded, text: str, function: Any = same, value: Any = same
) -> Repair:
    """A change at the expression that gave a value."""
    return Repair(recorded.where, text, function, value, caller=recorded.caller)


def each_once(changes: Iterable[Repair], most: int) -> Iterator[Repair]:
    """The first changes, at most so many, without those that read as one before."""
    return islice(without_repeats(changes), most)


def without_repeats(changes: Iterable[Repair]) -> Iterator[Repair]:
    """Changes without those that read as one before: each costs whole runs."""
    seen: set[tuple[Where, str]] = set()
    for one in changes:
        if (one.where, one.text) not in seen:
            seen.add((one.where, one.text))
            yield one


def always(function: Any) -> Callable[[Any], Any]:
    """A change of the function that is called: this one in its place, whatever it is."""
    return lambda plain: function


def unchanged(x: Any, *args: Any, **options: Any) -> Any:
    """What a function is given first, in place of what it gives."""
    return x


def device_index(axis: str) -> Any:
    """``lax.axis_index`` in the program that runs."""
    return Outside("jax.lax.axis_index")(axis)


def axis_size(axis: str) -> Any:
    """``lax.axis_size`` in the program that runs."""
    return Outside("jax.lax.axis_size")(axis)


def varying_axes(trace: Trace) -> frozenset[str]:
    """The axes along which something differs."""
    values = [one.array.value for one in trace.many.values]
    return frozenset(
        name for value in values if value is not None for name, _ in value.axes
    )


def differing_axes(values: Iterable[Recorded]) -> list[str]:
    """The mesh axes along which values differ, without those of examples."""
    found: dict[str, None] = {}
    for one in values:
        value = one.array.value
        for axis in () if value is None else value.axes:
            if not is_of_examples(axis):
                found[axis[0]] = None
    return list(found)


def is_integer(value: Recorded) -> bool:
    dtype = value.array.dtype or ""
    return dtype.startswith(("int", "uint"))
