"""The words of a verdict, each in one place."""

from __future__ import annotations

from collections.abc import Sequence

from shardtypes.lang.messages import (
    applied_to,
    axes_text,
    device_mean,
    partial_sum,
    returned_as_replicated,
    sizes_text,
)
from shardtypes.proving.program import Constant, Step
from shardtypes.proving.relation import Axes, Related, Sizes, scale_words
from shardtypes.proving.walk import COLLECTIVES, Culprit, rounds_apart

_PUBLIC = {
    "psum_invariant": "lax.psum",
    "all_gather_invariant": "lax.all_gather",
    "reduce_scatter": "lax.psum_scatter",
    "dot_general": "lax.dot_general",
    "unshard": "the result of shard_map",
    "shard": "shard_map",
    "select_n": "lax.select",
}
_SHOWN = 5
_SIGNS = {"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/"}


def operation(step: Step) -> str:
    """The name of an operation as users know it."""
    name = step.primitive
    return _PUBLIC.get(name) or _SIGNS.get(name) or f"lax.{name}"


def mesh_text(sizes: Sizes) -> str:
    """``d=2, t=4``."""
    return sizes_text(sizes)


def wrong_as_well(paths: Sequence[str]) -> str:
    """The results that differ beside the first."""
    if not paths:
        return ""
    if len(paths) > _SHOWN:
        more = " …"
    else:
        more = ""
    return f"; wrong as well: {', '.join(paths[:_SHOWN])}{more}"


def what_happens(found: Culprit, sizes: Sizes) -> str:
    """What the operation of a culprit does, with what its operands were, and what to write instead."""
    step = found.step
    known = [one for one in found.operands if one is not None]
    if step.primitive == "random_bits":
        return (
            "all devices draw the same random numbers, of which one device draws more: fold lax.axis_index(…) into the "
            "key, or split it"
        )
    if step.primitive == "unshard":
        return _returned(step, found, sizes)
    if step.primitive in ("psum", "psum_invariant", "pmax", "pmin"):
        text = _reduced(step, known, sizes)
        if text is not None:
            return text
    if step.primitive in COLLECTIVES:
        return applied_to(
            operation(step),
            [_words(one, sizes) for one in known] or ["what nothing is known of"],
        )
    if found.relation is not None and found.relation.factor != 1:
        return _scaled(found, sizes)
    return _combined(step, found, sizes)


def arises(relation: Related, sizes: Sizes) -> str:
    """Where the relation of an operand arose."""
    return f"it is {relation.words(sizes)} from here on"


def goes_on(relation: Related, what: str, sizes: Sizes) -> str:
    """A part that is never reduced, where it arose."""
    return f"{arises(relation, sizes)}: {what}"


def last_collective(step: Step) -> str:
    """The collective that an operand went through last."""
    return (
        f"{operation(step)} over {axes_text(step.over)} is the last collective before"
    )


def in_each_round(step: Step) -> str:
    """A collective in a loop that computes something else than on one device."""
    return f"{operation(step)} over {axes_text(step.over)} in each round"


def leaves(step: Step, axes: Sequence[str], relation: Related, what: str) -> str:
    """A reduction that leaves a part over other axes."""
    over = axes_text(axes)
    left = partial_sum(relation.parts)
    kind = operation(step)
    return f"{kind} over {over} leaves {left}: {what}"


def applied_here(operation: str) -> str:
    """Where a part is used as if it were complete."""
    return f"{operation} is applied to it"


def differs(number: int, axes: Sequence[str]) -> str:
    """Of a result that is returned as replicated."""
    return f"result {number + 1} of shard_map differs along {axes_text(axes)} but is returned as replicated"


def alike(number: int, axis: str, dim: int) -> str:
    """Of a result that is returned as sharded."""
    return (
        f"result {number + 1} of shard_map is the same on all devices along {axis!r}, but is returned as sharded over "
        f"it along dimension {dim}"
    )


def reduces(step: Step, axes: Sequence[str], what: str) -> str:
    """The reduction that a wrong result went through last."""
    kind = operation(step)
    over = axes_text(axes)
    return f"{kind} over {over}: {what}"


def same_rows(axes: Sequence[str]) -> str:
    """Indices into shards."""
    return (
        f"these are the same rows of every shard along {axes_text(axes)}: indices into a shard begin at its first row, "
        "which depends on lax.axis_index(…)"
    )


def _words(relation: Related, sizes: Sizes) -> str:
    return f"what is {relation.words(sizes)}"


def _returned(step: Step, found: Culprit, sizes: Sizes) -> str:
    dims = step.params["dims"]
    named = {axis for axes in dims for axis in axes}
    missing = [axis for axis in step.params["sizes"] if axis not in named]
    (relation,) = found.operands
    what = f"result {step.params['number'] + 1} of shard_map"
    if relation is None:
        if missing:
            return f"{what} {returned_as_replicated(missing)}"
        return f"{what} is put together from other parts"
    parts = [axis for axis in relation.parts if axis in missing]
    if parts:
        held = relation.words(sizes)
        remedy = _remedy(relation)
        return f"{what} is {held} but is returned as replicated: {remedy}"
    if any(axis in missing for axis in relation.numbered):
        return f"{what} is {relation.words(sizes)} but is returned as replicated"
    split = [axis for axis in missing if relation[axis].kind == "split"]
    if split:
        return f"{what} {returned_as_replicated(split)}"
    said = (
        "; ".join(
            f"dimension {dim} {axes_text(axes)}"
            for dim, axes in enumerate(dims)
            if axes
        )
        or "replicated"
    )
    return f"{what} is {relation.words(sizes)}, but out_specs says {said}"


def _remedy(relation: Related, first: str = "") -> str:
    """``call lax.psum(…, 't')``: the collective that completes a value."""
    names = {"sum": "psum", "max": "pmax", "min": "pmin"}
    collective = names.get(str(relation.monoid), "psum")
    if relation.monoid == "sum" and relation.factor != 1:
        collective = "pmean"
    if len(relation.parts) == 1:
        axes = repr(relation.parts[0])
    else:
        axes = repr(relation.parts)
    return f"call lax.{collective}(…, {axes}){first}"


def _reduced(step: Step, known: Sequence[Related], sizes: Sizes) -> str | None:
    """A reduction over devices of something else than a part."""
    if not known:
        return None
    (relation, *_) = known
    kind = operation(step)
    done = [
        axis
        for axis in step.over
        if axis not in relation.parts and relation[axis].kind == "same"
    ]
    split = [axis for axis in step.over if relation[axis].kind == "split"]
    if split:
        over = axes_text(split)
        what = relation.words(sizes)
        applied = f"{kind} over {over} is applied to what is {what}"
        return f"{applied}: it adds different shards; use all_gather, or leave it out"
    means = relation.parts and relation.factor != 1 and kind == "lax.psum"
    if means:
        part = _part_words(relation, sizes)
        off = _off(relation)
        remedy = _remedy(relation)
        return f"{kind} is applied to {part}: the sum is {off}; {remedy}"
    if done and kind == "lax.psum":
        over = axes_text(done)
        scale = scale_words(_count(done, sizes))
        return f"{kind} over {over} is applied to what is the same on all devices already: the result is {scale}"
    return None


def _part_words(relation: Related, sizes: Sizes) -> str:
    if relation.monoid != "sum":
        return relation.words(sizes)
    if relation.factor == _count(relation.parts, sizes):
        return device_mean(relation.parts)
    return partial_sum(relation.parts)


def _off(relation: Related) -> str:
    return scale_words(relation.factor)


def _count(axes: Sequence[str], sizes: Sizes) -> int:
    count = 1
    for axis in axes:
        count *= sizes.get(axis, 1)
    return count


def _scaled(found: Culprit, sizes: Sizes) -> str:
    step = found.step
    relation = found.relation
    assert relation is not None
    text = f"from here on it is {scale_words(relation.factor)}"
    if step.primitive == "scan":
        return f"the loop: {text}"
    averaged = _averaged(found, sizes)
    if averaged:
        whom = f"is applied to {partial_sum(averaged)}"
        if len(averaged) == 1:
            axes = repr(averaged[0])
        else:
            axes = repr(averaged)
        scale = scale_words(relation.factor)
        return f"lax.pmean {whom}: the mean is {scale}; call lax.psum(…, {axes})"
    other = found.other
    if other is not None:
        for mine, his in zip(step.operands, other.operands, strict=False):
            if (
                isinstance(mine, Constant)
                and isinstance(his, Constant)
                and str(mine.value) != str(his.value)
            ):
                return f"{text}: it takes {_number(mine)}, on one device {_number(his)}"
    return f"{operation(step)}: {text}"


def _averaged(found: Culprit, sizes: Sizes) -> Axes:
    """The axes of a ``pmean``, which is a sum and a division in one line."""
    step = found.step
    before = found.before
    if step.primitive != "div" or before is None or before.place != step.place:
        return ()
    if before.primitive not in ("psum", "psum_invariant") or not isinstance(
        step.operands[1], Constant
    ):
        return ()
    mean_of = f"{_count(before.over, sizes):g}"
    if _number(step.operands[1]) == mean_of:
        return before.over
    return ()


def _number(constant: Constant) -> str:
    try:
        return f"{float(constant.value):g}"
    except (TypeError, ValueError):
        return "another array"


def _combined(step: Step, found: Culprit, sizes: Sizes) -> str:
    if step.primitive == "scan":
        text = "what it computes is not what one device computes, nor a shard or a partial result of it"
        return f"{_loop(step, found.other)}: {text}"
    awaiting = [one for one in found.operands if one is not None and one.parts]
    rest = [
        one
        for one in found.operands
        if one is not None and not one.parts and not one.zero
    ]
    name = operation(step)
    if awaiting and rest and step.primitive in ("add", "add_any", "sub"):
        other = f"what is {rest[0].words(sizes)}"
        texts = [_part_words(awaiting[0], sizes), other]
        applied = applied_to(name, texts)
        remedy = _remedy(awaiting[0], " first")
        return f"{applied}: {remedy}"
    if awaiting:
        if step.primitive == "div":
            # what is divided by is the one that is used as if it were complete
            awaiting.reverse()
        return applied_to(
            name, [_part_words(awaiting[0], sizes)], _remedy(awaiting[0], " first")
        )
    if any(one.numbered for one in rest):
        own = dict.fromkeys(_words(one, sizes) for one in rest)
        return applied_to(name, [*own])
    split = [one for one in found.operands if one is not None and one.split]
    if split:
        axes = [
            axis for one in split[:1] for axes in one.split.values() for axis in axes
        ]
        return (
            f"{name} is applied to {' and '.join(dict.fromkeys(_words(one, sizes) for one in split))}: "
            f"the devices along {axes_text(axes)} compute something else than one device does"
        )
    return f"the result of {name} is not what one device computes, nor a shard or a partial result of it"


def _loop(step: Step, other: Step | None) -> str:
    if other is None or not rounds_apart(step, other):
        return "this loop"
    rounds = step.params["length"]
    rounds_of_one = other.params["length"]
    return f"this loop goes {rounds} rounds, on one device {rounds_of_one}"
