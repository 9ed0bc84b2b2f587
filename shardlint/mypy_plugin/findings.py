"""What the linter finds in the files that mypy checks, as errors of mypy.

The linter looks at whole programs, mypy at one file after another. So all files beside one are checked when the first
of them is read, and each reports its own where it begins: a statement is put there that calls a hook.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

from mypy import errorcodes
from mypy.errorcodes import ErrorCode
from mypy.nodes import Context, MypyFile, TempNode
from mypy.options import Options
from mypy.plugin import FunctionContext
from mypy.types import AnyType, Type, TypeOfAny

from shardlint.array_places import Arrays, Range, read
from shardlint.config import Config, ConfigError
from shardlint.discovery import Discovery
from shardlint.mypy_plugin.codes import (
    AXES,
    INTERNAL,
    SHAPE,
    SYNTAX,
    CanFail,
    path_of,
)
from shardlint.mypy_plugin.columns import Places, place_of, places
from shardlint.mypy_plugin.last_run import Looked, looked_at
from shardlint.mypy_plugin.settings import Settings
from shardlint.rules import RuleError, rule
from shardlint.run import MAX_FILES, Report, check
from shardtypes.lang.diagnostics import Diagnostic, Place, Related

_OF_RULES = {
    "ST101": SYNTAX,
    "ST201": errorcodes.RETURN_VALUE,
    "ST203": errorcodes.ASSIGNMENT,
}
"""The codes that silence single rules, too,"""
_OF_FAMILIES = {"ST1": AXES, "ST2": SHAPE, "ST3": AXES}
"""and those of all other rules that begin so."""


@dataclass(frozen=True)
class Found:
    """What was found in one file, what could not be done there, and what its expressions are that give arrays, as
    ``shardlint.array_places`` writes it. ``version`` is that of the file."""

    version: tuple[int, int] | None
    diagnostics: tuple[Diagnostic, ...] = ()
    problems: tuple[str, ...] = ()
    arrays: str = ""

    @property
    def is_nothing(self) -> bool:
        return not self.diagnostics and not self.problems


class Findings:
    """The findings of files, by path. Files that lie together are checked at once, anew when one of them changes."""

    def __init__(self, settings: Settings, options: Options) -> None:
        self._settings = settings
        self._keeps = options.cache_dir != os.devnull
        self._shows_tracebacks = options.show_traceback
        self._found: dict[str, Found] = {}
        # by path as mypy has it: what was looked at so far
        self._arrays: dict[str, dict[Range, Arrays]] = {}
        self._places: dict[str, Places] = {}
        self._read: set[Path] = set()
        self._failed = False

    def of(self, path: str) -> Found:
        """What is found in a file."""
        file = os.path.abspath(path)
        found = self._found.get(file)
        version = _version(file)
        if version is None:  # code from the command line has no file
            return Found(None)
        if found is not None and found.version == version:
            return found
        if found is not None:  # what is found elsewhere may have changed with it
            self._found.clear()
        self._arrays.clear()
        self._check(file)
        return self._found[file]

    def _check(self, file: str) -> None:
        config = replace(self._settings.selection.config, jobs=1)
        files = _beside(Path(file), config)
        versions = {str(one): _version(str(one)) for one in files}
        try:
            report = check(list(versions), config, cache=self._keeps, arrays=True)
        except (ConfigError, RuleError) as error:
            text = f"shardlint: {error}"
            self._found[file] = Found(versions[file], problems=(text,))
            self._failed = True
            return
        self._read |= report.files
        self._failed = self._failed or bool(report.problems)
        if self._shows_tracebacks:
            sys.stderr.writelines(report.tracebacks)
        for one, version in versions.items():
            self._found[one] = Found(version)
        for path, found in _by_file(report).items():
            if path in versions:
                self._found[path] = replace(found, version=versions[path])

    def looked_at(self, options: Options) -> Looked | None:
        """All that the findings so far depend on; None where some could not be made."""
        if self._failed:
            return None
        config = self._settings.selection.config
        discovery = Discovery(lambda folder: config)
        project = islice(discovery.walk(config.root), MAX_FILES + 1)
        files = {str(path) for path in (*self._read, *project)}
        files |= {str(config.root / one.source) for one in config.logical_rules}
        if config.baseline is not None:
            files.add(str(config.baseline))
        folders = {str(path.parent) for path in self._read}
        folders |= {str(folder) for folder in discovery.folders}
        asked = [config.root, Path.cwd()]
        if options.config_file:
            asked.append(Path(options.config_file).absolute().parent)
            files.add(os.path.abspath(options.config_file))
        around = {str(one) for folder in asked for one in (folder, *folder.parents)}
        return looked_at(files, folders, around)

    def report(self, ctx: FunctionContext) -> Type:
        """The hook of the statement with which a file begins."""
        found = self.of(path_of(ctx.api))
        for diagnostic in found.diagnostics:
            _tell(ctx.api, diagnostic)
        for text in found.problems:
            ctx.api.fail(text, _at_line(1), code=INTERNAL)
        return ctx.default_return_type

    def learn_places(self, file: MypyFile, options: Options, added: int = 0) -> None:
        """Find out where the expressions of a file are that mypy has just parsed; it may begin with statements that
        were ``added``."""
        self._places.pop(file.path, None)
        arrays = self.of(file.path).arrays
        text = Path(file.path).read_bytes() if arrays else b""
        if not text.isascii():
            self._places[file.path] = places(file, text, options, added)

    def arrays_at(self, path: str, node: Context) -> Arrays:
        """What is known of the arrays that an expression gives; None in files in which nothing was looked for."""
        known = self._arrays.get(path)
        if known is None:
            found = self._found.get(os.path.abspath(path))
            if found is None:
                return None
            known = self._arrays[path] = read(found.arrays)
        place = place_of(node)
        if place is not None and path in self._places:
            place = self._places[path].get(place)
        return None if place is None else known.get(place)


def _tell(api: CanFail, found: Diagnostic) -> None:
    place = found.place
    at = _at(place)
    code = error_code(found.code)
    api.fail(" ".join(found.message.split()), at, code=code)
    messages = getattr(api, "msg", None)  # the checker has it
    if messages is None:
        return
    for related in found.related:
        messages.note(_note(related, place), at, code=code)


def _beside(file: Path, config: Config) -> list[Path]:
    """The files that are checked with one: those of its package, or of its folder where it is in none."""
    folder = file.parent
    top: Path | None = None
    while (folder / "__init__.py").exists():
        top = folder
        folder = folder.parent
    around = file.parent.glob("*.py") if top is None else top.rglob("*.py")
    discovery = Discovery(lambda folder: replace(config, force_exclude=True))
    files = [one for one in sorted(around) if discovery.admits(one)]
    return files if file in files else [*files, file]


def _version(path: str) -> tuple[int, int] | None:
    """What tells two states of a file apart; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _by_file(report: Report) -> dict[str, Found]:
    """What was found, what could not be done, and what expressions are, by the path of the file."""
    diagnostics: dict[str, list[Diagnostic]] = defaultdict(list)
    problems: dict[str, list[str]] = defaultdict(list)
    for one in report.diagnostics:
        diagnostics[os.path.abspath(one.place.path)].append(one)
    for problem in report.problems:
        if problem.path is not None:
            problems[os.path.abspath(problem.path)].append(problem.text)
    arrays = {os.path.abspath(path): text for path, text in report.arrays.items()}
    return {
        path: Found(
            None, tuple(diagnostics[path]), tuple(problems[path]), arrays.get(path, "")
        )
        for path in diagnostics.keys() | problems.keys() | arrays.keys()
    }


@cache
def error_code(code: str) -> ErrorCode:
    """mypy's code of a rule, which one of ours for a family of rules silences as well."""
    found = rule(code)
    name = code if found is None else found.name
    family = _OF_RULES.get(code) or _OF_FAMILIES.get(code[:3])
    return ErrorCode(f"shardlint-{code}", name, "Shardtypes", sub_code_of=family)


def _at(place: Place) -> TempNode:
    node = TempNode(AnyType(TypeOfAny.special_form))
    node.set_line(place.line, place.column - 1, place.end_line, place.end_column - 1)
    return node


def _at_line(line: int) -> TempNode:
    return _at(Place("", line, 1, line, 1))


def _note(related: Related, place: Place) -> str:
    """Notes stand at the finding, for mypy sorts messages by their lines."""
    there = related.place
    if there.path != place.path:
        return f"{there.path}:{there.line}: {related.message}"
    if there.line != place.line:
        return f"line {there.line}: {related.message}"
    return related.message
