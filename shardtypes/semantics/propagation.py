"""The relation of a result over one mesh axis, from those of the operands: one table for all primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shardtypes.semantics.letters import Letters
from shardtypes.semantics.relation import (
    ALIKE,
    SAME,
    UNKNOWN,
    VARYING,
    ZERO,
    Breach,
    Fault,
    Relation,
    part,
    split,
)

if TYPE_CHECKING:
    from shardtypes.semantics.values import Values


def propagated(
    operands: Sequence[Relation],
    letters: Letters | None,
    values: Values,
    axis: str,
    count: int,
) -> list[Relation]:
    """The relations of ``count`` results.

    ``letters`` are None where the rank of an operand is not known; then a dimension that is sharded is one of some
    dimensions, and stays one only in operations that keep them all.
    """
    ended = _beyond(operands)
    if ended is not None:
        return [ended] * count
    sharded = [i for i, one in enumerate(operands) if one.kind == "split"]
    varying = [i for i, one in enumerate(operands) if one.kind == "varying"]
    if varying:
        if _first(operands, "part") is not None:
            return [UNKNOWN] * count
        return _of_varying(operands, varying, letters, count)
    if not sharded:
        return [_unsharded(operands, values, axis)] * count
    if _first(operands, "part") is not None:
        return [_broken(axis, "mixed", operands, "part")] * count
    if letters is None or any(operands[i].dim is None for i in sharded):
        return [UNKNOWN] * count
    return _sharded(operands, sharded, letters, values, axis)


def _beyond(operands: Sequence[Relation]) -> Relation | None:
    """What an operand of which nothing is known makes of the result."""
    for one in operands:
        if one.kind == "unknown":
            return one
    alike = next((one for one in operands if one.kind == "alike"), None)
    if alike is None:
        return None
    if all(one.kind in ("same", "zero", "alike") for one in operands):
        return alike
    return Relation("unknown", breach=alike.breach)


def _of_varying(
    operands: Sequence[Relation],
    varying: Sequence[int],
    letters: Letters | None,
    count: int,
) -> list[Relation]:
    """What devices made of their own parts is still no more than that; but for what differs between devices by itself,
    which may make up for it."""
    if any(operands[i].breach is None for i in varying):
        return [VARYING] * count
    made = replace(operands[varying[0]], dim=None)
    of_one = len(varying) == 1 and all(one.kind != "split" for one in operands)
    dim = operands[varying[0]].dim
    if letters is None or dim is None or not of_one:
        return [made] * count
    factors = letters.operands[varying[0]][dim]
    if len(factors) != 1:
        return [made] * count
    return _in_place(made, factors[0], letters)


def _in_place(made: Relation, letter: str, letters: Letters) -> list[Relation]:
    """The relation of what devices made of their parts of a dimension, where results have that dimension again."""
    letter = dict(letters.along).get(letter, letter)
    results = []
    for dims in letters.results:
        place = letters.where(letter, dims)
        if place is None or place[1] > 0:
            results.append(made)
        else:
            results.append(replace(made, dim=place[0]))
    return results


def _first(operands: Sequence[Relation], kind: str) -> int | None:
    return next((i for i, one in enumerate(operands) if one.kind == kind), None)


def _broken(
    axis: str, fault: Fault, operands: Sequence[Relation], kind: str
) -> Relation:
    at = _first(operands, kind) or 0
    return replace(UNKNOWN, breach=Breach(axis, fault, at, operands[at]))


def _sharded(
    operands: Sequence[Relation],
    sharded: Sequence[int],
    letters: Letters,
    values: Values,
    axis: str,
) -> list[Relation]:
    """Some operands are sharded, the others are the same on all devices."""
    count = len(letters.results)
    found: set[str] = set()
    for i in sharded:
        dim = operands[i].dim
        assert dim is not None
        if dim < len(letters.operands[i]):
            factors = letters.operands[i][dim]
        else:
            factors = ()
        if not factors:
            # one row on each device: no dimension of the result shows it
            return [UNKNOWN] * count
        found.add(factors[0])
    if len(found) > 1:
        return [_broken(axis, "clash", operands, "split")] * count
    (letter,) = found
    if letter in letters.whole:
        at = sharded[0]
        made = replace(VARYING, breach=Breach(axis, "whole", at, operands[at]))
        if letter in dict(letters.along):
            return _in_place(made, letter, letters)
        return [made] * count
    if letter in letters.window:
        return [VARYING] * count
    for i, one in enumerate(operands):
        if (
            one.kind == "same"
            and letters.where(letter, letters.operands[i]) is not None
        ):
            # all of a dimension beside a part of it: sizes cannot agree, but for a constant
            return [UNKNOWN] * count
    power = _power(operands, values)
    if power is None:
        return [_broken(axis, "factor", operands, "split")] * count
    results = []
    for dims in letters.results:
        place = letters.where(letter, dims)
        if place is None:
            results.append(
                part(values.monoid, power) if values.monoid is not None else VARYING
            )
        elif place[1] > 0:
            results.append(_broken(axis, "inner", operands, "split"))
        else:
            results.append(split(place[0], power))
    return results


def _unsharded(operands: Sequence[Relation], values: Values, axis: str) -> Relation:
    """No operand is sharded: each is the same everywhere, zero, or a part."""
    parts = [i for i, one in enumerate(operands) if one.kind == "part"]
    if parts:
        return _of_parts(operands, parts, values, axis)
    zeros = {i for i, one in enumerate(operands) if one.kind == "zero"}
    if zeros and (zeros & values.each or (values.jointly and values.jointly <= zeros)):
        return ZERO
    power = _power(operands, values)
    if power is None:
        scaled = next(i for i, one in enumerate(operands) if one.power)
        breach = Breach(axis, "factor", scaled, operands[scaled])
        return replace(ALIKE, breach=breach)
    return SAME.times(power)


def _power(operands: Sequence[Relation], values: Values) -> Fraction | int | None:
    """The power of the number of devices by which the result is off; None where no factor can be taken out."""
    if not any(one.power for one in operands):
        return 0
    total: Fraction | int = 0
    joint = [
        one.power
        for i, one in enumerate(operands)
        if i in values.jointly and one.kind != "zero"
    ]
    if len(set(joint)) > 1:
        return None
    total += joint[0] if joint else 0
    rest = [
        i
        for i in range(len(operands))
        if i not in values.jointly and operands[i].kind != "zero"
    ]
    degrees = {i: values.degrees[i] if i < len(values.degrees) else None for i in rest}
    if values.together:
        if len({operands[i].power for i in rest}) > 1:
            return None
        if rest:
            degree = degrees[rest[0]]
        else:
            degree = 0
        if degree is None:
            return None
        return total + degree * operands[rest[0]].power
    for i in rest:
        if not operands[i].power:
            continue
        if i in values.each:
            degree = 1
        else:
            degree = degrees[i]
        if degree is None:
            return None
        total += degree * operands[i].power
    return total


def _of_parts(
    operands: Sequence[Relation], parts: Sequence[int], values: Values, axis: str
) -> Relation:
    """Some operands are parts, the others are the same everywhere or zero."""
    monoids = {operands[i].monoid for i in parts}
    if len(monoids) > 1:
        return _broken(axis, "partial", operands, "part")
    (monoid,) = monoids
    if monoid == "sum":
        return _of_sums(operands, parts, values, axis)
    if len({one.power for one in operands if one.kind != "zero"}) > 1:
        return _broken(axis, "factor", operands, "part")
    if values.idempotent == monoid:
        return operands[parts[0]]
    if values.moves:
        complete = any(
            operands[i].kind == "same" for i in values.jointly if i < len(operands)
        )
        if complete:
            return _broken(axis, "mixed", operands, "part")
        return operands[parts[0]]
    if monoid in ("max", "min") and len(parts) == 1 and not operands[parts[0]].power:
        return _of_extremum(operands, parts[0], values, axis)
    return _broken(axis, "partial", operands, "part")


def _of_sums(
    operands: Sequence[Relation], parts: Sequence[int], values: Values, axis: str
) -> Relation:
    if set(parts) <= values.jointly:
        complete = [
            i
            for i in values.jointly
            if i < len(operands) and operands[i].kind == "same"
        ]
        powers = {operands[i].power for i in parts}
        if complete or len(powers) > 1:
            return _broken(axis, "mixed", operands, "part")
    elif len(parts) > 1 or parts[0] not in values.each:
        return _broken(axis, "partial", operands, "part")
    power = _power(operands, values)
    if power is not None:
        return part("sum", power)
    return _broken(axis, "factor", operands, "part")


def _of_extremum(
    operands: Sequence[Relation], at: int, values: Values, axis: str
) -> Relation:
    """A maximum of the devices' values stays one under a function that grows with it, and becomes a minimum under one
    that falls."""
    if at < len(values.monotone):
        sign = values.monotone[at]
    else:
        sign = 0
    if not sign:
        return _broken(axis, "partial", operands, "part")
    monoid = operands[at].monoid
    if sign < 0:
        monoid = "min" if monoid == "max" else "max"
    assert monoid is not None
    return part(monoid, operands[at].power)
