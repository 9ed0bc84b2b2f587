"""The sentences about programs whose results depend on the number of devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardlint.evaluation.arrays import Method
from shardlint.evaluation.assertions import FailingAssertion
from shardlint.evaluation.change import Repair
from shardlint.evaluation.comparison import Difference, Resized
from shardlint.evaluation.culprits import Step
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.drifting import Drifting
from shardlint.evaluation.guards import ITEM
from shardlint.evaluation.idle_reductions import IdleReduction
from shardlint.evaluation.layouts import ReplicatedState
from shardlint.evaluation.repeated_draws import RepeatedDraw
from shardlint.evaluation.replicas import Unequal
from shardtypes.lang.messages import (
    applied_to,
    device_mean,
    listed,
    partial_sum,
    reduce_first,
    returned_as_replicated,
)
from shardtypes.semantics.relation import Relation

_SHORT = (
    ("jax.numpy.", "jnp."),
    ("jax.lax.", "lax."),
    ("jax.nn.", "jax.nn."),
    ("jax.", "jax."),
)
_OWN = "a device-varying value"


def departure_text(departure: Departure, sizes: Mapping[str, int] | None = None) -> str:
    """What differs, by how much, and what happens at the place of the finding. ``sizes`` stand for the names in the
    annotations of the arguments."""
    return f"{_depends(departure, sizes)}: {cause(departure)}"


def mended_text(
    departure: Departure, mended: Repair, parts_here: bool, sizes: Mapping[str, int]
) -> str:
    """What differs, by how much, and what to change at the place of the finding; what happens there, too, if the runs
    part there."""
    happens = f"{cause(departure)}; " if parts_here else ""
    return f"{_depends(departure, sizes)}: {happens}with {mended.text}, it is the same"


def _depends(departure: Departure, sizes: Mapping[str, int] | None) -> str:
    many, few = departure.counts
    entry, numbers = _compared(departure.difference)
    where = f"{departure.function}'s {departure.gives}" + (f" {entry}" if entry else "")
    axis = departure.axis
    chosen = ", ".join(f"{name}={size}" for name, size in (sizes or {}).items())
    given = f", with {chosen}" if chosen else ""
    if departure.evidence.regrouped is not None:
        given += ", with the same examples in each group"
    return f"{where} depends on the number of devices along {axis!r} ({numbers} on {many} and on {few}{given})"


def repair_text(departure: Departure, mended: Repair) -> str:
    """What to change, as far as two runs with the change tell."""
    many, few = departure.counts
    left = len(mended.left)
    rest = "" if not left else f"; {left} other{'' if left == 1 else 's'} still not"
    return f"with {mended.text}, this result is the same on {many} and on {few} devices along {departure.axis!r}{rest}"


def unequal_text(found: Unequal) -> str:
    """A result that leaves ``shard_map`` as replicated and is not."""
    entry = _entry(found.path, found.index)
    where = f"{found.function}'s result" + (f" {entry}" if entry else "")
    return (
        f"{where} {returned_as_replicated([found.axis], (found.first, found.second))}"
    )


def drifting_text(found: Drifting) -> str:
    """Copies that begin alike on all devices, and of which one is taken though they are no longer."""
    entry = _entry(found.path, found.index)
    return (
        f"{found.function}'s result {entry} differs between devices along {found.axis!r} "
        f"({_numbers(found.first, found.second)}), though they begin with the same, and one device's is taken for "
        f"all of them: average the gradients first with lax.pmean(…, {found.axis!r})"
    )


def repeated_text(found: RepeatedDraw) -> str:
    """Random numbers that all devices draw alike, or for some of their rows."""
    if found.overlaps:
        return (
            f"{operation(found.what)} draws the same numbers for different rows on devices along {found.axis!r}: what "
            f"its keys are made of overlaps: begin with lax.axis_index({found.axis!r}) times how many each device has"
        )
    return (
        f"{operation(found.what)} draws the same numbers on all devices along {found.axis!r}, though each has another "
        f"shard to draw them for: call jax.random.fold_in(key, lax.axis_index({found.axis!r})) first"
    )


def failing_text(found: FailingAssertion) -> str:
    """An assertion of the program that does not hold, and what to change."""
    line = found.where.place[0]
    return f"the assertion at line {line} fails on the mesh of this program: with {found.mended.text}, it holds"


def state_text(states: Sequence[ReplicatedState]) -> str:
    """State that is replicated where what it belongs to is sharded."""
    one = states[0]
    others = len({state.path for state in states}) - 1
    text = f"argument {one.path} is replicated ({one.state})"
    if others:
        text += f", and {others} other{'s' * (others > 1)},"
    if one.beside == one.path:
        text += f" though it is sharded in the first call ({one.parameter})"
    else:
        text += f" though its parameter, argument {one.beside}, is sharded ({one.parameter})"
    return f"{text}: each device holds all of it; give it the same sharding"


def idle_text(idle: IdleReduction) -> str:
    """A reduction that changes nothing."""
    over = ", ".join(map(repr, idle.axes))
    what = operation(idle.what)
    return f"{what} over {over} changes nothing: its operand is already the same on all devices along {over}"


def _entry(path: str, index: tuple[int, ...]) -> str:
    """An entry of an array in a tree."""
    return path + (f"[{', '.join(map(str, index))}]" if index else "")


def _compared(difference: Difference | Resized) -> tuple[str, str]:
    """What differs, and how."""
    if isinstance(difference, Resized):
        return difference.path, f"shapes {difference.first} and {difference.second}"
    return (
        _entry(difference.path, difference.index),
        _numbers(difference.first, difference.second),
    )


def _numbers(first: float, second: float) -> str:
    """Two numbers, with as many digits as it takes to see that they differ."""
    for digits in range(6, 18):
        one = f"{first:.{digits}g}"
        other = f"{second:.{digits}g}"
        if one != other:
            break
    return f"{one} and {other}"


def cause(departure: Departure) -> str:
    """What happens where the runs part."""
    axis = departure.axis
    culprit = departure.culprit
    step = culprit.step
    what = operation(step.value.what)
    if step.value.is_backward:
        what = f"the gradient of the result of {what}"
    if culprit.is_short_ring:
        return f"{what} sends each device's part to all others but one: the ring along {axis!r} lacks a round"
    if not culprit.operands and step.relation is not None and step.state == "holds":
        returned = f"sharded over {axis!r}" if step.kind == "same" else "replicated"
        return f"{what} gives {described(step.relation, axis)}, which is returned as {returned}"
    if step.state == "off" and not isinstance(departure.difference, Resized):
        return f"{what} {'is' if step.value.is_backward else 'gives a value'} {_factor(step)}"
    if departure.uneven is not None:
        return (
            f"{what} gives each device's mean of its own number of entries, and these means are averaged with "
            "equal weights"
        )
    operands = list(
        dict.fromkeys(described(one.relation, axis) for one in culprit.operands)
    )
    operands.sort(key=lambda text: text == _OWN)
    remedy = ""
    if partial_sum([axis]) in operands:
        remedy = reduce_first("psum", axis)
    elif device_mean([axis]) in operands:
        remedy = reduce_first("pmean", axis)
    if not step.value.is_backward:
        return applied_to(what, operands or [_OWN], remedy)
    text = f"{what} is computed from {listed(operands or [_OWN])}"
    return f"{text}: {remedy}" if remedy else text


def _factor(step: Step) -> str:
    """``multiplied by the number of devices``, as a power says."""
    power = step.power
    times = "multiplied" if power > 0 else "divided"
    size = abs(power)
    return (
        f"{times} by the number of devices"
        if size == 1
        else f"{times} by the number of devices to the power {size}"
    )


def described(relation: Relation | None, axis: str) -> str:
    """A relation over an axis, in words."""
    if relation is None:
        return _OWN
    if relation.kind == "split" and relation.dim is None:
        return f"a value of examples that are sharded over {axis!r}"
    if relation.kind == "split":
        return f"a value sharded over {axis!r} along dimension {relation.dim}"
    if relation.kind == "part":
        if relation.monoid != "sum":
            return _OWN
        return device_mean([axis]) if relation.power == 1 else partial_sum([axis])
    return "a replicated value"


def operation(what: Any) -> str:
    """A function or an operator, as the program writes it."""
    if what == ITEM:
        return "indexing"
    if isinstance(what, str):
        return f"`{what if what == '==' else what.rstrip('=')}`"
    if isinstance(what, Method):
        return what.__name__
    name = (
        getattr(what, "qualname", None)
        or getattr(what, "__name__", None)
        or type(what).__name__
    )
    for prefix, short in _SHORT:
        if name.startswith(prefix):
            return f"{short}{name.removeprefix(prefix)}"
    return (
        "the call"
        if name.startswith("<") or name in ("mapped", "partial")
        else str(name)
    )
