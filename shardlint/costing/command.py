"""``shardlint cost``: what it prints, and the exit status."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from shardlint import messages
from shardlint.config import ConfigError
from shardlint.costing import kept
from shardlint.costing.counting import analysed, cost_of
from shardlint.costing.numbers import known_mesh, parsed_bytes, parsed_sizes
from shardlint.costing.report import NOT_ANNOTATED, Cost, Held
from shardlint.options import cost_options, settings_of
from shardlint.run import opened
from shardlint.writing import say


def run_cost(arguments: Sequence[str]) -> int:
    """The command. 0; 1 where more is held or sent than may be.

    Raises:
        ConfigError: options that cannot be used, or no such file, function or axis.
    """
    options = cost_options(arguments)
    path, _, name = options.function.rpartition("::")
    if not path or not name:
        text = messages.no_file_and_function(options.function)
        raise ConfigError("", text)
    sizes: dict[str, int] = {}
    before: kept.Data | None = None
    most: int | None = None
    if options.max_replicated is not None:
        most = parsed_bytes(options.max_replicated)
    if options.against is not None:
        before = kept.read(options.against)
        sizes = before["sizes"]
    if options.sizes is not None:
        sizes = parsed_sizes(options.sizes)
    settings = settings_of(options)
    found = opened(path, settings)
    mesh = known_mesh(found.config.mesh)
    cost = cost_of(analysed(found, mesh), name, sizes)
    if options.sizes is not None:
        _check_sizes(cost)
    if options.format == "json":
        text = kept.written(cost)
    else:
        text = f"{cost}\n"
    sys.stdout.write(text)
    is_too_large = most is not None and _has_large(cost, most)
    has_grown = before is not None and _has_grown(before, cost, options.against)
    if options.write is not None:
        kept.write(options.write, cost)
    return 1 if is_too_large or has_grown else 0


def _check_sizes(cost: Cost) -> None:
    """Raises ConfigError for a size that names nothing, or that the mesh does not divide."""
    for name in cost.sizes:
        if name not in cost.named:
            raise ConfigError("--sizes", messages.no_such_size(name, cost.named))
    for row in (*cost.arguments, *cost.results):
        for cut in row.cuts:
            number = cut.value(cost.sizes, cost.mesh)
            if number is not None and number.denominator != 1:
                text = messages.not_divided(row.name, row.array, cost.mesh)
                raise ConfigError("--sizes", text)


def _has_large(cost: Cost, most: int) -> bool:
    """Whether more bytes than these are held whole on each device by one array; names such arrays, largest first."""
    found: list[tuple[int, Held]] = []
    for row in (*cost.arguments, *cost.results):
        if row.array == NOT_ANNOTATED:
            text = messages.not_known_to_hold(row.name)
            raise ConfigError("--max-replicated", text)
    for row in cost.whole:
        if row.held is None:
            continue
        missing = cost.missing([row.held])
        if missing:
            text = messages.needs_sizes(missing)
            raise ConfigError("--max-replicated", text)
        number = cost.total([row.held])
        if number is not None and number > most:
            found.append((number, row))
    found.sort(key=lambda pair: -pair[0])
    for number, row in found:
        text = messages.too_large_and_whole(row.name, row.array, number, most)
        say([text])
    return bool(found)


def _has_grown(before: kept.Data, cost: Cost, path: str) -> bool:
    """Whether more is held or sent than when the file was written; says what has changed."""
    if before["mesh"] != dict(cost.mesh):
        text = messages.of_other_mesh(before["mesh"], cost.mesh)
        raise ConfigError(path, text)
    after = cost.to_dict()
    grown = False
    for what in kept.TOTALS:
        if before[what] == after[what]:
            continue
        old = before[what]["bytes"]
        new = after[what]["bytes"]
        if new is None:
            missing = cost.missing([*cost.held, *cost.sent])
            text = messages.needs_sizes(missing)
            raise ConfigError("--against", text)
        if old is None:
            text = messages.written_without_sizes()
            raise ConfigError(path, text)
        grown |= new > old
    say(kept.compared(before, after) or [messages.nothing_changed()])
    return grown
