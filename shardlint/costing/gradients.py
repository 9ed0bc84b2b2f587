"""What gradients send, as formulas: a function is run in numbers for several sizes, and what changes with which size
tells the formula.

Each size, and the number of devices along each mesh axis, is doubled by itself. If the bytes of a collective are then
multiplied by a power of two, they go with that power of it. One more run, with everything doubled, is a check.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from shardlint.costing.formula import Factor, Formula, bytes_sent
from shardlint.costing.report import Moved
from shardlint.evaluation.comparison import Allowance, Outcome
from shardlint.evaluation.entries import Trial, trials
from shardlint.evaluation.files import Files
from shardlint.evaluation.modules import Where as Literal
from shardlint.evaluation.other_meshes import DEVICES
from shardlint.evaluation.recording import Where
from shardlint.evaluation.sending import Sending, Sent
from shardlint.run import Opened
from shardtypes.lang import Size
from shardtypes.semantics.cost import COLLECTIVES

STEPS = 200_000
_MOST_STEPS = 3_000_000  # of all runs together
#: Sizes are so many times those of the trial, so that twice as many devices can share them.
_MARGIN = 2
_NOT_A_PRODUCT = "their bytes are no product of sizes"

Change: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The sizes, and the mesh axes, that are doubled."""
Key: TypeAlias = tuple[str, tuple[str, ...], Where | None]
_AS_IT_IS: Change = (frozenset(), frozenset())


class NotCounted(Exception):
    """Why it is not known what gradients send."""


@dataclass(frozen=True)
class Gradients:
    """What all gradients of a function send; ``again`` are the lines of collectives that JAX may run once more for
    them."""

    rows: tuple[Moved, ...]
    again: tuple[tuple[str, int], ...]


def gradients(opened: Opened, function: str, mesh: Mapping[str, int]) -> Gradients:
    """What the gradients of a function send on a mesh.

    Raises:
        NotCounted: it cannot be run, or the bytes are no product of sizes.
    """
    runs = _Runs.of(opened, function)
    base = runs.told(_AS_IT_IS)
    again: dict[tuple[str, int], None] = {}
    for where in base.again:
        line = where.place[0]
        again[where.path, line] = None
    rows: list[Moved] = []
    if base.sent:
        rows += _rows(runs, base.sent, mesh)
    return Gradients(
        rows=tuple(rows),
        again=tuple(again),
    )


def _rows(
    runs: _Runs, base: Sequence[Sent], mesh: Mapping[str, int]
) -> Iterator[Moved]:
    """The collectives as formulas, found by other runs. Raises NotCounted."""
    changes: list[Change] = []
    others: list[Sequence[Sent]] = []
    for change, told in runs.changed(mesh):
        changes.append(change)
        others.append(told.sent)
    found: list[tuple[Key, Formula | None]] = []
    for key, rows in _paired([base, *others]):
        for row in rows:
            held = _held(row, changes, runs)
            found.append((key, held))
    names = [change[0] for change in changes]
    axes = [change[1] for change in changes]
    everything = frozenset[str]().union(*names), frozenset[str]().union(*axes)
    _check(found, runs.told(everything).sent, everything, runs)
    several = [axis for axis, size in mesh.items() if size > 1]
    for key, held in found:
        yield _row(key, held, several)


@dataclass
class _Runs:
    """The runs of a function, with the sizes that its annotations name and those of mesh axes."""

    trial: Trial
    sizes: Mapping[str, int]
    axes: Mapping[str, int]

    @classmethod
    def of(cls, opened: Opened, function: str) -> _Runs:
        files = Files(opened.project, opened.sources)
        module = opened.module.name
        try:
            ((_, found),) = trials(
                files.find, module, files.text(module), (function,), STEPS, _MOST_STEPS
            )
        except (SyntaxError, RecursionError):
            raise NotCounted("its file is not read") from None
        if isinstance(found, str):
            raise NotCounted(found)
        sizes = {name: size * _MARGIN for name, size in found.sizes.items()}
        return cls(found, sizes, found.declared.sizes)

    def changed(self, mesh: Mapping[str, int]) -> Iterator[tuple[Change, Sending]]:
        """What is sent with each size, and each axis, changed by itself. An axis of which the function takes no other
        size is left out if it is what the mesh has. Raises NotCounted."""
        for name in self.sizes:
            change: Change = (frozenset({name}), frozenset())
            told = self.told(change)
            yield change, told
        in_order = [axis for axis in mesh if axis in self.axes]
        in_order += sorted(self.axes.keys() - mesh)
        for axis in in_order:
            change = (frozenset(), frozenset({axis}))
            try:
                told = self.told(change)
            except NotCounted:
                if mesh.get(axis) != self.axes[axis]:
                    raise
                continue
            yield change, told

    def told(self, change: Change) -> Sending:
        """What is sent in a run. Raises NotCounted."""
        names, axes = change
        sizes = _doubled(self.sizes, names)
        literals: dict[Literal, int] = {}
        for axis in axes:
            places = self.trial.declared.origins(axis)
            if not places:
                raise NotCounted(f"the size of the axis {axis!r} cannot be changed")
            literals.update(dict.fromkeys(places, self.axes[axis] * 2))
        entry = replace(self.trial.entry, sizes=sizes)
        program = replace(
            self.trial.program,
            entry=entry,
            before=entry.load,
            steps=STEPS,
            allowance=Allowance(STEPS),
        )
        sending = Sending()
        outcome: Outcome = program.run(
            DEVICES * 2 ** len(axes), literals, sending=sending
        )
        if outcome.reason:
            raise NotCounted(outcome.reason)
        return sending


def _doubled(sizes: Mapping[str, int], names: Container[str]) -> dict[str, int]:
    """The sizes, with those of some names twice as large."""
    found = dict(sizes)
    for name in found:
        if name in names:
            found[name] *= 2
    return found


_Row: TypeAlias = Sequence[int | None]
"""The bytes of one collective in each run."""


def _paired(runs: Sequence[Sequence[Sent]]) -> Iterator[tuple[Key, list[_Row]]]:
    """The collectives of several runs, each with itself."""
    groups = [_grouped(one) for one in runs]
    first = groups[0]
    for group in groups:
        if group.keys() != first.keys():
            raise NotCounted("other sizes send at other places")
    for key in first:
        ours = [group[key] for group in groups]
        if _have_several_lengths(ours):
            ours = [_of_shapes(one) for one in ours]
        if _have_several_lengths(ours):
            raise NotCounted(_NOT_A_PRODUCT)
        numbers = map(_bytes, ours)
        rows = zip(*numbers, strict=True)
        yield key, [list(row) for row in rows]


def _have_several_lengths(rows: Sequence[Sequence[Sent]]) -> bool:
    lengths = {len(one) for one in rows}
    return len(lengths) > 1


def _grouped(sent: Sequence[Sent]) -> dict[Key, list[Sent]]:
    found: dict[Key, list[Sent]] = defaultdict(list)
    for one in sent:
        found[one.collective, one.axes, one.where].append(one)
    return found


def _of_shapes(sent: Sequence[Sent]) -> list[Sent]:
    """Those of one shape together: the rounds of a loop."""
    found: dict[tuple[int, ...], Sent] = {}
    for one in sent:
        before = found.get(one.shape)
        if before is not None and before.bytes is not None and one.bytes is not None:
            one = replace(one, bytes=before.bytes + one.bytes)
        found[one.shape] = one
    return list(found.values())


def _bytes(sent: Sequence[Sent]) -> list[int | None]:
    return [one.bytes for one in sent]


def _held(
    row: _Row,
    changes: Sequence[Change],
    runs: _Runs,
) -> Formula | None:
    """The bytes of an operand as a formula: of the first run, and of each with a change."""
    first = row[0]
    if first is None:
        return None
    total = Formula.of(first)
    for (names, along), number in zip(changes, row[1:], strict=True):
        if number is None:
            return None
        power = _power(first, number)
        for name in names:
            factor = Factor(Size.symbol(name))
            total = total * _to(factor, runs.sizes[name], power)
        for axis in along:
            factor = Factor(axes=(axis,))
            total = total * _to(factor, runs.axes[axis], power)
    return total


def _power(before: int, after: int) -> int:
    """The power of two by which a number was multiplied. Raises NotCounted."""
    ratio = Fraction(after, before)
    power = max(ratio.numerator, ratio.denominator).bit_length() - 1
    if ratio.denominator > 1:
        power = -power
    if ratio != Fraction(2) ** power:
        raise NotCounted(_NOT_A_PRODUCT)
    return power


def _to(factor: Factor, number: int, power: int) -> Formula:
    """A factor over the number that it is, to a power."""
    repeated = (factor,) * abs(power)
    coefficient = Fraction(1, number) ** power
    if power < 0:
        return Formula(coefficient, down=repeated)
    return Formula(coefficient, up=repeated)


def _check(
    found: Sequence[tuple[Key, Formula | None]],
    sent: Sequence[Sent],
    change: Change,
    runs: _Runs,
) -> None:
    """Raises NotCounted unless the formulas give what is sent in a run."""
    names, along = change
    sizes = _doubled(runs.sizes, names)
    axes = _doubled(runs.axes, along)
    said: dict[Key, Fraction | None] = {}
    for key, formula in found:
        value = None
        if formula is not None:
            value = formula.value(sizes, axes)
        before = said.get(key, Fraction(0))
        said[key] = _plus(before, value)
    measured: dict[Key, Fraction | None] = {}
    for key, group in _grouped(sent).items():
        total: Fraction | None = Fraction(0)
        for number in _bytes(group):
            total = _plus(total, number)
        measured[key] = total
    if said != measured:
        raise NotCounted(_NOT_A_PRODUCT)


def _plus(total: Fraction | None, number: Fraction | int | None) -> Fraction | None:
    """A sum, which is not known where a part of it is not."""
    if total is None or number is None:
        return None
    return total + number


def _row(key: Key, held: Formula | None, several: Sequence[str]) -> Moved:
    collective, axes, where = key
    file = ""
    line = 0
    if where is not None:
        file = where.path
        line = where.place[0]
    over = [axis for axis in axes if axis in several]
    total = None
    if held is not None:
        total = bytes_sent(collective, held, over)
    return Moved(
        collective=COLLECTIVES[collective],
        axes=axes,
        line=line,
        file=file,
        sent=total,
        at_least=False,
    )
