"""What the values of several devices are to the one value that they should be, or be parts of: it is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_shardtypes.differences import Host, factor_between, same

_COMBINED: dict[str, Callable[[Sequence[Host]], Any]] = {
    "sum": lambda parts: np.sum(parts, axis=0),
    "mean": lambda parts: np.mean(parts, axis=0),
    "maximum": lambda parts: np.max(parts, axis=0),
    "minimum": lambda parts: np.min(parts, axis=0),
    "product": lambda parts: np.prod(parts, axis=0),
}
_COLLECTIVE = {"sum": "psum", "mean": "pmean", "maximum": "pmax", "minimum": "pmin", "product": "product"}


@dataclass(frozen=True)
class Relation:
    """``how`` the values are combined, along which ``dimension`` if they are put together, and up to which factor."""

    how: str
    dimension: int | None = None
    factor: float = 1.0

    def __str__(self) -> str:
        if self.dimension is not None:
            return f"concatenated along dimension {self.dimension} they are"
        times = "" if self.factor == 1 else f" {self.factor:g} times"
        return f"their {self.how} is{times}"

    @property
    def collective(self) -> str:
        """What computes it."""
        return "all_gather" if self.dimension is not None else _COLLECTIVE[self.how]


def relation(parts: Sequence[Host], whole: Host) -> Relation | None:
    """What a value is to the values of several devices; None for nothing that is known."""
    if not all(np.issubdtype(np.asarray(part).dtype, np.number) for part in (*parts, whole)):
        return None
    if len({part.shape for part in parts}) != 1:
        return None
    for dimension in range(parts[0].ndim):
        joined = np.concatenate(parts, axis=dimension)
        if same(whole, joined):
            return Relation("parts", dimension)
    if parts[0].shape != whole.shape:
        return None
    for how, combine in _COMBINED.items():
        if same(whole, np.asarray(combine(parts)).astype(whole.dtype)):
            return Relation(how)
    factor = factor_between(whole, np.asarray(_COMBINED["sum"](parts)))
    return None if factor is None else Relation("sum", factor=factor)
