"""Shapes and witnesses as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from shardtypes.lang.size import Size

_NUMBER = re.compile(r"\?(?=\w+#)|(?<=\w)#\d+")


def format_shape(
    sizes: Sequence[Size | int | str | None] | None,
    axes: Sequence[tuple[str, ...] | None] | None = None,
    pending: Iterable[str] = (),
) -> str:
    """A shape string: ``'B/d L 4 {U:t}'``; ``_`` is an unknown size, ``...`` an unknown rank. A size may be text."""
    if sizes is None:
        return "..."
    parts = []
    for index, size in enumerate(sizes):
        if size is None:
            text = "_"
        elif isinstance(size, Size):
            text = _text(size)
        else:
            text = str(size)
        split = axes[index] if axes else None
        parts.append("/".join((text, *(split or ()))))
    waiting = sorted(pending)
    if waiting:
        parts.append("{U:" + ",".join(waiting) + "}")
    return " ".join(parts)


def _text(size: Size) -> str:
    """An opaque size has a text only if all its symbols are expressions of the program, as ``?cfg#3.width`` is."""
    if any(name.startswith("?") and "#" not in name for name in size.symbols):
        return "_"
    if size.is_opaque:
        return _NUMBER.sub("", str(size))
    return str(size)


def format_witness(witness: Mapping[str, int]) -> str:
    """``'B=2, L=3'``, in the order of the names."""
    return ", ".join(f"{name}={value}" for name, value in sorted(witness.items()))
