"""What a run checked: counts by kind, functions reached, dimensions whose sharding was verified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_shardtypes.hook import PackageHook


@dataclass(frozen=True)
class Coverage:
    """The checks of one process, or of several merged.

    ``declared`` maps a function with array annotations to the place of its definition, ``functions`` to how often it
    was called with checks; ``dimensions`` maps (function, parameter, dimension index) to whether its sharding was
    ever verified on more than one device; ``traced`` maps the node id of a function's trace to its verdict.
    """

    checks: Mapping[str, int]
    not_possible: Mapping[str, int]
    functions: Mapping[str, int]
    declared: Mapping[str, str]
    dimensions: Mapping[tuple[str, str, int], bool]
    too_early: tuple[str, ...]
    never_imported: tuple[str, ...]
    traced: Mapping[str, str] = field(default_factory=dict)

    @property
    def unreached(self) -> tuple[str, ...]:
        """Annotated functions that no test called."""
        return tuple(sorted(name for name in self.declared if not self.functions.get(name)))

    @property
    def unverified(self) -> tuple[tuple[str, str, int], ...]:
        """Dimensions whose declared sharding only ever met a mesh of one device."""
        return tuple(sorted(key for key, verified in self.dimensions.items() if not verified))

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries."""
        return {
            "checks": dict(self.checks),
            "not_possible": dict(self.not_possible),
            "functions": dict(self.functions),
            "declared": dict(self.declared),
            "dimensions": [[*key, verified] for key, verified in sorted(self.dimensions.items())],
            "too_early": list(self.too_early),
            "never_imported": list(self.never_imported),
            "traced": dict(self.traced),
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Coverage:
        """The reverse of ``to_json``."""
        return cls(
            checks=plain["checks"],
            not_possible=plain["not_possible"],
            functions=plain["functions"],
            declared=plain["declared"],
            dimensions={(name, role, dim): verified for name, role, dim, verified in plain["dimensions"]},
            too_early=tuple(plain["too_early"]),
            never_imported=tuple(plain["never_imported"]),
            traced=plain["traced"],
        )


def take(hook: PackageHook) -> Coverage:
    """What this process has counted so far."""
    from pytest_shardtypes.annotated import find, handles_arrays
    from shardtypes import _stats

    counted = _stats.snapshot()
    inside = tuple(f"{package}." for package in hook.packages)
    return Coverage(
        checks=counted["checks"],
        not_possible=counted["not_possible"],
        functions=counted["functions"],
        declared={
            name: place
            for name, place in counted["declared"].items()
            if name.startswith(inside) and ((found := find(name)) is None or handles_arrays(found))
        },
        dimensions={(name, role, dim): verified for name, role, dim, verified in counted["dimensions"]},
        too_early=hook.too_early,
        never_imported=hook.never_imported(),
    )


def merge(parts: Iterable[Coverage]) -> Coverage:
    """The sum of several processes: reached or verified in one of them is reached or verified."""
    checks: Counter[str] = Counter()
    not_possible: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    declared: dict[str, str] = {}
    dimensions: dict[tuple[str, str, int], bool] = {}
    too_early: set[str] = set()
    never_imported: set[str] | None = None
    traced: dict[str, str] = {}
    for part in parts:
        checks.update(part.checks)
        not_possible.update(part.not_possible)
        functions.update(part.functions)
        declared.update(part.declared)
        for key, verified in part.dimensions.items():
            dimensions[key] = dimensions.get(key, False) or verified
        too_early.update(part.too_early)
        traced.update(part.traced)
        missing = set(part.never_imported)
        never_imported = missing if never_imported is None else never_imported & missing
    return Coverage(
        checks,
        not_possible,
        functions,
        declared,
        dimensions,
        tuple(sorted(too_early)),
        tuple(sorted(never_imported or ())),
        traced,
    )
