"""What the linter finds in the files that mypy checks, as errors of mypy.

The linter looks at whole programs, mypy at one file after another. So all files beside one are checked when the first
of them is read, and each reports its own where it begins: a statement is put there that calls a hook. Where mypy has
JAX to read before it comes to that, they are checked meanwhile, in a process beside it.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import Future
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
from shardlint.config import Config
from shardlint.discovery import MAX_FILES, Discovery
from shardlint.mypy_plugin.beside import LinterBeside, is_worth_it
from shardlint.mypy_plugin.checked import Checked, Found, Version, checked, version_of
from shardlint.mypy_plugin.codes import (
    AXES,
    INTERNAL,
    SHAPE,
    SYNTAX,
    CanFail,
    path_of,
)
from shardlint.mypy_plugin.columns import Places, place_of, places
from shardlint.mypy_plugin.heads import text_of
from shardlint.mypy_plugin.last_run import Looked, looked_at
from shardlint.mypy_plugin.settings import Settings
from shardlint.relevance import imported_names, relevant
from shardlint.rules import rule
from shardtypes.lang.diagnostics import Diagnostic, Place, Related

_OF_RULES = {
    "ST101": SYNTAX,
    "ST201": errorcodes.RETURN_VALUE,
    "ST203": errorcodes.ASSIGNMENT,
}
"""The codes that silence single rules, too,"""
_OF_FAMILIES = {"ST1": AXES, "ST2": SHAPE, "ST3": AXES}
"""and those of all other rules that begin so."""
_JAX = re.compile(rb"\b(?:jax|shardtypes|jaxtyping|flax|equinox)\b")
"""Reading JAX takes mypy seconds."""


@dataclass(frozen=True)
class _Asked:
    """Files that lie together, of which the linter is asked in a process beside this one; those that can have findings
    or arrays are ``relevant``."""

    versions: dict[str, Version | None]
    relevant: frozenset[str]
    answer: Future[Checked | None]


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
        self._asked: dict[str, _Asked] = {}
        # workers read the files only when they have read JAX
        self._may_ask = is_worth_it() and not options.num_workers
        self._linter: LinterBeside | None = None

    def begin(self, path: str) -> bool | None:
        """Let findings of a file that mypy has just read be made beside mypy, which reads on. Whether there may be
        findings or arrays in it; None where mypy has nothing else to do than to wait for them."""
        file = os.path.abspath(path)
        if file not in self._asked and self._may_ask and file not in self._found:
            self._ask(Path(file))
        asked = self._asked.get(file)
        return None if asked is None else file in asked.relevant

    def _ask(self, file: Path) -> None:
        versions = self._versions_beside(file)
        texts = {path: text_of(path) for path in versions if path not in self._found}
        if self._linter is None and not any(map(_JAX.search, texts.values())):
            return  # mypy has nothing to read that takes long
        self._linter = self._linter or LinterBeside()
        answer = self._linter.ask(list(versions), self._config, self._keeps)
        modules = {path: (_module(path), text) for path, text in texts.items()}
        outside = {path for path, text in texts.items() if _imports_others(text)}
        may_have = frozenset(relevant(modules, outside))
        asked = _Asked(versions, may_have, answer)
        self._asked.update(dict.fromkeys(versions, asked))

    def of(self, path: str) -> Found:
        """What is found in a file."""
        file = os.path.abspath(path)
        self._receive(file)
        found = self._found.get(file)
        version = version_of(file)
        if version is None:  # code from the command line has no file
            return Found(None)
        if found is not None and found.version == version:
            return found
        if found is not None:  # what is found elsewhere may have changed with it
            self._found.clear()
        self._arrays.clear()
        self._check(file)
        return self._found[file]

    def _receive(self, file: str) -> None:
        """Wait for what the linter was asked of a file, if it was."""
        asked = self._asked.get(file)
        if asked is None:
            return
        if self._may_ask and self._linter is not None:  # mypy has read what takes long
            self._may_ask = False
            self._linter.end()
        answer = asked.answer.result()
        for path in asked.versions:
            del self._asked[path]
        if answer is not None:
            self._take(answer, asked.versions, file)

    def _versions_beside(self, file: Path) -> dict[str, Version | None]:
        """The files that are checked with one, as they are now."""
        files = _beside(file, self._config)
        return {str(one): version_of(str(one)) for one in files}

    @property
    def _config(self) -> Config:
        return self._settings.selection.config

    def _check(self, file: str) -> None:
        config = replace(self._config, jobs=1)
        versions = self._versions_beside(Path(file))
        answer = checked(list(versions), config, self._keeps)
        self._take(answer, versions, file)

    def _take(
        self, answer: Checked, versions: dict[str, Version | None], file: str
    ) -> None:
        self._failed = self._failed or answer.failed
        if answer.refused is not None:
            self._found[file] = Found(versions[file], problems=(answer.refused,))
            return
        self._read |= answer.read
        if self._shows_tracebacks:
            sys.stderr.writelines(answer.tracebacks)
        for one, version in versions.items():
            found = answer.found.get(one, Found(None))
            self._found[one] = replace(found, version=version)

    def looked_at(self, options: Options) -> Looked | None:
        """All that the findings so far depend on; None where some could not be made."""
        if self._failed:
            return None
        config = self._config
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
        may_have_arrays = self.begin(file.path)
        if may_have_arrays is None:
            may_have_arrays = self.of(file.path).arrays != ""
        text = Path(file.path).read_bytes() if may_have_arrays else b""
        if not text.isascii():
            self._places[file.path] = places(file, text, options, added)

    def arrays_at(self, path: str, node: Context) -> Arrays:
        """What is known of the arrays that an expression gives; None in files in which nothing was looked for."""
        known = self._arrays.get(path)
        if known is None:
            file = os.path.abspath(path)
            self._receive(file)
            found = self._found.get(file)
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


def _imports_others(text: bytes) -> bool:
    """Whether a file imports something that is not in Python's own library."""
    tops = {name.partition(".")[0] for name in imported_names(text)}
    return not tops <= sys.stdlib_module_names


def _module(path: str) -> str:
    """The last part of a module's name."""
    file = Path(path)
    return file.parent.name if file.stem == "__init__" else file.stem


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
