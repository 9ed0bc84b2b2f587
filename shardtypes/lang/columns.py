"""Rows of text in columns."""

from __future__ import annotations

from collections.abc import Sequence


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines: each column but the last is as wide as its longest text."""
    widths: list[int] = []
    for column in zip(*rows, strict=True):
        longest = max(column, key=len)
        widths.append(len(longest))
    lines = []
    for row in rows:
        cells = []
        for text, width in zip(row, widths, strict=True):
            cells.append(text.ljust(width))
        line = "  ".join(cells)
        line = line.rstrip()
        lines.append(f"    {line}")
    return lines
