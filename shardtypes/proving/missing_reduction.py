"""The line where a reduction is missing.

An operation that is given a partial sum shows that a reduction is missing. It is missing where another reduction left
the part, or where the part arose, unless a reduction follows: then the operation itself is in the wrong place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeGuard

from shardtypes.proving.described import moved
from shardtypes.proving.program import Constant, Name, Operand, Step
from shardtypes.proving.relation import Related
from shardtypes.proving.verdict import Where
from shardtypes.proving.walk import Culprit, Walk, reduced_axes
from shardtypes.proving.words import goes_on, leaves

_NEAR = 200
"""Values that are looked at for a reduction that follows."""
_LINEAR = frozenset(
    """add add_any sub mul div neg convert_element_type reshape transpose squeeze broadcast_in_dim expand_dims
    reduce_sum dot_general select_n concatenate slice dynamic_slice pad copy scan unshard shard""".split()
)


@dataclass(frozen=True)
class Part:
    """An operand that awaits a reduction, and its relation."""

    name: Name
    relation: Related

    @property
    def axes(self) -> set[str]:
        """The axes over which it is a partial sum."""
        return set(self.relation.parts)


def awaiting(found: Culprit) -> Part | None:
    """The operand of a culprit that is a partial sum: of a division it is what is divided by, if that is one."""
    step = found.step
    takes_parts = step.primitive == "unshard" or bool(reduced_axes(step))
    if found.relation is not None and not takes_parts:
        return None
    pairs = zip(step.operands, found.operands, strict=True)
    parts = [
        Part(name, relation)
        for name, relation in pairs
        if _is_name(name) and _is_partial_sum(relation)
    ]
    if not parts:
        return None
    if step.primitive == "div":
        return parts[-1]
    return parts[0]


def _is_name(operand: Operand) -> TypeGuard[Name]:
    return not isinstance(operand, Constant)


def _is_partial_sum(relation: Related | None) -> TypeGuard[Related]:
    return relation is not None and relation.monoid == "sum"


@dataclass(frozen=True)
class MissingReduction:
    """Of a culprit that takes a partial sum: ``used`` is its own line."""

    walk: Walk
    found: Culprit
    part: Part
    used: Where

    def where(self) -> Where | None:
        """The line to change; None if that is the one of the culprit."""
        if reduced_axes(self.found.step):
            return self._reduced_before()
        return self._over_too_few_axes() or self._never()

    def _reduced_before(self) -> Where | None:
        """A part that is too large because of a sum before: of a gradient, which was the same on all devices."""
        if self.part.relation.factor == 1:
            return None
        arose = self.walk.origin(self.part.name)
        if (
            arose is None
            or not reduced_axes(arose)
            or not self._is_on_another_line(arose)
        ):
            return None
        return self._arises_at(arose)

    def _over_too_few_axes(self) -> Where | None:
        """A reduction whose operand was a part over other axes as well."""
        passed = self.walk.collective_before(self.part.name)
        if passed is None or passed.place.file != self.used.place.file:
            return None
        axes = reduced_axes(passed)
        if not axes or self.part.axes & set(axes):
            return None
        after = self._parts_of(passed.results[0])
        before = self._parts_of(passed.operands[0])
        if after is None or before is None:
            return None
        if not self.part.axes <= after <= before:
            return None
        return moved(
            self.used, passed, leaves(passed, axes, self.part.relation, self.used.what)
        )

    def _parts_of(self, operand: Operand) -> set[str] | None:
        """The axes over which a value is a part; None where nothing is known of it."""
        _, relation = self.walk.standing(operand)
        if relation is None:
            return None
        return set(relation.parts)

    def _never(self) -> Where | None:
        """No reduction follows: it is missing where the part arose, or where the result of ``shard_map`` was made."""
        if self.found.step.primitive == "unshard":
            return self._where_result_was_made()
        arose = self.walk.origin(self.part.name)
        if (
            arose is None
            or arose.primitive == "shard"
            or not self._is_on_another_line(arose)
        ):
            return None
        if _is_backward(arose) or _is_backward(self.found.step):
            return None
        if self._is_reduced_later():
            return None
        return self._arises_at(arose)

    def _where_result_was_made(self) -> Where | None:
        every_maker = self.walk.makers([self.part.name])
        makers = (one for one in every_maker if one.place.file)
        forward = (one for one in makers if not _is_backward(one))
        maker = next(forward, None)
        if maker is None:
            return None
        return replace(self.used, place=maker.place)

    def _arises_at(self, step: Step) -> Where:
        return moved(
            self.used,
            step,
            goes_on(self.part.relation, self.used.what, self.walk.sizes),
        )

    def _is_on_another_line(self, step: Step) -> bool:
        """Whether an operation is elsewhere in the file of the culprit."""
        place = step.place
        return (
            bool(place.file)
            and place.file == self.used.place.file
            and place != self.used.place
        )

    def _is_reduced_later(self) -> bool:
        """Whether a reduction follows, past operations that keep sums."""
        left = [self.found.result]
        seen = set[Name]()
        while left and len(seen) < _NEAR:
            for user, step in self._forward_users(left.pop(0)):
                if user in seen:
                    continue
                seen.add(user)
                if step is not None and self.part.axes <= set(reduced_axes(step)):
                    return True
                if step is None or self._keeps_sums(step):
                    left.append(user)
        return False

    def _forward_users(self, name: Name) -> list[tuple[Name, Step | None]]:
        """What is made of a value, but for gradients."""
        users = self.walk.users(name)
        return [
            (user, step)
            for user, step in users
            if step is None or not _is_backward(step)
        ]

    def _keeps_sums(self, step: Step) -> bool:
        """Whether a sum of operands is taken to the sum of results. A product with a shard is reduced for itself."""
        if step.primitive not in _LINEAR:
            return False
        return not any(self._is_sharded(operand) for operand in step.operands)

    def _is_sharded(self, operand: Operand) -> bool:
        """Whether a value is sharded over axes of the part."""
        _, relation = self.walk.standing(operand)
        if relation is None:
            return False
        return any(self.part.axes & set(axes) for axes in relation.split.values())


def _is_backward(step: Step) -> bool:
    """Whether an operation is of a gradient."""
    about = getattr(step.source, "source_info", None)
    return "transpose(" in str(getattr(about, "name_stack", ""))
