"""Which other places of the program a departure leads through: where what the culprit was given begins to be other than
on one device, and what puts it in another order on the way to the result.

The culprit may be right as it is: each device takes the best of its own entries, which are gathered later, say. Then
one of these places is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlint.evaluation.departures import Departure
from shardlint.evaluation.origins import Origin
from shardlint.evaluation.recording import Where
from shardlint.evaluation.wording import operation

#: Of more places a reader learns nothing.
_MOST_MOVES = 4

_MOVING = frozenset(
    f"{module}.{name}"
    for module, names in (
        ("jax.Array", "flatten ravel reshape swapaxes transpose"),
        ("jax.numpy", "moveaxis ravel reshape rollaxis swapaxes transpose"),
        ("jax.lax", "all_gather all_to_all collapse ppermute pshuffle psum_scatter"),
        ("jax.lax", "reshape transpose"),
    )
    for name in names.split()
)

_BEGINS = {
    "part": "it becomes a partial result here",
    "off": "the factor comes in here",
    "lost": "it begins to be each device's own here",
}


def trail(departure: Departure) -> Iterator[Origin]:
    """The places before the culprit, and after it if it is applied to shards, at other lines, each once."""
    culprit = departure.culprit
    seen = {_line(culprit.step.value.where)}
    is_of_shards = any(one.kind == "split" for one in culprit.operands)
    moves = _moves(departure) if is_of_shards else ()
    for one in (*_begins(departure), *moves):
        if _line(one.where) not in seen:
            seen.add(_line(one.where))
            yield one


def _begins(departure: Departure) -> Iterator[Origin]:
    """Where the operands of the culprit begin to be a part, off by a factor, or each device's own, and the calls of the
    functions that this is in."""
    culprit = departure.culprit
    for operand in culprit.operands:
        text = _BEGINS.get("part" if operand.kind == "part" else operand.state)
        if text is None:
            continue
        begin = departure.evidence.trace.begin(operand).value
        if begin.is_inside and not begin.is_argument:
            yield Origin(begin.where, text)
            if begin.caller not in (None, culprit.step.value.caller):
                yield Origin(begin.caller, "called here")


def _moves(departure: Departure) -> Iterator[Origin]:
    """What sends a value that was computed from the culprit to other devices, or gives it another shape, on the way to
    the result."""
    evidence = departure.evidence
    values = evidence.trace.many.values
    after = {departure.culprit.step.value.number}
    places: dict[Where, Origin] = {}
    for number in sorted(evidence.trace.ancestors(evidence.sources)):
        one = values[number]
        if after.isdisjoint(one.sources):
            continue
        after.add(number)
        if one.name in _MOVING and one.is_inside and not one.is_backward:
            what = operation(one.what)
            places.setdefault(one.where, Origin(one.where, f"then {what} here"))
    yield from list(places.values())[:_MOST_MOVES]


def _line(where: Where) -> tuple[str, int]:
    return where.path, where.place[0]
