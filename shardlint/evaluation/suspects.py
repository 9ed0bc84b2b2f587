"""Changes that may make the result of a program the same on any number of devices: they undo what people do.

A reduction is missing, applied twice, another one, over too few axes; a permutation goes the wrong way round; a shard
takes itself for the whole; an argument is not sharded.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Any

from shardlint.evaluation import guards
from shardlint.evaluation.change import Repair, same
from shardlint.evaluation.culprits import Step, Trace
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Given, Parameter, Recorded, Where
from shardlint.evaluation.rings import left_behind, sent_along
from shardlint.evaluation.uneven_means import (
    UnevenMean,
    averaged,
    with_average_count,
    with_average_divisor,
)
from shardtypes.semantics.array import Array, Node
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.operators import divide
from shardtypes.semantics.primitives import collectives
from shardtypes.semantics.simulated import is_of_examples
from shardtypes.semantics.trees import flatten, map_leaves, unflatten

MOST = 16
"""Changes of reductions and permutations that are tried."""
MOST_AXES = 10
MOST_ENTERED = 10
MOST_OFFSETS = 4
MOST_RINGS = 10
MOST_SPECS = 8
MOST_SWAPS = 6
MOST_CHOICES = 6
MOST_INDICES = 8
MOST_OF_SEVERAL = 8

_SHORT = {"jax.lax.psum": "lax.psum", "jax.lax.pmean": "lax.pmean"}
_OTHER = {"jax.lax.psum": "jax.lax.pmean", "jax.lax.pmean": "jax.lax.psum"}


def suspects(departure: Departure) -> Iterator[Repair]:
    """Changes of what led to the result, each once: of what backward rules give, of offsets, of reductions that are
    there, and then new ones, from where the runs part back to where a partial sum begins, and after it; of specs in the
    end."""
    evidence, axis = departure.evidence, departure.axis
    trace = evidence.trace
    if departure.uneven is not None:
        yield from _even(departure.uneven, axis)
        return
    if departure.is_of_ring:
        yield from islice(rings_to_close(departure), MOST_RINGS)
        return
    led = [
        trace.many.values[number]
        for number in sorted(trace.ancestors(evidence.sources), reverse=True)
    ]
    rules = [one for one in led if one.is_of_rule]
    others = [one for one in led if not one.is_of_rule]
    yield from islice(rings_to_close(departure), MOST_RINGS)
    yield from islice(_each_once(_offsets(departure, others)), MOST_OFFSETS)
    parted = trace.ancestors({departure.culprit.step.value.number})
    before = [one for one in others if one.number in parted]
    after = [one for one in others if one.number not in parted]
    there = (*_reductions(trace, rules, axis), *_of_collectives(others, axis))
    yield from islice(_each_once(there), MOST)
    if departure.culprit.step.value.key[0].backward:
        entered = _each_once(_entered(trace, axis))
        yield from islice(entered, MOST_ENTERED)
    yield from islice(_each_once(_reductions(trace, before, axis)), MOST)
    yield from islice(_each_once(_reductions(trace, after, axis)), MOST)
    several = _over_several_axes(trace, before)
    yield from islice(_each_once(several), MOST_OF_SEVERAL)
    yield from islice(_each_once(_of_specs(trace, reversed(led), axis)), MOST_SPECS)
    yield from islice(_each_once(_swapped(trace, reversed(led), axis)), MOST_SWAPS)
    yield from islice(of_indices(departure), MOST_INDICES)
    yield from islice(_each_once(_of_others(trace, led, axis)), MOST_SPECS)
    yield from islice(_each_once(_indices_along_others(trace, axis)), MOST_AXES)
    # a gradient is not computed from the sum whose gradient it is
    computed = reversed(trace.many.values)
    yield from islice(_each_once(_of_one_device(trace, computed, axis)), MOST_CHOICES)


def rings_to_close(departure: Departure) -> Iterator[Repair]:
    """What stays on its device while the rest goes round a ring, sent along."""
    evidence, axis = departure.evidence, departure.axis
    for behind in left_behind(evidence.trace, evidence.sources, axis):
        text = (
            f"the operand that stays on its device sent round {axis!r} with the others"
        )
        yield Repair(behind.where, text, function=sent_along(behind, axis))


def _even(uneven: UnevenMean, axis: str) -> Iterator[Repair]:
    """A mean over all devices, in place of the mean of their means."""
    if uneven.parameter is not None:
        text = f"the number of entries that this divides by averaged by lax.pmean over {axis!r}"
        change = with_average_count(axis, uneven.parameter)
    else:
        text = f"the divisor averaged by lax.pmean over {axis!r}"
        change = with_average_divisor(axis)
    yield _at(uneven.division, text, function=change)
    for count in uneven.counts:
        text = f"a lax.pmean over {axis!r} of this value"
        yield _at(count, text, value=averaged(axis))


def _at(
    recorded: Recorded, text: str, function: Any = same, value: Any = same
) -> Repair:
    return Repair(recorded.key[0], text, function, value, caller=recorded.caller)


def _each_once(changes: Iterable[Repair]) -> Iterator[Repair]:
    seen: set[tuple[Where, str]] = set()
    for one in changes:
        if (one.where, one.text) not in seen:
            seen.add((one.where, one.text))
            yield one


# --- collectives that are there ---------------------------------------------------------------------------------------


def _of_collectives(led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    for one in led:
        plain = one.what
        fixed = plain.keywords if isinstance(plain, functools.partial) else {}
        name = getattr(plain.func if fixed else plain, "qualname", "")
        is_over = axis in one.given.names or axis in Given.among(*fixed.values()).names
        if one.key[0].backward:
            continue
        if name in _OTHER and is_over:
            other = functools.partial(Outside(_OTHER[name]), **fixed)
            yield _at(one, f"no {_SHORT[name]} here", function=_always(_unchanged))
            yield _at(one, f"{_SHORT[_OTHER[name]]} here", function=_always(other))
        elif name in _OTHER:
            yield _at(
                one,
                f"this {_SHORT[name]} over {axis!r} too",
                function=_over(Outside(name), fixed, axis),
            )
        elif name == "jax.lax.psum_scatter" and is_over:
            text = "this lax.psum_scatter divided by the number of devices"
            yield _at(one, text, value=functools.partial(_divided, axis=axis))
        elif name == "jax.lax.ppermute" and is_over:
            reversal = _at(
                one,
                "the pairs of this lax.ppermute the other way round",
                function=_reversed,
            )
            yield replace(reversal, argument=(2, "perm"))
            closed = _at(
                one,
                "the pair that is missing in the perm of this lax.ppermute",
                function=_closed,
            )
            yield replace(closed, argument=(2, "perm"))


def _always(function: Any) -> Callable[[Any], Any]:
    return lambda plain: function


def _divided(value: Any, axis: str) -> Any:
    size = Outside("jax.lax.axis_size")(axis)
    return map_leaves(lambda leaf: divide(leaf, size), value)


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


def _closed(function: Any) -> Any:
    """A permutation in which the one device that sends nothing sends to the one that gets nothing."""

    def permutation(x: Any, axis_name: Any, perm: Any) -> Any:
        pairs = [(source, target) for source, target in perm]
        devices = set(range(Outside("jax.lax.axis_size")(axis_name)))
        senders = devices - {source for source, _ in pairs}
        receivers = devices - {target for _, target in pairs}
        if len(senders) == len(receivers) == 1:
            pairs.append((senders.pop(), receivers.pop()))
        return function(x, axis_name, pairs)

    return permutation


def _indices_along_others(trace: Trace, axis: str) -> Iterator[Repair]:
    """The index along another axis, of one that is this axis, or becomes it."""
    axes = _mesh_axes(trace)
    for one in trace.many.values:
        given = one.given.names & axes
        is_index = getattr(one.what, "qualname", "") == "jax.lax.axis_index"
        if not is_index or len(given) != 1:
            continue
        for other in sorted(axes - given):
            if axis in (*given, other):
                text = f"lax.axis_index({other!r}) here"
                yield _at(one, text, function=_always(_index_along(other)))


#: What is taken for each operator by mistake: its symbol, and what it computes.
_OPPOSITE: Mapping[Any, tuple[str, Callable[[Any, Any], Any]]] = {
    "+": ("-", operator.sub),
    "-": ("+", operator.add),
    "<": ("<=", operator.le),
    "<=": ("<", operator.lt),
    ">": (">=", operator.ge),
    ">=": (">", operator.gt),
}


def of_indices(departure: Departure) -> Iterator[Repair]:
    """Another sign, or another comparison, of what is computed from the index of a device."""
    return _each_once(_of_indices(departure))


def _of_indices(departure: Departure) -> Iterator[Repair]:
    trace = departure.evidence.trace
    of_index = _of_device_index(trace, departure.axis)
    for number in sorted(trace.ancestors(departure.evidence.sources), reverse=True):
        one = trace.many.values[number]
        is_position = _is_integer(one) or one.array.dtype == "bool"
        if number not in of_index or one.key[0].backward or not is_position:
            continue
        if isinstance(one.what, str) and one.what in _OPPOSITE:
            symbol, function = _OPPOSITE[one.what]
            text = f"`{symbol}` in place of `{one.what}` here"
            yield _at(one, text, function=_always(function))


def _of_device_index(trace: Trace, axis: str) -> set[int]:
    """The values that were computed from the index of a device along an axis."""
    found = set[int]()
    for one in trace.many.values:
        name = getattr(one.what, "qualname", "")
        is_index = name == "jax.lax.axis_index" and axis in one.given.names
        if is_index or not found.isdisjoint(one.sources):
            found.add(one.number)
    return found


def _mesh_axes(trace: Trace) -> frozenset[str]:
    """The axes along which something differs."""
    values = [one.array.value for one in trace.many.values]
    return frozenset(
        name for value in values if value is not None for name, _ in value.axes
    )


def _index_along(axis: str) -> Callable[..., Any]:
    return lambda *args, **options: _index(axis)


# --- reductions that are missing --------------------------------------------------------------------------------------


def _reductions(trace: Trace, led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    for one in led:
        reduction = _missing(trace.step(one.number))
        if reduction is None or (one.is_argument and not one.key[0].backward):
            continue
        shown, of = _named(trace, one)
        text = f"a lax.{reduction} over {axis!r} {of}"
        reduced = functools.partial(_reduced, axis=axis, reduction=reduction)
        if _is_called_from_several(trace, one):
            # others may be reduced where they are called
            assert one.caller is not None
            yield Repair(one.caller, text, value=reduced, is_new=True)
        parts = _parts_at(trace, one.key[0], reduction)
        if parts is not None:
            reduced = functools.partial(
                _with_parts_reduced, parts, one.key[0], axis, reduction
            )
        made = _at(shown, text, value=reduced)
        is_beside = getattr(one.what, "qualname", "") in _OTHER
        changed = (one.key[0],)
        yield replace(made, is_new=True, is_beside=is_beside, changed=changed)


def _over_several_axes(trace: Trace, led: Iterable[Recorded]) -> Iterator[Repair]:
    """The same over all mesh axes along which a value differs: a reduction that was over several of them."""
    for one in led:
        reduction = _missing(trace.step(one.number))
        value = one.array.value
        if reduction is None or value is None or one.key[0].backward:
            continue
        axes = [axis[0] for axis in value.axes if not is_of_examples(axis)]
        if len(axes) < 2 or one.is_argument:
            continue
        names = " and ".join(map(repr, axes))
        reduced = functools.partial(_reduced_over, axes=axes, reduction=reduction)
        made = _at(one, f"a lax.{reduction} over {names} of this value", value=reduced)
        yield replace(made, is_new=True)


def _reduced_over(value: Any, axes: Sequence[str], reduction: str) -> Any:
    for axis in axes:
        value = _reduced(value, axis, reduction)
    return value


def _is_called_from_several(trace: Trace, value: Recorded) -> bool:
    """Whether the function that a value was computed in is called in several places."""
    where = value.key[0]
    if where.backward or value.caller is None:
        return False
    callers = {one.caller for one in trace.executions[where]}
    return len(callers) > 1


def _parts_at(
    trace: Trace, where: Where, reduction: str
) -> frozenset[tuple[int, int]] | None:
    """Which of the arrays that an expression gave lack a reduction, where others are shards: gradients of replicated
    weights beside those of sharded ones. By how often the expression was met before, and the place in a tree. None
    where there are no shards."""
    parts = set[tuple[int, int]]()
    has_shards = False
    for one in trace.executions[where]:
        _, times, leaf = one.key
        step = trace.step(one.number)
        has_shards |= _kind(step) == "split"
        if _missing(step) == reduction or (reduction == "psum" and _is_share(step)):
            parts.add((times, leaf))
    return frozenset(parts) if has_shards else None


def _is_share(step: Step) -> bool:
    """Whether all devices have the same part of a sum."""
    return _kind(step) == "same" and step.power == -1


def _entered(trace: Trace, axis: str) -> Iterator[Repair]:
    """The first products of a replicated value and a shard, whose gradients by that value are partial sums."""
    for one in trace.many.values:
        if one.key[0].backward or not one.is_inside or not _is_product(one):
            continue
        kinds = {_kind(trace.step(number)) for number in one.sources}
        if {"same", "split"} <= kinds:
            text = f"a lax.psum over {axis!r} of the gradient by what this takes"
            summed = functools.partial(_summed_backward, axis=axis)
            made = _at(one, text, function=summed)
            yield replace(made, is_new=True)


def _is_product(value: Recorded) -> bool:
    name = getattr(value.what, "qualname", value.what)
    return name in _PRODUCTS


_PRODUCTS = frozenset(
    {"@"} | {f"jax.numpy.{name}" for name in ("dot", "einsum", "matmul", "tensordot")}
)


def _kind(step: Step) -> str:
    return "" if step.relation is None else step.relation.kind


def _summed_backward(function: Any, axis: str) -> Any:
    """A function of which the gradients by what all devices have alike are summed over the axis."""

    def entered(leaf: Any) -> Any:
        if not isinstance(leaf, Array) or leaf.node is None or leaf.value is None:
            return leaf
        if leaf.value.varies_along(axis):
            return leaf
        return leaf.computed_by(Node((leaf,), _sum_of(axis)), 0)

    def called(*args: Any, **options: Any) -> Any:
        return function(*map(entered, args), **options)

    return called


def _sum_of(axis: str) -> Callable[[Any], Any]:
    def pull(cotangents: Any) -> Any:
        (cotangent,) = cotangents
        return [_reduced(cotangent, axis, "psum")]

    return pull


def _named(trace: Trace, value: Recorded) -> tuple[Recorded, str]:
    """What stands for a value in the mapped function, and how it is called there."""
    if value.is_of_rule:
        return value, "of what this backward rule returns"
    if value.is_argument:
        return value, "of the gradients by the arguments of this function"
    if value.gradient_of is None:
        return value, "of this value"
    use = None if value.is_inside else _first_use_inside(trace, value.gradient_of)
    return (
        (value, "of the gradient of this value")
        if use is None
        else (use, "of the gradient by what this takes")
    )


def _first_use_inside(trace: Trace, number: int) -> Recorded | None:
    """The first expression in a mapped function that computes something of an array."""
    uses = (one for one in trace.many.values if number in one.sources and one.is_inside)
    return next((one for one in uses if not one.key[0].backward), None)


def _missing(step: Step) -> str | None:
    """The reduction that makes a whole of what devices have parts of; None where they have none, or nothing tells."""
    relation = step.relation
    if relation is None or relation.kind != "part":
        return None
    if relation.monoid == "sum":
        return _SUMS.get(step.power)
    is_extreme = step.power == 0 and step.takes_extreme
    return _EXTREMES.get(relation.monoid or "") if is_extreme else None


_PRIMITIVES = {
    "psum": collectives.psum,
    "pmean": collectives.psum,
    "pmax": collectives.pmax,
    "pmin": collectives.pmin,
}
#: By the power of the number of devices that a whole is too large by.
_SUMS: Mapping[Fraction | int, str] = {0: "psum", 1: "pmean"}
_EXTREMES = {"max": "pmax", "min": "pmin"}


def _with_parts_reduced(
    parts: frozenset[tuple[int, int]],
    where: Where,
    axis: str,
    reduction: str,
    value: Any,
) -> Any:
    """What an expression gave, with those of its arrays reduced that are parts."""
    recorder = guards.recorder()
    times = 0 if recorder is None else recorder.met[where]
    reduce = Outside(f"jax.lax.{reduction}")
    leaves, structure = flatten(value)
    reduced = [
        reduce(leaf, axis) if (times, i) in parts else leaf
        for i, leaf in enumerate(leaves)
    ]
    return unflatten(structure, reduced)


def _reduced(value: Any, axis: str, reduction: str) -> Any:
    """A value whose arrays that differ along an axis are reduced over it."""

    def reduced(leaf: Any) -> Any:
        if (
            not isinstance(leaf, Array)
            or leaf.value is None
            or not leaf.value.varies_along(axis)
        ):
            return leaf
        if not (leaf.dtype or "").startswith(("float", "bfloat")):
            return leaf
        size = dict(leaf.value.axes)[axis]
        whole = _PRIMITIVES[reduction](leaf, axes=((axis, size),), groups=None)
        return divide(whole, size) if reduction == "pmean" else whole

    return map_leaves(reduced, value)


# --- what one device has ----------------------------------------------------------------------------------------------


def _of_one_device(
    trace: Trace, led: Iterable[Recorded], axis: str
) -> Iterator[Repair]:
    """Another device where one is chosen by its index, such as the stage whose outputs count; and one device's value in
    place of a sum of all."""
    for one in led:
        name = getattr(one.what, "qualname", "")
        if one.key[0].backward or axis not in one.given.names:
            continue
        if name == "jax.lax.axis_index":
            text = f"the devices along {axis!r} counted from the last one here"
            yield _at(one, text, value=functools.partial(_from_last, axis=axis))
        elif name == "jax.lax.psum" and _has_last(trace, one, axis):
            text = f"what only the last device along {axis!r} has in this lax.psum"
            yield _at(one, text, function=functools.partial(_of_last, axis=axis))


def _has_last(trace: Trace, total: Recorded, axis: str) -> bool:
    """Whether the last device has something else than zeros in a sum."""
    for number in total.sources:
        value = trace.many.values[number].array.value
        if value is None or not value.varies_along(axis):
            continue
        last = value.devices((axis, dict(value.axes)[axis]))[-1]
        if any(np.any(part) for part in last.parts):
            return True
    return False


def _from_last(index: Any, axis: str) -> Any:
    return Outside("jax.lax.axis_size")(axis) - 1 - index


def _index(axis: str) -> Any:
    return Outside("jax.lax.axis_index")(axis)


def _of_last(function: Any, axis: str) -> Any:
    """A sum in which the other devices have zeros."""

    def reduction(x: Any, *args: Any, **options: Any) -> Any:
        is_last = _index(axis) == Outside("jax.lax.axis_size")(axis) - 1

        def masked(leaf: Any) -> Any:
            return Outside("jax.numpy.where")(is_last, leaf, 0)

        return function(map_leaves(masked, x), *args, **options)

    return reduction


# --- shards that take themselves for the whole ------------------------------------------------------------------------

_COUNTS = frozenset({"jax.numpy.arange", "jax.lax.iota"})
_POSITIONS = frozenset({"argmax", "argmin", "argsort", "top_k", "approx_max_k"})
_ADDED = (
    "the offset of the shard (lax.axis_index({axis!r}) times its size) added to this"
)
_ADDED_TO_POSITIONS = "the offset of the shard (lax.axis_index({axis!r}) times its size) added to the positions here"
_SUBTRACTED = "the offset of the shard (lax.axis_index({axis!r}) times its size) subtracted from {name}"


def _offsets(departure: Departure, led: Iterable[Recorded]) -> Iterator[Repair]:
    """Positions in a shard that are meant in the whole, and the other way round."""
    axis, trace = departure.axis, departure.evidence.trace
    for one in led:
        if getattr(one.what, "qualname", "") in _COUNTS and _is_counted_in_shards(
            trace, one, axis
        ):
            text = _ADDED.format(axis=axis)
            yield _at(one, text, value=functools.partial(_from_shard_on, axis=axis))
        offset = _offset_of_positions(trace, one, axis)
        if offset is not None:
            yield _at(one, _ADDED_TO_POSITIONS.format(axis=axis), value=offset)
    size = _indexed_size(departure)
    if size is not None:
        yield from _subtracted(trace, departure.culprit.step.value, axis, size)


def _offset_of_positions(
    trace: Trace, value: Recorded, axis: str
) -> Callable[[Any], Any] | None:
    """The change that makes the positions of the largest entries of a shard those in the whole array; None if a value
    has no such positions."""
    name = getattr(value.what, "qualname", "").rpartition(".")[2]
    if name not in _POSITIONS or value.key[0].backward or len(value.sources) != 1:
        return None
    (source,) = value.sources
    given = trace.many.values[source]
    relation = trace.step(source).relation
    if relation is None or relation.kind != "split" or relation.dim is None:
        return None
    local = given.array.dims[relation.dim]
    if not isinstance(local, int):
        return None
    whole = int(local) * trace.counts[0]
    return functools.partial(_with_offset, axis=axis, whole=whole)


def _with_offset(value: Any, axis: str, whole: int) -> Any:
    """Positions in a shard as those in the whole array, and what else there is beside them as it is."""
    first = _first_of_shard(axis, whole)

    def shifted(leaf: Any) -> Any:
        is_integer = isinstance(leaf, Array) and (leaf.dtype or "").startswith("int")
        return leaf + first if is_integer else leaf

    return map_leaves(shifted, value)


def _is_counted_in_shards(trace: Trace, value: Recorded, axis: str) -> bool:
    """Whether positions are as many as a shard has entries."""
    if axis in value.given.local:
        return value.array.rank == 1
    twin = trace.twin(value)
    if twin is None or value.array.rank != 1 or twin.array.rank != 1:
        return False
    many, few = trace.counts
    return _entries(value) * many == _entries(twin) * few


def _entries(value: Recorded) -> int:
    (size,) = value.array.dims
    return size if isinstance(size, int) else 0


def _from_shard_on(positions: Any, axis: str) -> Any:
    return positions + _index(axis) * positions.dims[0]


def _indexed_size(departure: Departure) -> int | None:
    """How many entries the sharded dimension has as a whole that is indexed where the runs part."""
    sharded = [
        one.value.array.dims[one.relation.dim]
        for one in departure.culprit.operands
        if one.relation is not None
        and one.relation.kind == "split"
        and one.relation.dim is not None
    ]
    if len(sharded) != 1:
        return None
    (local,) = sharded
    return int(local) * departure.counts[0] if isinstance(local, int) else None


def _subtracted(
    trace: Trace, indexed: Recorded, axis: str, size: int
) -> Iterator[Repair]:
    """Indices that functions are given which led to one, the innermost functions first."""
    led = {
        number
        for number in trace.ancestors([indexed.number])
        if _is_integer(trace.many.values[number])
    }
    for parameter, numbers in reversed(trace.many.passed.items()):
        use = _first_use(trace, parameter, numbers) if numbers & led else None
        if use is not None:
            text = _SUBTRACTED.format(axis=axis, name=parameter.name)
            function = functools.partial(
                _with_local_positions, name=parameter.name, axis=axis, size=size
            )
            yield replace(
                _at(use, text, function=function),
                changed=(Where.of_definition(parameter.code),),
            )


def _is_integer(value: Recorded) -> bool:
    return (value.array.dtype or "").startswith(("int", "uint"))


def _first_use(
    trace: Trace, parameter: Parameter, numbers: set[int]
) -> Recorded | None:
    """The first expression in a function that computes something of a parameter."""
    lines = {line for _, _, line in parameter.code.co_lines()}
    inside: list[Recorded] = []
    for one in trace.many.values:
        where = one.key[0]
        is_there = where.path == parameter.code.co_filename and where.place[0] in lines
        if is_there and not where.backward and one.sources & numbers:
            inside.append(one)
    return min(inside, key=lambda one: one.key[0].place, default=None)


def _with_local_positions(function: Any, name: str, axis: str, size: int) -> Any:
    """The function, which is given a parameter as it counts in the shard."""
    position = function.__code__.co_varnames.index(name)

    def shifted(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if position < len(given):
            given[position] = _in_shard(given[position], axis, size)
        if name in kwargs:
            kwargs[name] = _in_shard(kwargs[name], axis, size)
        return function(*given, **kwargs)

    return shifted


def _in_shard(positions: Any, axis: str, size: int) -> Any:
    return positions - _first_of_shard(axis, size)


def _first_of_shard(axis: str, whole: int) -> Any:
    """Where a device's shard begins in a dimension of some size."""
    return _index(axis) * (whole // Outside("jax.lax.axis_size")(axis))


# --- arguments that are not sharded -----------------------------------------------------------------------------------


def _of_specs(trace: Trace, led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    """One more dimension that is sharded over the axis, in all PartitionSpecs of a line that are of arguments."""
    for one in led:
        where = trace.many.specs.get(one.number)
        if where is None or _is_sharded(one.array, axis):
            continue
        line = {
            other for other in trace.many.specs.values() if _line(other) == _line(where)
        }
        first = min(line, key=lambda other: other.place)
        for dimension in range(one.array.rank):
            text = f"dimension {dimension} sharded over {axis!r} here"
            if len(line) > 1:
                text += " and in the other specs of this line"
            function = functools.partial(_sharding, dimension=dimension, axis=axis)
            yield Repair(first, text, function=function, changed=tuple(line))


def _swapped(trace: Trace, led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    """Two entries of a PartitionSpec of an argument that change places, one of them with the axis."""
    for one in led:
        where = trace.many.specs.get(one.number)
        sharded = _sharded_dimension(one.array, axis)
        if where is None or sharded is None:
            continue
        for other in range(one.array.rank):
            if other == sharded:
                continue
            first, second = sorted((other, sharded))
            text = f"entries {first} and {second} of this spec in the other order"
            function = functools.partial(_swapping, first=first, second=second)
            yield Repair(where, text, function=function)


def _of_others(trace: Trace, led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    """Another mesh axis in place of this one, or none, in a PartitionSpec of an argument, if others are sharded over it
    still. First those over which nothing is sharded: one of them was meant."""
    varying = _mesh_axes(trace)
    others = sorted(trace.mesh_axes - {axis}, key=lambda name: (name in varying, name))
    sharded = {
        where
        for number, where in trace.many.specs.items()
        if _is_sharded(trace.many.values[number].array, axis)
    }
    for one in led:
        where = trace.many.specs.get(one.number)
        if where not in sharded or len(sharded) == 1:
            continue
        for other in (*others, None):
            text = f"{other!r} in place of {axis!r} in this spec"
            function = functools.partial(_replacing, axis=axis, other=other)
            yield Repair(where, text, function=function, is_of_all=True)


def _is_sharded(array: Array, axis: str) -> bool:
    return array.relations is not None and array.relations[axis].kind == "split"


def _sharded_dimension(array: Array, axis: str) -> int | None:
    """None where it is not sharded, or not known along which."""
    return None if array.relations is None else array.relations[axis].dim


def _line(where: Where) -> tuple[str, int]:
    return where.path, where.place[0]


def _sharding(function: Any, dimension: int, axis: str) -> Any:
    """``PartitionSpec`` that shards a dimension over one axis more."""

    def spec(*entries: Any, **options: Any) -> Any:
        given = [*entries, *[None] * (dimension + 1 - len(entries))]
        entry = given[dimension]
        names = entry if isinstance(entry, (tuple, list)) else (entry,)
        given[dimension] = axis if entry is None else (*names, axis)
        return function(*given, **options)

    return spec


def _swapping(function: Any, first: int, second: int) -> Any:
    """``PartitionSpec`` with two of its entries in each other's place."""

    def spec(*entries: Any, **options: Any) -> Any:
        given = [*entries, *[None] * (second + 1 - len(entries))]
        given[first], given[second] = given[second], given[first]
        return function(*given, **options)

    return spec


def _replacing(function: Any, axis: str, other: str | None) -> Any:
    """``PartitionSpec`` with another axis in place of one."""

    def entry(given: Any) -> Any:
        if isinstance(given, (tuple, list)):
            names = [other if name == axis else name for name in given]
            return tuple(name for name in names if name is not None)
        return other if given == axis else given

    return lambda *entries, **options: function(*map(entry, entries), **options)
