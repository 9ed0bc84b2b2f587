"""What has changed between two costs of a function, as ``--write`` keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_NAMES = {"held": "holds", "moved": "sends"}


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The totals that have changed, and the arrays and collectives behind them, by what they are: lines move."""
    lines = []
    for what, verb in _NAMES.items():
        if before[what] != after[what]:
            old, new = (_amount(one[what]) for one in (before, after))
            lines.append(f"each device {verb} {new}, {old} before")
    old_rows, new_rows = Counter(_rows(before)), Counter(_rows(after))
    lines += [f"  - {row}" for row in (old_rows - new_rows).elements()]
    lines += [f"  + {row}" for row in (new_rows - old_rows).elements()]
    return lines or ["nothing has changed"]


def _amount(row: Mapping[str, Any]) -> str:
    number, formula = row["bytes"], row["formula"]
    if number is None:
        return f"{formula} bytes"
    return f"{number:,} bytes"


def _rows(cost: Mapping[str, Any]) -> Iterator[str]:
    for group in ("arguments", "results"):
        for row in cost[group]:
            yield f"{row['name']} {row['array']}: {_amount(row)}"
    for row in cost["collectives"]:
        axes = ", ".join(row["axes"])
        yield f"{row['collective']} over {axes}: {_amount(row)}"
