"""What has changed in what functions hold and send since an earlier revision."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from shardlint import messages
from shardlint.config import ConfigError
from shardlint.costing import kept
from shardlint.costing.counting import Counted, analysed, costs_of
from shardlint.costing.report import Cost
from shardlint.discovery import shown
from shardlint.run import Settings, opened
from shardlint.since import Elsewhere, Revision
from shardtypes.lang.frozen import frozen
from shardtypes.semantics.cost import COLLECTIVES

_NAMES = tuple(name.encode() for name in COLLECTIVES)
#: The cost of a function that is not there.
_NOTHING = Cost(
    function="",
    mesh={},
    sizes={},
    arguments=(),
    results=(),
    moved=(),
    uncounted=(),
)


@frozen
class CostChange:
    """A function that holds or sends other amounts than before. ``line`` is None where the function is gone; ``before``
    and ``after`` are what ``Cost.to_dict`` gives, None where there is no such function. ``lines`` is what differs, in
    words."""

    function: str
    file: str
    line: int | None
    before: kept.Data | None
    after: kept.Data | None
    lines: tuple[str, ...]

    @property
    def place(self) -> str:
        """``file:line``, as far as there is one."""
        if self.line is None:
            return self.file
        return f"{self.file}:{self.line}"

    def to_json(self) -> dict[str, object]:
        return {
            "function": self.function,
            "path": self.file,
            "line": self.line,
            "before": self.before,
            "after": self.after,
        }


@frozen
class CostChanges:
    """The functions whose costs have changed, and why those of some files are not compared."""

    changed: tuple[CostChange, ...] = ()
    not_compared: tuple[str, ...] = ()

    def text(self) -> Iterator[str]:
        """The lines that say so."""
        for one in self.changed:
            yield messages.cost_changed(one.function, one.place)
            yield from (f"  {line}" for line in one.lines)
        for reason in self.not_compared:
            yield messages.cost_not_compared(reason)


def cost_changes(
    revision: Revision, asked: Iterable[str], settings: Settings
) -> CostChanges:
    """The functions in the files ``asked`` for whose annotations or collectives have changed since the revision: what
    each device holds and sends, in the sizes that annotations name and the numbers of devices. Files without changes
    are not looked at, nor those that name no collective, now or then."""
    files = [Path(os.path.abspath(path)) for path in asked]
    before = revision.changed(files)
    if not before:
        return CostChanges()
    changed: list[CostChange] = []
    not_compared: list[str] = []
    with revision.files(map(str, files)) as there:
        for now, then in sorted(before.items()):
            earlier: str | None = None
            if then is not None and os.path.isfile(there.path(str(then))):
                earlier = there.path(str(then))
            if not any(map(names_a_collective, (str(now), earlier))):
                continue
            try:
                changed += _changes(str(now), earlier, settings, there)
            except ConfigError as error:
                not_compared.append(str(error))
    return CostChanges(tuple(changed), tuple(not_compared))


def names_a_collective(path: str | None) -> bool:
    """Whether a file may send anything that is counted. Raises ``OSError``."""
    if path is None:
        return False
    text = Path(path).read_bytes()
    return any(name in text for name in _NAMES)


def _changes(
    now: str, earlier: str | None, settings: Settings, there: Elsewhere
) -> Iterator[CostChange]:
    after = _costs(now, settings)
    before: Mapping[str, Counted] = {}
    if earlier is not None:
        before = _costs(earlier, there.settings(settings))
    for name in sorted(before.keys() | after.keys()):
        old = before.get(name)
        new = after.get(name)
        if not (_is_parallel(old) or _is_parallel(new)):
            continue
        lines = kept.compared(_data(old), _data(new))
        if lines:
            yield CostChange(
                function=name,
                file=new.file if new is not None else shown(Path(now)),
                line=new.line if new is not None else None,
                before=_data(old) if old is not None else None,
                after=_data(new) if new is not None else None,
                lines=tuple(lines),
            )


def _costs(path: str, settings: Settings) -> Mapping[str, Counted]:
    return costs_of(analysed(opened(path, settings), None))


def _is_parallel(one: Counted | None) -> bool:
    """Whether a function sends anything, or has an array that is sharded."""
    if one is None:
        return False
    rows = (*one.cost.arguments, *one.cost.results)
    return bool(one.cost.moved) or any(row.split for row in rows)


def _data(one: Counted | None) -> kept.Data:
    cost = _NOTHING if one is None else one.cost
    return cost.to_dict()
