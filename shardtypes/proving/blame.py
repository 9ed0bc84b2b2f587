"""The line to change: where the first value that means nothing was made, and what else a person has to look at.

An operation that is given a partial result shows that a reduction is missing. It is missing where another reduction
left the part, or where the part arose, unless a reduction follows: then the operation itself is in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from shardtypes.proving.places import Place, callers_of
from shardtypes.proving.program import Constant, Name, Operand, Step
from shardtypes.proving.relation import Related
from shardtypes.proving.verdict import Where
from shardtypes.proving.walk import Culprit, Walk, reduced_axes
from shardtypes.proving.words import (
    alike,
    applied_here,
    arises,
    differs,
    goes_on,
    last_collective,
    leaves,
    operation,
    reduces,
    same_rows,
    what_happens,
)

_CALLERS = 2
_NEAR = 200
"""Values that are looked at for a reduction that follows."""
_LINEAR = frozenset(
    """add add_any sub mul div neg convert_element_type reshape transpose squeeze broadcast_in_dim expand_dims
    reduce_sum dot_general select_n concatenate slice dynamic_slice pad copy scan unshard shard""".split()
)


def blamed(walk: Walk, names: Sequence[Name], sizes: Mapping[str, int]) -> Where | None:
    """Where wrong results begin; None where that is not known."""
    found = walk.culprit(names)
    if found is None:
        return None
    where = Where(
        _place(walk, found.step), operation(found.step), what_happens(found, sizes), _related(walk, found, sizes)
    )
    part = _part(found)
    if part is None:
        return _shared_indices(walk, found, where) or where
    if reduced_axes(found.step):
        return _summed_before(walk, part, where, sizes) or where
    short = _short_reduction(walk, part, where)
    return short or _missing_reduction(walk, found, part, where, sizes) or where


def _place(walk: Walk, step: Step) -> Place:
    """The user's line of an operation, or of what made its operands."""
    if step.place.file:
        return step.place
    return next((one.place for one in walk.makers(step.operands) if one.place.file), step.place)


def _related(walk: Walk, found: Culprit, sizes: Mapping[str, int]) -> tuple[tuple[Place, str], ...]:
    related: list[tuple[Place, str]] = []
    for operand, relation in zip(found.step.operands, found.operands, strict=True):
        if relation is None or (relation.right and not relation.split):
            continue
        arose, passed = walk.origin(operand), walk.collective_before(operand)
        if arose is not None and arose.place.file and arose.place != found.step.place:
            related.append((arose.place, arises(relation, sizes)))
        if passed is not None and passed.place.file and not relation.right:
            related.append((passed.place, last_collective(passed)))
    related += [(caller, "called from here") for caller in _callers(found.step)]
    return tuple(dict.fromkeys(related))


def _callers(step: Step) -> list[Place]:
    if step.caller is None:
        return []
    return [caller for caller in callers_of(step.caller) if caller.file == step.place.file][:_CALLERS]


def _shared_indices(walk: Walk, found: Culprit, where: Where) -> Where | None:
    """Rows of a shard are read at places that are the same for all shards: where these were computed."""
    step = found.step
    if step.primitive != "gather":
        return None
    relation = found.operands[0]
    if relation is None or not relation.split:
        return None
    index = step.operands[1]
    varying = set() if isinstance(index, Constant) else walk.varying(index)
    read = step.params["dimension_numbers"].start_index_map
    shared = [axis for dim in read for axis in relation.sharding(dim) if axis not in varying]
    makers = (one for one in walk.makers([index]) if one.place.file == where.place.file and one.primitive != "shard")
    maker = next((one for one in makers if one.place != where.place), None)
    return _moved(where, maker, same_rows(shared)) if shared and maker is not None else None


def _part(found: Culprit) -> tuple[Operand, Related] | None:
    """The operand that awaits a reduction: of a division it is what is divided by, if that does."""
    step = found.step
    if found.relation is not None and step.primitive != "unshard" and not reduced_axes(step):
        return None
    parts = [
        (operand, relation)
        for operand, relation in zip(step.operands, found.operands, strict=True)
        if relation is not None and relation.parts and relation.monoid == "sum" and not isinstance(operand, Constant)
    ]
    if not parts:
        return None
    return parts[-1] if step.primitive == "div" else parts[0]


def _summed_before(walk: Walk, part: tuple[Operand, Related], where: Where, sizes: Mapping[str, int]) -> Where | None:
    """A part that is too large because of a sum before: of a gradient, which was the same on all devices."""
    operand, relation = part
    arose = walk.origin(operand) if relation.factor != 1 else None
    if arose is None or not reduced_axes(arose) or arose.place.file != where.place.file or arose.place == where.place:
        return None
    return _moved(where, arose, goes_on(relation, where.what, sizes))


def _short_reduction(walk: Walk, part: tuple[Operand, Related], where: Where) -> Where | None:
    """A reduction over too few axes: its operand was a part over others as well."""
    operand, relation = part
    passed = walk.collective_before(operand)
    if passed is None or passed.place.file != where.place.file or not reduced_axes(passed):
        return None
    _, after = walk.standing(passed.results[0])
    _, before = walk.standing(passed.operands[0])
    if after is None or before is None or not set(relation.parts) <= set(after.parts) <= set(before.parts):
        return None
    if set(relation.parts) & set(reduced_axes(passed)):
        return None
    what = leaves(passed, reduced_axes(passed), relation, where.what)
    return _moved(where, passed, what)


def _missing_reduction(
    walk: Walk, found: Culprit, part: tuple[Operand, Related], where: Where, sizes: Mapping[str, int]
) -> Where | None:
    """No reduction follows: it is missing where the part arose, or where the result of ``shard_map`` was made."""
    operand, relation = part
    if found.step.primitive == "unshard":
        maker = next((one for one in walk.makers([operand]) if one.place.file and not _is_backward(one)), None)
        return None if maker is None else replace(where, place=maker.place)
    arose = walk.origin(operand)
    if arose is None or not arose.place.file or arose.primitive == "shard" or arose.place.file != where.place.file:
        return None
    if _is_backward(arose) or _is_backward(found.step) or arose.place == where.place:
        return None
    if _is_reduced_later(walk, found.result, set(relation.parts)):
        return None
    return _moved(where, arose, goes_on(relation, where.what, sizes))


def _moved(where: Where, step: Step, what: str) -> Where:
    """The culprit at the line of another operation."""
    rest = [pair for pair in where.related if pair[0] != step.place]
    return Where(step.place, operation(step), what, ((where.place, applied_here(where.operation)), *rest))


def _is_backward(step: Step) -> bool:
    """Whether an operation is of a gradient."""
    about = getattr(step.source, "source_info", None)
    return "transpose(" in str(getattr(about, "name_stack", ""))


def _is_reduced_later(walk: Walk, name: Name, axes: set[str]) -> bool:
    """Whether a reduction follows, past operations that keep sums. A product with a shard is reduced for itself."""
    left, seen = [name], set[Name]()
    while left and len(seen) < _NEAR:
        for user, step in walk.users(left.pop(0)):
            if user in seen or (step is not None and _is_backward(step)):
                continue
            seen.add(user)
            if step is not None and axes <= set(reduced_axes(step)):
                return True
            if step is None or (step.primitive in _LINEAR and not _is_sharded(walk, step, axes)):
                left.append(user)
    return False


def _is_sharded(walk: Walk, step: Step, axes: set[str]) -> bool:
    relations = (walk.standing(operand)[1] for operand in step.operands)
    return any(axes & {axis for names in one.split.values() for axis in names} for one in relations if one is not None)


def same_draws(walk: Walk, steps: Sequence[Step], sizes: Mapping[str, int]) -> Where | None:
    """Where all devices draw the very same numbers for different shards."""
    for step in steps:
        if step.results[0] in walk.on_purpose or not walk.draws_the_same(step):
            continue
        found = Culprit(step, step.results[0], None, (walk.standing(step.operands[0])[1],), walk.others.get(step))
        return Where(_place(walk, step), operation(step), what_happens(found, sizes), _related(walk, found, sizes))
    return None


def returned_apart(walk: Walk, step: Step, axes: Sequence[str]) -> Where:
    """Where what is returned as the same on all devices along axes came to differ: the last reduction left them out."""
    last = _last_reduction(walk, step, lambda over: not set(axes) & set(over))
    return _returned(walk, step, last, differs(step.params["number"], axes))


def returned_alike(walk: Walk, step: Step, axis: str, dim: int) -> Where:
    """Where what is returned as sharded became the same on all devices."""
    last = _last_reduction(walk, step, lambda over: axis in over)
    return _returned(walk, step, last, alike(step.params["number"], axis, dim))


def _returned(walk: Walk, step: Step, last: Step | None, what: str) -> Where:
    if last is None:
        return Where(_place(walk, step), operation(step), what)
    related = ((step.place, "returned here"),) if step.place.file else ()
    return Where(last.place, operation(last), reduces(last, reduced_axes(last), what), related)


def _last_reduction(walk: Walk, step: Step, fits: Callable[[tuple[str, ...]], bool]) -> Step | None:
    makers = (one for one in walk.makers(step.operands) if one.place.file)
    return next((one for one in makers if reduced_axes(one) and fits(reduced_axes(one))), None)
