"""Results that are right, though not the same on devices as on one: the order of the rows in a queue of which each
device fills a part, with places in it, the places of members that a number tells apart, and how many rounds a loop
makes until it is done."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from shardtypes.proving.numbers import Values, agree
from shardtypes.proving.observed import Host
from shardtypes.proving.program import Constant, Name, Program, Step
from shardtypes.semantics.rows import hold_the_same_members, in_order

QUEUES = "the order of rows in a queue of which each device fills a part"
MEMBERS = "the places of members that a number tells apart"
ROUNDS = "the rounds that a loop makes until it is done"
_LAST = re.compile(r"(?:\.\w+|\[[^\]]*\])$")
_ITEM = re.compile(r"\[\d+\]$")
_KEEPS = frozenset(
    "broadcast_in_dim convert_element_type copy pvary reshape shard squeeze unshard".split()
)


def of_queues(
    paths: Sequence[str], found: Sequence[Values], wanted: Sequence[Host]
) -> set[int]:
    """The results in objects that hold rows in another order, and a place among them."""
    rows: dict[int, bool] = {}
    places = []
    for number, (values, whole) in enumerate(zip(found, wanted, strict=True)):
        array = values.array
        if values.axes or array.shape != whole.shape:
            continue
        if array.ndim > 1 and _has_the_same_rows(array, whole):
            rows[number] = not agree(array, whole)
        elif array.ndim == 1 and array.dtype.kind in "iu":
            places.append(number)
    reordered = {_object(paths[number]) for number, differs in rows.items() if differs}
    queues = reordered & {_object(paths[number]) for number in places}
    return {number for number in (*rows, *places) if _object(paths[number]) in queues}


def of_members(
    paths: Sequence[str], found: Sequence[Values], wanted: Sequence[Host]
) -> set[int]:
    """The results in objects that hold the same members in other places."""
    objects: dict[tuple[str, int], list[int]] = {}
    for number, (values, whole) in enumerate(zip(found, wanted, strict=True)):
        shape = values.array.shape
        if values.axes or len(shape) < 2 or shape != whole.shape:
            continue
        if not _ITEM.search(paths[number]):
            key = _object(paths[number]), shape[1]
            objects.setdefault(key, []).append(number)
    reordered = set[int]()
    for numbers in objects.values():
        draws = range(len(wanted[numbers[0]]))
        one, two = (
            [{str(n): arrays[n][draw] for n in numbers} for draw in draws]
            for arrays in ([values.array for values in found], wanted)
        )
        pairs = zip(one, two, strict=True)
        if all(hold_the_same_members(*pair, agree) for pair in pairs):
            reordered.update(numbers)
    return reordered


def of_rounds(program: Program) -> set[int]:
    """The results that count the rounds of a loop which ends when something is so."""
    counts = _counts(program)
    return {number for number, output in enumerate(program.outputs) if output in counts}


def _object(path: str) -> str:
    """The path of the object that a result is a field of."""
    return _LAST.sub("", path)


def _has_the_same_rows(array: Host, whole: Host) -> bool:
    """Whether the rows are the same in each draw, whatever their order."""
    pairs = zip(array, whole, strict=True)
    return all(agree(in_order(one), in_order(other)) for one, other in pairs)


def _counts(program: Program) -> set[Name]:
    """The values that count rounds, in a program and what is inside it."""
    found: set[Name] = set()
    for step in program.steps:
        if step.primitive == "while":
            found.update(_counters(step))
        elif step.primitive == "scan":
            (body,) = step.inside
            inner = _counts(body)
            pairs = zip(step.results, body.outputs, strict=True)
            found.update(name for name, output in pairs if output in inner)
        elif step.primitive in _KEEPS:
            named = {one for one in step.operands if not isinstance(one, Constant)}
            if named and named <= found:
                found.update(step.results)
    return found


def _counters(step: Step) -> list[Name]:
    """What a loop carries that is one more after each round."""
    body = step.inside[1]
    given = body.inputs[step.params["body_nconsts"] :]
    makers = {name: one for one in body.steps for name in one.results}
    counters = []
    for result, before, after in zip(step.results, given, body.outputs, strict=True):
        maker = makers.get(after) if isinstance(after, int) else None
        if maker is not None and _adds_one(maker, before):
            counters.append(result)
    return counters


def _adds_one(step: Step, before: Name) -> bool:
    if step.primitive != "add" or before not in step.operands:
        return False
    others = [one for one in step.operands if one != before]
    return all(isinstance(one, Constant) and np.all(one.value == 1) for one in others)
