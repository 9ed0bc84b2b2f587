"""``shardlint cost``: its options, what it prints, and the exit status."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shardlint import messages
from shardlint.config import ConfigError
from shardlint.costing.compare import compared
from shardlint.costing.counting import cost_of
from shardlint.costing.formula import Formula
from shardlint.costing.report import Cost
from shardlint.options import cost_options, settings_of
from shardlint.run import opened
from shardlint.writing import say

_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kmgt]i?)?b?", re.IGNORECASE)
_PREFIXES = ("k", "m", "g", "t")


def run_cost(arguments: Sequence[str]) -> int:
    """The command. 0; 1 where more is held or sent than may be; 2 (by ``ConfigError``) where it cannot be told."""
    options = cost_options(arguments)
    path, separator, name = options.function.rpartition("::")
    if not separator or not path or not name:
        raise ConfigError("", messages.no_file_and_function(options.function))
    given = _sizes(options.sizes)
    most = _bytes(options.max_replicated)
    against = None if options.against is None else _golden(options.against)
    settings = settings_of(options)
    found = opened(path, settings)
    mesh = _mesh(found.config.mesh)
    if against is not None and given is None:
        given = against["sizes"]
    cost = cost_of(found, name, mesh, given or {})
    _show(cost, options.format)
    status = 0
    if most is not None:
        status = max(status, _replicated(cost, most))
    if against is not None:
        status = max(status, _difference(against, cost, options.against))
    if options.write is not None:
        _write(options.write, cost)
    return status


def _sizes(text: str | None) -> dict[str, int] | None:
    """``B=32,M=4096``."""
    if text is None:
        return None
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not number.isdecimal() or int(number) < 1:
            raise ConfigError("--sizes", messages.bad_sizes(text))
        sizes[name] = int(number)
    return sizes


def _bytes(text: str | None) -> int | None:
    """``64KiB``, ``1.5GB`` or ``4096``."""
    if text is None:
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError("--max-replicated", messages.bad_bytes(text))
    number, prefix = match.groups()
    if prefix is None:
        return int(float(number))
    base = 1024 if len(prefix) == 2 else 1000
    power = _PREFIXES.index(prefix[0].lower()) + 1
    return int(float(number) * base**power)


def _mesh(mesh: dict[str, int | None]) -> dict[str, int]:
    """The mesh of the options or the settings, each axis with a size."""
    if not mesh:
        raise ConfigError("", messages.no_mesh())
    sizes = {}
    for axis, size in mesh.items():
        if size is None:
            raise ConfigError("--mesh", messages.axis_without_size(axis))
        sizes[axis] = size
    return sizes


def _show(cost: Cost, format: str) -> None:
    if format == "json":
        sys.stdout.write(_json(cost))
    else:
        sys.stdout.write(f"{cost}\n")


def _json(cost: Cost) -> str:
    return json.dumps(cost.to_dict(), indent=2) + "\n"


def _replicated(cost: Cost, most: int) -> int:
    """Name what is held whole on each device and is too large."""
    rows = [row for row in cost.whole if row.held is not None]
    _require_numbers(cost, "--max-replicated", [row.held for row in rows])
    found = []
    for row in rows:
        number = cost.bytes_of(row.held)
        if number is not None and number > most:
            found.append((number, row))
    found.sort(key=lambda pair: -pair[0])
    for number, row in found:
        say([messages.too_large_and_whole(row.name, row.array, number, most)])
    return 1 if found else 0


def _difference(before: dict[str, Any], cost: Cost, path: str) -> int:
    """Print what has changed since a file was written; 1 if more is held or sent."""
    if before["mesh"] != dict(cost.mesh):
        raise ConfigError(path, messages.of_other_mesh(before["mesh"], cost.mesh))
    after = cost.to_dict()
    totals = [one[what]["bytes"] for one in (before, after) for what in _TOTALS]
    same = all(before[what] == after[what] for what in _TOTALS)
    if None in totals and not same:
        _require_numbers(cost, "--against", [*cost.held, *cost.sent])
        raise ConfigError(path, messages.written_without_sizes())
    lines = compared(before, after)
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    grown = not same and any(
        after[what]["bytes"] > before[what]["bytes"] for what in _TOTALS
    )
    return 1 if grown else 0


_TOTALS = ("held", "moved")


def _require_numbers(
    cost: Cost, option: str, formulas: Sequence[Formula | None]
) -> None:
    missing = cost.missing([one for one in formulas if one is not None])
    if missing:
        raise ConfigError(option, messages.needs_sizes(missing))


def _golden(path: str) -> dict[str, Any]:
    """What ``--write`` wrote."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError("--against", messages.cannot_be_read(path, reason)) from None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("version") != 1:
        raise ConfigError("--against", messages.no_cost_file(path))
    return found


def _write(path: str, cost: Cost) -> None:
    try:
        Path(path).write_text(_json(cost), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError("--write", messages.not_written(path, reason)) from None
