"""What several operands make of each other over one mesh axis: the heart of the manual view."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from shardlint.ops.sharding import magnitudes, peaks
from shardlint.ops.sharding.base import Op, ShardingError
from shardlint.ops.sharding.kinds import Kind
from shardlint.ops.sharding.state import (
    ADDED,
    FACTORED,
    HOT,
    LASTING,
    LOCAL,
    SCALES,
    WHOLE,
    ZERO,
    Arrays,
    Axes,
    axes_met,
    marks,
    notes_about,
    settled,
    state,
    unclear_axes,
)
from shardlint.values import ArrayValue, Note, ScalarValue
from shardtypes.lang.messages import applied_to, device_mean, partial_sum, reduce_first

#: Functions of which a factor of the operand is none of the result.
_SATURATING = frozenset(
    "tanh gelu silu swish sigmoid logistic relu6 softmax log_softmax standardize elu selu celu mish sin cos erf "
    "softplus log_sigmoid soft_sign hard_tanh hard_silu hard_swish hard_sigmoid".split()
)
_CASTS = frozenset({"astype", "convert_element_type"})
#: Functions whose result does not depend on a positive factor of the operand.
_SCALELESS = frozenset(
    "sign argmax argmin nanargmax nanargmin argsort standardize".split()
)


def combined(
    op: Op,
    out: ArrayValue,
    axes: Sequence[Axes] | None,
    kind: Kind,
    operands: Arrays,
) -> ArrayValue:
    """The result of an elementwise function or a contraction, its dimensions split over ``axes``.

    Raises ShardingError where a pending sum is used as if it were complete.
    """
    if out.dims is None:
        axes = None
    met = axes_met(operands)
    inside = {axis for one in axes or () for axis in one or ()}
    hidden = axes is None or None in axes
    states: defaultdict[str, set[str]] = defaultdict(set)
    kept = _kept_of_all(op, kind, operands)
    for axis in sorted(met):
        outcome, refined = _over(op, axis, kind, operands)
        lost = axis not in inside and any(state(o, axis) == "sharded" for o in operands)
        if lost and outcome in ("sharded", "varying"):
            if hidden or "alike" in refined:
                outcome = "unclear"
            else:
                outcome = "varying"
        states[outcome].add(axis)
        kept |= {(axis, mark) for mark in refined}
        kept |= {(axis, mark) for mark in _lasting(op, axis, kind, operands)}
    return settled(
        out,
        axes,
        pending=states["pending"],
        varying=states["varying"],
        unclear=unclear_axes(operands, met, states["unclear"]),
        marks=kept,
        constant=all(o.constant for o in operands),
        notes=[*_taken(op, kept, operands), *_notes(operands)],
    )


def _kept_of_all(op: Op, kind: Kind, operands: Arrays) -> set[tuple[str, str]]:
    """The marks of a result that are about no axis."""
    kept = _scales(op, kind, operands, operands)
    if kind == "multiply" and any(ZERO in o.marks for o in operands):
        kept = kept | {ZERO}
    is_cast = kind == "linear" and op.last in _CASTS
    if is_cast and any(HOT in o.marks for o in operands):
        kept = kept | {HOT}
    return kept


def _taken(op: Op, kept: set[tuple[str, str]], operands: Arrays) -> Iterator[Note]:
    """What will be said of how large a partial sum is, if that is added up."""
    if len(operands) > 1:
        return
    for operand in operands:
        for axis in sorted(operand.pending or ()):
            if {mark for name, mark in kept if name == axis} & magnitudes.MARKS:
                error = used(op, axis, [operand])
                yield replace(op.note(axis, error.message), code=error.code)


def _scales(
    op: Op, kind: Kind, operands: Arrays, factors: Arrays
) -> set[tuple[str, str]]:
    """Whether a number of devices may be a factor of the result, or its logarithm a term: of an operand before, or one
    of these ``factors``. Logarithms make the one of the other; what is a factor inside of ``exp`` is none outside."""
    found: set[tuple[str, str]] = set()
    for operand in operands:
        found |= SCALES & operand.marks
    if found and (op.last in _SATURATING or kind == "test"):
        return set()
    if op.last in ("exp", "exp2"):
        if ADDED in found:
            return {FACTORED}
        return set()
    if FACTORED in found and "log" in op.last:
        found.add(ADDED)
    if kind in ("multiply", "divide") and _may_have_factor(factors):
        found.add(FACTORED)
    if kind == "add" and _may_have_term(op):
        found.add(ADDED)
    return found


def _may_have_factor(factors: Arrays) -> bool:
    """Whether one of these may be a number of devices, and another what it is a factor of."""
    rest = [o for o in factors if WHOLE not in o.marks]
    if len(rest) == 1 and len(factors) > 1:
        return False
    return any(o.constant or not o.dims for o in rest)


def _may_have_term(op: Op) -> bool:
    """Whether one of the operands may be the logarithm of a number of devices."""
    # a number as written is hardly one
    if any(isinstance(value, ScalarValue) for value in op.call.args.values()):
        return True
    numbers = [o for o in op.operands if o.constant and not o.dims]
    return any(ZERO not in o.marks for o in numbers)


def _lasting(op: Op, axis: str, kind: Kind, operands: Arrays) -> frozenset[str]:
    """The marks of the operands that outlast reductions. A wrong count does not outlast what may make up for it."""
    found = [marks(o, axis) & LASTING for o in operands]
    outlasting = frozenset[str]().union(*found)
    if "miscounted" not in outlasting:
        return outlasting & {"scaled"}
    if _may_be_repaired(op, axis, kind, operands, found):
        return outlasting & {"scaled"}
    if kind not in ("linear", "add", "multiply", "divide"):
        outlasting -= {"logged"}
    is_divisor = kind == "divide" and "miscounted" in found[-1]
    bends = is_divisor or kind == "nonlinear" or op.last in ("sqrt", "cbrt")
    counted = [
        o for o, one in zip(operands, found, strict=True) if "miscounted" not in one
    ]
    mixes = kind == "add" and any(
        not o.constant and ZERO not in o.marks and state(o, axis) != "unclear"
        for o in counted
    )
    new = [
        ("logged", op.last in ("log", "log2", "log10")),
        ("curved", bends),
        ("mixed", mixes),
        ("shared", is_divisor),
    ]
    return outlasting | {mark for mark, holds in new if holds}


def _may_be_repaired(
    op: Op,
    axis: str,
    kind: Kind,
    operands: Arrays,
    found: Sequence[frozenset[str]],
) -> bool:
    """Whether a factor, a term or another wrong count may make up for the wrong count of an operand, or none matters.
    ``found`` are the lasting marks of each operand."""
    if kind == "test" or op.last in _SCALELESS:
        return True
    outlasting = frozenset[str]().union(*found)
    counted = [
        o for o, one in zip(operands, found, strict=True) if "miscounted" not in one
    ]
    scales = kind in ("multiply", "divide")
    stays = scales and bool({"logged", "mixed"} & outlasting)
    if not stays and _scales(op, kind, operands, counted if scales else operands):
        return True
    if "shifted" in outlasting:
        by_term = kind == "add" and any(not o.constant for o in counted)
        if kind == "nonlinear" or by_term:
            return True
    if not scales:
        return False
    if any(state(o, axis) == "unclear" for o in operands):
        return True
    wrong = [one for one in found if "miscounted" in one]
    if len(wrong) < 2 or any("mixed" in one for one in wrong):
        return False
    return kind == "divide" or any("curved" in one for one in wrong)


def _notes(operands: Arrays) -> list[Note]:
    return [note for operand in operands for note in operand.notes]


def _over(
    op: Op, axis: str, kind: Kind, operands: Arrays
) -> tuple[str, frozenset[str]]:
    """State and marks of the result over one axis; ``sharded`` leaves it to the dimensions."""
    states = [state(o, axis) for o in operands]
    partial = [o for o, s in zip(operands, states, strict=True) if s == "pending"]
    refined = frozenset[str]().union(*(marks(o, axis) for o in operands))
    tainted = _taint(axis, operands, states)
    local = refined & LOCAL
    if any(axis in o.varying and not marks(o, axis) & LOCAL for o in operands):
        # corrected, perhaps, by something that knows which device this is
        local = frozenset()
    if not partial:
        local |= peaks.followed(op, axis, kind, operands)
        local |= magnitudes.followed(op, axis, kind, operands)
        if "sharded" in states:
            same = all(
                s == "replicated" or "alike" in marks(o, axis)
                for o, s in zip(operands, states, strict=True)
            )
            if same:
                return tainted, local | {"alike"}
            return tainted, local
        if "unclear" in states:
            return "unclear", frozenset()
        if "varying" not in states:
            return "replicated", local
        differing = [
            marks(o, axis)
            for o, s in zip(operands, states, strict=True)
            if s != "replicated"
        ]
        return "varying", local | (
            frozenset.intersection(*differing) & {"mapped", "derived"}
        )
    if "unclear" in states:
        return "unclear", frozenset()
    return _awaited(op, axis, kind, operands, states, partial)


def _taint(axis: str, operands: Arrays, states: Sequence[str]) -> str:
    """What a sharded result is besides: ``sharded`` if only that."""
    if any(
        s == "unclear" or axis in o.unclear
        for o, s in zip(operands, states, strict=True)
    ):
        return "unclear"
    if any(
        s == "varying" or axis in o.varying
        for o, s in zip(operands, states, strict=True)
    ):
        return "varying"
    return "sharded"


Outcome: TypeAlias = "tuple[str, frozenset[str]]"
"""State and marks over one axis."""
_UNCLEAR: Outcome = ("unclear", frozenset())


def _awaited(
    op: Op,
    axis: str,
    kind: Kind,
    operands: Arrays,
    states: Sequence[str],
    partial: list[ArrayValue],
) -> Outcome:
    """What becomes of partial sums; raises ShardingError where they are used as if they were complete."""
    refined = [marks(o, axis) for o in partial]
    others = [
        o
        for o, s in zip(operands, states, strict=True)
        if s != "pending" and ZERO not in o.marks
    ]
    match kind:
        case "linear":
            return "pending", refined[0]
        case "add":
            return _added(states, refined, others)
        case "multiply" if len(partial) > 1:
            if any("scattered" in one for one in refined) or all(
                "lone" in one for one in refined
            ):
                return _UNCLEAR
            raise used(op, axis, partial, [f"two partial sums over {axis!r}"])
        case "multiply":
            return _scaled(axis, kind, states, refined[0], others)
        case "divide" if states[-1] == "pending":
            if states[0] in ("pending", "varying"):
                return "varying", frozenset()  # an average of each device's own
            if any("scattered" in one for one in refined):
                return _UNCLEAR
            raise used(op, axis, partial)
        case "divide":
            return _scaled(axis, kind, states, refined[0], others)
    bent = _bent(op, kind, states, refined, others)
    if bent is None:
        raise used(op, axis, partial)
    return bent


def _added(
    states: Sequence[str],
    refined: Sequence[frozenset[str]],
    others: Arrays,
) -> Outcome:
    """Partial sums plus one another, and plus other values, which then count once a device."""
    if not set(states) <= {"pending", "replicated"}:
        return _UNCLEAR
    is_mean = "mean" in refined[0]
    if any(("mean" in one) != is_mean for one in refined):
        return _UNCLEAR
    every = frozenset.union(*refined)
    if others or len(refined) > 1 or "lone" not in refined[0]:
        every -= {"lone"}
    if others and not is_mean:
        plain = all(not o.constant and not SCALES & o.marks for o in others)
        every |= {"offset", "biased"} if plain else {"offset"}
    return "pending", every


def _scaled(
    axis: str,
    kind: Kind,
    states: Sequence[str],
    first: frozenset[str],
    others: Arrays,
) -> Outcome:
    """A partial sum times or by another value: a partial sum still, if that is the same on all devices."""
    mixed = set(states) - {"pending"}
    if mixed <= {"replicated"}:
        return "pending", magnitudes.rescaled(axis, kind, others, first)
    own = [o for o in others if state(o, axis) != "replicated"]
    if all(marks(o, axis) & magnitudes.MARKS for o in own):
        return "varying", frozenset({"measured"})
    return ("varying" if mixed <= {"replicated", "varying"} else "unclear"), frozenset()


def _bent(
    op: Op,
    kind: Kind,
    states: Sequence[str],
    refined: Sequence[frozenset[str]],
    others: Arrays,
) -> Outcome | None:
    """A function that is not linear, of partial sums; None where that is certainly a mistake."""
    lone = all("lone" in one for one in refined)
    if kind == "zero" and lone and not others:
        return "pending", refined[0]
    own = any("scattered" in one for one in refined)
    tests = kind == "test"
    chooses = tests or (
        kind == "choose" and (lone or any("reduction" in one for one in refined))
    )
    if own or chooses:
        asks = tests and not (own or lone)
        return ("varying" if "sharded" not in states else "unclear"), frozenset(
            {"local"} if asks else ()
        )
    if lone and others:
        return _UNCLEAR
    if magnitudes.rounded(op, kind, refined[0]):
        return "pending", magnitudes.rounded(op, kind, refined[0])
    measure = magnitudes.taken(op, refined[0])
    if measure and not others:
        return "varying", measure
    return None


def used(
    op: Op, axis: str, partial: Arrays, values: Sequence[str] = ()
) -> ShardingError:
    """A partial sum that is used as if it were complete; ``values`` describes the operands if there are several."""
    value = partial[0]
    found = marks(value, axis)
    code = "ST301"
    if "reduction" in found:
        code = "ST302"
    is_mean = "mean" in found
    if is_mean:
        what = device_mean([axis])
    else:
        what = partial_sum([axis])
    use = applied_to(
        op.name, values or [what], reduce_first("pmean" if is_mean else "psum", axis)
    )
    number = next((i for i, o in enumerate(op.operands) if o is value), None)
    if number is not None and number < len(op.positions):
        place = op.positions[number]
    else:
        place = None
    return ShardingError(code, use, place, notes_about(value, [axis]))
