"""What a run checked: counts by kind, functions reached, dimensions whose sharding was verified."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_shardtypes.hook import PackageHook

# (function, role in it, dimension, mesh axis)
Dimension = tuple[str, str, int, str]
# (function, role in it, annotation, mesh)
Verified = tuple[str, str, str, str]
# (function, role in it, what happened)
Event = tuple[str, str, str]


@dataclass(frozen=True)
class Coverage:
    """The checks of one process, or of several merged.

    ``declared`` maps a function with array annotations to the place of its definition, ``functions`` to how often it
    was called with checks; ``dimensions`` says of each dimension and axis whether the sharding was ever verified on a
    mesh where that axis is larger than one; ``layouts`` are the annotations and meshes that were found to agree.
    ``checking`` maps a function to the seconds that its checks took, compiling for them included, but for the calls
    that a generated checker passed.
    ``traced`` maps the node id of a function's trace to its verdict; ``collectives`` that of a test to what it
    compiled, ``seconds`` to how long it took. ``proved`` maps the node id of a call of a mapped function to what
    comparing it with one device gave; ``not_compared`` are such functions, where they were only counted.
    ``intermediates`` are the arrays of such a call on the devices: the place of each, the array, the line, a remark.
    ``compared`` are the dimensions that were compared on some mesh, be the axis of one device or more; ``missed`` says
    how often an array could not be compared and why, ``failures`` how often it was not as declared and why, where the
    role is known; ``laws`` maps the node id of a law of dimensions to its verdict.
    """

    checks: Mapping[str, int]
    not_possible: Mapping[str, int]
    functions: Mapping[str, int]
    declared: Mapping[str, str]
    dimensions: Mapping[Dimension, bool]
    layouts: tuple[Verified, ...]
    too_early: tuple[str, ...]
    never_imported: tuple[str, ...]
    checking: Mapping[str, float] = field(default_factory=dict)
    traced: Mapping[str, str] = field(default_factory=dict)
    collectives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    proved: Mapping[str, str] = field(default_factory=dict)
    not_compared: tuple[str, ...] = ()
    intermediates: Mapping[str, tuple[tuple[str, ...], ...]] = field(
        default_factory=dict
    )
    compared: tuple[Dimension, ...] = ()
    missed: Mapping[Event, int] = field(default_factory=dict)
    failures: Mapping[Event, int] = field(default_factory=dict)
    laws: Mapping[str, str] = field(default_factory=dict)

    @property
    def unreached(self) -> tuple[str, ...]:
        """Annotated functions that no test called."""
        return tuple(
            sorted(name for name in self.declared if not self.functions.get(name))
        )

    @property
    def unverified(self) -> tuple[Dimension, ...]:
        """Dimensions whose declared sharding over an axis never met a mesh where that axis is larger than one."""
        return tuple(
            sorted(key for key, verified in self.dimensions.items() if not verified)
        )

    @property
    def percentage(self) -> float:
        """How many of a hundred dimensions with axes were verified where each axis is larger than one; 0 of none."""
        if not self.dimensions:
            return 0.0
        return 100 * sum(self.dimensions.values()) / len(self.dimensions)

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in values.items()
        }
        plain["dimensions"] = [
            [*key, verified] for key, verified in sorted(self.dimensions.items())
        ]
        for name in ("missed", "failures"):
            plain[name] = [[*key, count] for key, count in sorted(plain[name].items())]
        for name in ("layouts", "too_early", "never_imported", "compared"):
            plain[name] = [
                list(entry) if isinstance(entry, tuple) else entry
                for entry in plain[name]
            ]
        plain["collectives"] = {
            name: list(lines) for name, lines in self.collectives.items()
        }
        plain["intermediates"] = {
            name: [list(row) for row in rows]
            for name, rows in self.intermediates.items()
        }
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Coverage:
        """The reverse of ``to_json``."""
        values = dict(plain)
        values["dimensions"] = {
            (name, role, dim, axis): verified
            for name, role, dim, axis, verified in plain["dimensions"]
        }
        values["layouts"] = tuple(
            (name, role, text, mesh) for name, role, text, mesh in plain["layouts"]
        )
        for name in ("too_early", "never_imported", "not_compared"):
            values[name] = tuple(plain[name])
        values["compared"] = tuple(
            (name, role, dim, axis) for name, role, dim, axis in plain["compared"]
        )
        for kind in ("missed", "failures"):
            values[kind] = {
                (name, role, text): count for name, role, text, count in plain[kind]
            }
        values["collectives"] = {
            name: tuple(lines) for name, lines in plain["collectives"].items()
        }
        values["intermediates"] = {
            name: tuple(tuple(row) for row in rows)
            for name, rows in plain["intermediates"].items()
        }
        return cls(**values)


def take(hook: PackageHook) -> Coverage:
    """What this process has counted so far."""
    from pytest_shardtypes.annotated import declared_axes, find, handles_arrays
    from shardtypes import _stats

    counted = _stats.snapshot()
    inside = tuple(f"{package}." for package in hook.packages)
    declared: dict[str, str] = {}
    dimensions: dict[Dimension, bool] = {}
    for name, place in counted["declared"].items():
        if not name.startswith(inside):
            continue
        function = find(name)
        if function is None or handles_arrays(function):
            declared[name] = place
            dimensions.update(
                ((name, *entry), False) for entry in declared_axes(function)
            )
    compared: list[Dimension] = []
    for name, role, dim, axis, verified in counted["dimensions"]:
        if name.startswith(inside):
            dimensions[name, role, dim, axis] = verified
            compared.append((name, role, dim, axis))
    return Coverage(
        checks=counted["checks"],
        not_possible=counted["not_possible"],
        functions={
            name: calls
            for name, calls in counted["functions"].items()
            if name.startswith(inside)
        },
        declared=declared,
        dimensions=dimensions,
        layouts=tuple(
            (*entry,) for entry in counted["layouts"] if entry[0].startswith(inside)
        ),
        too_early=hook.too_early,
        never_imported=hook.never_imported(),
        checking=_added(counted["seconds"], hook.times.seconds),
        compared=tuple(sorted(compared)),
        missed=_inside(counted["missed"], inside),
        failures=_inside(counted["failures"], inside),
    )


def _inside(events: Mapping[Event, int], packages: tuple[str, ...]) -> dict[Event, int]:
    return {key: count for key, count in events.items() if key[0].startswith(packages)}


def _added(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {
        name: one.get(name, 0.0) + other.get(name, 0.0) for name in {**one, **other}
    }


def merge(parts: Iterable[Coverage]) -> Coverage:
    """The sum of several processes: reached or verified in one of them is reached or verified."""
    checks: Counter[str] = Counter()
    not_possible: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    declared: dict[str, str] = {}
    dimensions: dict[Dimension, bool] = {}
    layouts: dict[Verified, None] = {}
    checking: dict[str, float] = {}
    too_early: set[str] = set()
    never_imported: set[str] | None = None
    not_compared: set[str] = set()
    compared: set[Dimension] = set()
    missed: Counter[Event] = Counter()
    failures: Counter[Event] = Counter()
    for part in parts:
        checks.update(part.checks)
        not_possible.update(part.not_possible)
        functions.update(part.functions)
        declared.update(part.declared)
        for key, verified in part.dimensions.items():
            dimensions[key] = dimensions.get(key, False) or verified
        checking = _added(checking, part.checking)
        layouts.update(dict.fromkeys(part.layouts))
        too_early.update(part.too_early)
        not_compared.update(part.not_compared)
        compared.update(part.compared)
        missed.update(part.missed)
        failures.update(part.failures)
        missing = set(part.never_imported)
        never_imported = missing if never_imported is None else never_imported & missing
    return Coverage(
        checks=checks,
        not_possible=not_possible,
        functions=functions,
        declared=declared,
        dimensions=dimensions,
        layouts=tuple(sorted(layouts)),
        too_early=tuple(sorted(too_early)),
        never_imported=tuple(sorted(never_imported or ())),
        checking=checking,
        not_compared=tuple(sorted(not_compared)),
        compared=tuple(sorted(compared)),
        missed=missed,
        failures=failures,
    )
