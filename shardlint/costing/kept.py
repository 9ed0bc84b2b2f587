"""Costs that are kept in files: what ``--write`` writes, and what has changed since, for ``--against``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from shardlint import messages
from shardlint.config import ConfigError
from shardlint.costing.report import VERSION, Cost

Data: TypeAlias = dict[str, Any]
"""What ``Cost.to_dict`` gives."""

TOTALS = {"held": "holds", "moved": "sends"}
"""What may grow, and what is said of it."""

_GROUPS = {"held": ("arguments", "results"), "moved": ("collectives",)}
"""The rows that are summed there."""


def written(cost: Cost) -> str:
    """A cost as JSON."""
    return f"{json.dumps(cost.to_dict(), indent=2)}\n"


def write(path: str, cost: Cost) -> None:
    """Keep a cost in a file. Raises ``ConfigError`` where that cannot be."""
    text = written(cost)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        text = messages.not_written(path, reason)
        raise ConfigError("--write", text) from None


def read(path: str) -> Data:
    """What was written. Raises ``ConfigError`` for a file that cannot be read or is none of these."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        text = messages.cannot_be_read(path, reason)
        raise ConfigError("--against", text) from None
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        text = messages.no_cost_file(path)
        raise ConfigError("--against", text)
    return found


def compared(before: Data, after: Data) -> list[str]:
    """The totals that have changed, and the arrays and collectives behind them, by what they are: lines move. Empty
    if nothing has changed."""
    lines = []
    for what, verb in TOTALS.items():
        old = _total(before, what)
        new = _total(after, what)
        if old != new:
            lines.append(f"each device {verb} {new}, {old} before")
    rows = Counter(_rows(before))
    rows.subtract(Counter(_rows(after)))
    for row, surplus in rows.items():
        lines += [f"  - {row}"] * surplus
    for row, surplus in rows.items():
        lines += [f"  + {row}"] * -surplus
    return lines


def _total(cost: Data, what: str) -> str:
    rows = [row for group in _GROUPS[what] for row in cost[group]]
    is_all = all(row["formula"] is not None for row in rows)
    if what == "moved":
        is_all &= not cost["uncounted"]
    text = _amount(cost[what])
    return text if is_all else f"{text} and what is not known"


def _amount(row: Data) -> str:
    number = row["bytes"]
    if number is not None:
        return f"{number:,} bytes"
    if row["formula"] is not None:
        return f"{row['formula']} bytes"
    return "not known"


def _rows(cost: Data) -> Iterator[str]:
    for group in ("arguments", "results"):
        for row in cost[group]:
            amount = _amount(row)
            array = row["array"]
            yield f"{row['name']} {array}: {amount}"
    for row in cost["collectives"]:
        amount = _amount(row)
        axes = ", ".join(row["axes"])
        collective = row["collective"]
        yield f"{collective} over {axes}: {amount}"
    for _, why in cost["uncounted"]:
        yield f"not counted: {why}"
