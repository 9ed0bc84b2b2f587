"""What several operands make of each other over one mesh axis: the heart of the manual view."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from shardlint.axis_set import AxisSet
from shardlint.ops.sharding import magnitudes, peaks
from shardlint.ops.sharding.base import Op, ShardingError
from shardlint.ops.sharding.state import (
    ADDED,
    FACTORED,
    HOT,
    LASTING,
    LOCAL,
    SCALES,
    WHOLE,
    ZERO,
    Axes,
    axes_met,
    marks,
    notes_about,
    settled,
    state,
)
from shardlint.values import ArrayValue, Note, ScalarValue
from shardtypes.lang.messages import applied_to, device_mean, partial_sum, reduce_first

Kind: TypeAlias = Literal[
    "linear", "add", "multiply", "divide", "zero", "nonlinear", "choose", "test"
]
"""How a function treats its operands.

``linear`` (of one operand), ``add`` (a sum of them), ``multiply``, ``divide``; ``zero``: not linear, but 0 stays 0;
``nonlinear``; ``choose``: a maximum or a bound, which programs use on parts of sums as well; ``test``: a question.
"""


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
    operands: Sequence[ArrayValue],
) -> ArrayValue:
    """The result of an elementwise function or a contraction, its dimensions split over ``axes``.

    Raises ShardingError where a pending sum is used as if it were complete.
    """
    if out.dims is None or axes is None:
        axes = None
    met = axes_met(operands)
    inside = {axis for one in axes or () for axis in one or ()}
    hidden = axes is None or any(one is None for one in axes)
    pending: set[str] = set()
    varying: set[str] = set()
    unclear: set[str] = set()
    kept: set[tuple[str, str]] = _scales(op, kind, operands, operands)
    kept |= (
        {ZERO}
        if kind == "multiply" and any(ZERO in o.marks for o in operands)
        else set()
    )
    kept |= (
        {HOT}
        if kind == "linear" and HOT in operands[0].marks and op.last in _CASTS
        else set()
    )
    for axis in sorted(met):
        outcome, refined = _over(op, axis, kind, operands)
        lost = axis not in inside and any(state(o, axis) == "sharded" for o in operands)
        if lost and outcome in ("sharded", "varying"):
            outcome = "unclear" if hidden or "alike" in refined else "varying"
        if outcome == "pending":
            pending.add(axis)
        elif outcome == "varying":
            varying.add(axis)
        elif outcome == "unclear":
            unclear.add(axis)
        kept |= {(axis, mark) for mark in refined}
        kept |= {(axis, mark) for mark in _lasting(op, axis, kind, operands)}
    every = any(o.unclear.all_but for o in operands)
    rest = (
        AxisSet(frozenset(met - unclear), True)
        if every
        else AxisSet(frozenset(unclear))
    )
    return settled(
        out,
        axes,
        pending=pending,
        varying=varying,
        unclear=rest,
        marks=kept,
        constant=all(o.constant for o in operands),
        notes=[*_taken(op, kept, operands), *_notes(operands)],
    )


def _taken(
    op: Op, kept: set[tuple[str, str]], operands: Sequence[ArrayValue]
) -> Iterator[Note]:
    """What will be said of how large a partial sum is, if that is added up."""
    if len(operands) > 1:
        return
    for operand in operands:
        for axis in sorted(operand.pending or ()):
            if {mark for name, mark in kept if name == axis} & magnitudes.MARKS:
                error = used(op, axis, [operand])
                yield replace(op.note(axis, error.message), code=error.code)


def _scales(
    op: Op, kind: Kind, operands: Sequence[ArrayValue], factors: Sequence[ArrayValue]
) -> set[tuple[str, str]]:
    """Whether a number of devices may be a factor of the result, or its logarithm a term: of an operand before, or one
    of these ``factors``. Logarithms make the one of the other; what is a factor inside of ``exp`` is none outside."""
    before = SCALES & frozenset[tuple[str, str]]().union(*(o.marks for o in operands))
    if before and (op.last in _SATURATING or kind == "test"):
        return set()
    if op.last in ("exp", "exp2"):
        return {FACTORED} if ADDED in before else set()
    found = set(before) | (
        {ADDED} if FACTORED in before and "log" in op.last else set()
    )
    if kind in ("multiply", "divide"):
        rest = [o for o in factors if WHOLE not in o.marks]
        alone = len(rest) == 1 < len(factors)
        found |= (
            {FACTORED}
            if not alone
            and any(o.dims is None or not o.dims or o.constant for o in rest)
            else set()
        )
    if kind == "add":
        # a number as written is hardly a logarithm
        number = any(isinstance(value, ScalarValue) for value in op.call.args.values())
        constants = any(
            o.constant and not o.dims and ZERO not in o.marks for o in op.operands
        )
        found |= {ADDED} if number or constants else set()
    return found


def _lasting(
    op: Op, axis: str, kind: Kind, operands: Sequence[ArrayValue]
) -> frozenset[str]:
    """The marks of the operands that outlast reductions. A wrong count does not outlast what may make up for it."""
    found = [marks(o, axis) & LASTING for o in operands]
    outlasting = frozenset[str]().union(*found)
    if "miscounted" not in outlasting:
        return outlasting & {"scaled"}
    scales = kind in ("multiply", "divide")
    others = [
        o
        for o, one in zip(operands, found, strict=True)
        if not scales or "miscounted" not in one
    ]
    lasts = {"logged", "mixed"} & outlasting
    factor = bool(_scales(op, kind, operands, others)) and not (scales and lasts)
    repaired = kind == "test" or op.last in _SCALELESS
    if "shifted" in outlasting:
        terms = sum(
            "miscounted" not in one and not o.constant
            for o, one in zip(operands, found, strict=True)
        )
        repaired |= kind == "nonlinear" or (kind == "add" and terms > 0)
    if kind in ("multiply", "divide"):
        wrong = [one for one in found if "miscounted" in one]
        repaired |= any(state(o, axis) == "unclear" for o in operands)
        several = len(wrong) > 1 and not any("mixed" in one for one in wrong)
        repaired |= several and (
            kind == "divide" or any("curved" in one for one in wrong)
        )
    if factor or repaired:
        return outlasting & {"scaled"}
    if kind not in ("linear", "add", "multiply", "divide"):
        outlasting -= {"logged"}
    bends = (
        kind == "nonlinear"
        or op.last in ("sqrt", "cbrt")
        or (kind == "divide" and "miscounted" in found[-1])
    )
    mixes = kind == "add" and any(
        "miscounted" not in one
        and not o.constant
        and ZERO not in o.marks
        and state(o, axis) != "unclear"
        for o, one in zip(operands, found, strict=True)
    )
    shares = kind == "divide" and "miscounted" in found[-1]
    new = [
        ("logged", op.last in ("log", "log2", "log10")),
        ("curved", bends),
        ("mixed", mixes),
        ("shared", shares),
    ]
    return outlasting | {mark for mark, holds in new if holds}


def _notes(operands: Sequence[ArrayValue]) -> list[Note]:
    return [note for operand in operands for note in operand.notes]


def _over(
    op: Op, axis: str, kind: Kind, operands: Sequence[ArrayValue]
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
            return tainted, local | {"alike"} if same else local
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


def _taint(axis: str, operands: Sequence[ArrayValue], states: Sequence[str]) -> str:
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
    operands: Sequence[ArrayValue],
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
    others: Sequence[ArrayValue],
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
    others: Sequence[ArrayValue],
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
    others: Sequence[ArrayValue],
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
    return ("varying", measure) if measure and not others else None


def used(
    op: Op, axis: str, partial: Sequence[ArrayValue], values: Sequence[str] = ()
) -> ShardingError:
    """A partial sum that is used as if it were complete; ``values`` describes the operands if there are several."""
    value = partial[0]
    found = marks(value, axis)
    code = "ST302" if "reduction" in found else "ST301"
    is_mean = "mean" in found
    what = device_mean([axis]) if is_mean else partial_sum([axis])
    use = applied_to(
        op.name, values or [what], reduce_first("pmean" if is_mean else "psum", axis)
    )
    number = next((i for i, o in enumerate(op.operands) if o is value), None)
    place = (
        op.positions[number]
        if number is not None and number < len(op.positions)
        else None
    )
    return ShardingError(code, use, place, notes_about(value, [axis]))
