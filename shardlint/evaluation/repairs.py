"""Small changes that make the result of a program the same on any number of devices, found out by running it with each.

A departure is reported where two runs part, and that may be far from the line to change: a sum that is missing in a
backward rule shows in the norm of the gradients. So changes are tried that undo what people do: a reduction that is
missing, applied twice, another one, over too few axes; a permutation the wrong way round.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from shardlint.evaluation import replicas
from shardlint.evaluation.comparison import Allowance, Program, compared
from shardlint.evaluation.culprits import Step, Trace
from shardlint.evaluation.departures import DEVICES, Departure, Evidence, differing_results
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Given, Recorded, Where
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.operators import divide
from shardtypes.semantics.primitives import collectives
from shardtypes.semantics.trees import map_leaves

STEPS = 150_000
"""For all runs with changes, of one departure."""
MOST = 16
"""Changes that are tried."""

_SHORT = {"jax.lax.psum": "lax.psum", "jax.lax.pmean": "lax.pmean"}
_OTHER = {"jax.lax.psum": "jax.lax.pmean", "jax.lax.pmean": "jax.lax.psum"}


@dataclass(frozen=True)
class Repair:
    """A change at an expression: of the function that is called there, or of its value. ``text`` says it."""

    where: Where
    text: str
    function: Callable[[Any], Any] = field(compare=False, default=lambda function: function)
    value: Callable[[Any], Any] = field(compare=False, default=lambda value: value)
    is_new: bool = False
    """Whether it is a reduction that was not there."""
    left: frozenset[str] = frozenset()
    """Other results that still depend on the number of devices."""


def repair(departure: Departure) -> Repair | None:
    """The first change with which no result depends on the number of devices, or else one with which fewer do, and the
    reported one does not."""
    evidence = departure.evidence
    program = replace(evidence.program, allowance=Allowance(STEPS))
    best: Repair | None = None
    whole: Repair | None = None
    for one in islice(_suspects(departure), MOST):
        differing = _differing(evidence, program, one)
        mends = differing is not None and differing < evidence.differing and departure.difference.path not in differing
        if mends and differing:
            best = best or replace(one, left=differing)
        # A sum that is missing may be taken anywhere on a way: it is best taken where the way begins.
        is_on_the_way = mends and one.is_new and one.where.backward == (whole is not None and whole.where.backward)
        if whole is not None and not is_on_the_way:
            break
        if mends and not differing:
            whole = one
    return whole or best


def _differing(evidence: Evidence, program: Program, change: Repair) -> frozenset[str] | None:
    """The results of the call that departs which still do with a change; None where the runs do not come as far, or
    part before."""
    setting, changes = evidence.setting, {change.where: change}

    def until(regions: list[Region]) -> bool:
        return len(regions) > evidence.call

    many = program.run(DEVICES, record=True, until=until, changes=changes)
    few = program.run(setting.devices, setting.literals, record=True, until=until, changes=changes)
    if program.allowance.is_spent or not len(many.regions) == len(few.regions) == evidence.call + 1:
        return None
    pairs = list(zip(many.regions, few.regions, strict=True))
    if any(compared(region, twin) is not None for region, twin in pairs[:-1]):
        return None
    differing = differing_results(*pairs[-1])
    # What devices have different values of is no result, though its first copy may be the same.
    return None if differing is None else differing | replicas.unequal_results(many, evidence.call)


def _suspects(departure: Departure) -> Iterator[Repair]:
    """Changes of what led to the result, each once: of what backward rules give, of reductions that are there, and then
    new ones, from where the runs part back to where a partial sum begins."""
    evidence, axis = departure.evidence, departure.axis
    trace = evidence.trace
    led = [trace.many.values[number] for number in sorted(_ancestors(trace, evidence.sources), reverse=True)]
    rules = [one for one in led if one.is_of_rule]
    others = [one for one in led if not one.is_of_rule]
    seen: set[tuple[Where, str]] = set()
    every = (*_reductions(trace, rules, axis), *_of_collectives(others, axis), *_reductions(trace, others, axis))
    for one in every:
        if (one.where, one.text) not in seen:
            seen.add((one.where, one.text))
            yield one


def _ancestors(trace: Trace, sources: Iterable[int]) -> set[int]:
    found: set[int] = set()
    waiting = list(sources)
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting.extend(trace.many.values[number].sources)
    return found


# --- collectives that are there ---------------------------------------------------------------------------------------


def _of_collectives(led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    for one in led:
        where, plain = one.key[0], one.what
        fixed = plain.keywords if isinstance(plain, functools.partial) else {}
        name = getattr(plain.func if fixed else plain, "qualname", "")
        is_over = axis in one.given.names or axis in Given.among(*fixed.values()).names
        if where.backward:
            continue
        if name in _OTHER and is_over:
            other = functools.partial(Outside(_OTHER[name]), **fixed)
            yield Repair(where, f"no {_SHORT[name]} here", function=_always(_unchanged))
            yield Repair(where, f"{_SHORT[_OTHER[name]]} here", function=_always(other))
        elif name in _OTHER:
            yield Repair(where, f"this {_SHORT[name]} over {axis!r} too", function=_over(Outside(name), fixed, axis))
        elif name == "jax.lax.ppermute" and is_over:
            yield Repair(where, "the pairs of this lax.ppermute the other way round", function=_reversed)


def _always(function: Any) -> Callable[[Any], Any]:
    return lambda plain: function


def _unchanged(x: Any, *args: Any, **options: Any) -> Any:
    return x


def _over(function: Any, fixed: Mapping[str, Any], axis: str) -> Callable[[Any], Any]:
    """A reduction over one axis more."""

    def reduction(x: Any, axis_name: Any = None, **options: Any) -> Any:
        given = fixed.get("axis_name", axis_name)
        names = given if isinstance(given, (tuple, list)) else (given,)
        return function(x, (*names, axis), **options)

    return _always(reduction)


def _reversed(function: Any) -> Any:
    """A permutation that sends each device's value where it would come from."""

    def permutation(x: Any, axis_name: Any, perm: Any) -> Any:
        return function(x, axis_name, [(target, source) for source, target in perm])

    return permutation


# --- reductions that are missing --------------------------------------------------------------------------------------


def _reductions(trace: Trace, led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    for one in led:
        step = trace.step(one.number)
        if not _is_partial(step) or (one.is_argument and not one.key[0].backward):
            continue
        means = step.power == 1
        of = "of the gradient of this value" if one.key[0].backward else "of this value"
        if one.is_of_rule:
            of = "of what this backward rule returns"
        elif one.is_argument:
            of = "of the gradients by the arguments of this function"
        reduction = "lax.pmean" if means else "lax.psum"
        text = f"a {reduction} over {axis!r} {of}"
        yield Repair(one.key[0], text, value=functools.partial(_reduced, axis=axis, means=means), is_new=True)


def _is_partial(step: Step) -> bool:
    """Whether devices have parts of a sum, or of a mean."""
    relation = step.relation
    return relation is not None and relation.kind == "part" and relation.monoid == "sum" and step.power in (0, 1)


def _reduced(value: Any, axis: str, means: bool) -> Any:
    """A value whose arrays that differ along an axis are reduced over it."""

    def reduced(leaf: Any) -> Any:
        if not isinstance(leaf, Array) or leaf.value is None or not leaf.value.varies_along(axis):
            return leaf
        if not (leaf.dtype or "").startswith(("float", "bfloat")):
            return leaf
        size = dict(leaf.value.axes)[axis]
        total = collectives.psum(leaf, axes=((axis, size),), groups=None)
        return divide(total, size) if means else total

    return map_leaves(reduced, value)
