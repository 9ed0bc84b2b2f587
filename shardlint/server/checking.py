"""One run of the linter over unsaved texts, as the server asks for it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from shardlint import decoding, options
from shardlint.config import Config, ConfigError
from shardlint.discovery import shown
from shardlint.found import Proposal, ShownType
from shardlint.rules import RuleError
from shardlint.run import check, opened
from shardtypes.lang.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Request:
    """Check all of ``texts`` (absolute path to text) at once, each project with its own settings; ``evaluate`` says
    whether programs are run in numbers, too, and then nothing is told of types. All files of ``folders`` are checked
    beside, if there are any."""

    texts: Mapping[Path, str]
    evaluate: bool
    folders: tuple[str, ...] = ()
    counted: str = ""
    """Check nothing, but count what the functions of this file send."""


@dataclass(frozen=True, slots=True)
class Sending:
    """What a function sends between devices: the line of its head (from 1), its collectives, and the bytes that each
    device sends, as a number or a formula; '' where they are not known."""

    function: str
    line: int
    collectives: tuple[str, ...]
    bytes: str


@dataclass(slots=True)
class Answer:
    """What was found, by path to show; lines about work that could not be done."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    types: list[ShownType] = field(default_factory=list)
    uses: list[ShownType] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failed: bool = False
    sending: list[Sending] = field(default_factory=list)


def answer(request: Request) -> Answer:
    """Run the linter. Settings that cannot be used are a problem that says so, and nothing else is told."""

    if request.counted:
        return Answer(sending=list(_sending(request.counted)))

    def settings(folder: Path) -> Config:
        found = settings_of(folder)
        return found if request.evaluate else replace(found, evaluate=False)

    overlay = {path: decoding.encoded(text) for path, text in request.texts.items()}
    try:
        # Not the files around them: the first answer would have to wait until a whole project is read.
        report = check(
            request.folders,
            settings,
            overlay=overlay,
            show_types=not request.evaluate,
            around=False,
            cell_fixes=True,
        )
    except (ConfigError, RuleError) as error:
        return Answer(problems=[str(error)], failed=True)
    problems = [str(problem) for problem in report.problems]
    if request.folders:
        return Answer(report.diagnostics, problems=problems)
    paths = {shown(path) for path in overlay}
    return Answer(
        [one for one in report.diagnostics if one.place.path in paths],
        [one for one in report.types if one.place.path in paths],
        [one for one in report.uses if one.place.path in paths],
        [one for one in report.proposals if one.place.path in paths],
        problems,
    )


def _sending(path: str) -> Iterator[Sending]:
    # most documents send nothing, and never need these
    from shardlint.costing.counting import analysed, costs_of
    from shardlint.costing.formula import summed

    try:
        found = opened(path, settings_of)
        mesh = {name: size for name, size in found.config.mesh.items() if size}
        is_known = len(mesh) == len(found.config.mesh) > 0
        counted = costs_of(analysed(found, mesh if is_known else None))
    except (ConfigError, RuleError):  # which a check tells
        return
    for name, one in counted.items():
        if not one.cost.moved:
            continue
        names = tuple(dict.fromkeys(row.collective for row in one.cost.moved))
        number = one.cost.total(one.cost.sent)
        amount = summed(one.cost.sent) if number is None else f"{number:,}"
        is_all = len(one.cost.sent) == len(one.cost.moved)
        yield Sending(name, one.line, names, amount if is_all else "")


#: The options that this process was started with.
_given: list[str] = []


def start_with(arguments: Sequence[str]) -> None:
    """Options of ``shardlint server``, which go before the settings of every folder.

    Raises:
        ConfigError: an option that cannot be used.
    """
    options.settings_of(_parsed(tuple(arguments)))
    _given[:] = arguments


def given() -> tuple[str, ...]:
    """The options that this process was started with."""
    return tuple(_given)


def settings_of(folder: Path) -> Config:
    """The settings in force in a folder, read anew.

    Raises:
        ConfigError: settings that cannot be used.
    """
    return options.settings_of(_parsed(given()))(folder)


@cache
def _parsed(arguments: tuple[str, ...]) -> Namespace:
    return options.server_options(arguments)
