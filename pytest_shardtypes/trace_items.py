"""Annotated functions as test items: each is traced for all sizes, with no data and no devices."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# how pytest itself reads norecursedirs, and no public way to collect one node and report it
from _pytest.pathlib import fnmatch_ex
from _pytest.runner import collect_one_node

from pytest_shardtypes import candidates, examples, verdicts
from pytest_shardtypes.annotated import takes_arrays
from pytest_shardtypes.candidates import Candidate
from pytest_shardtypes.examples import Example
from pytest_shardtypes.recorded_calls import CALLS
from pytest_shardtypes.verdict_reports import CouldNotTell, VerdictReports
from shardtypes.fields import is_pytree_dataclass

MARK = "shardtypes_trace"


More = Callable[["AnnotatedModule", "Found"], Iterable[pytest.Item]]


class Wrong(Exception):
    """Tracing found an error; the message says which, and for which sizes."""


@dataclass(frozen=True)
class Found:
    """A function that can be traced: its name in its module, and with it."""

    name: str
    function: Callable[..., Any]
    qualified: str


def nothing_more(module: AnnotatedModule, found: Found) -> Iterable[pytest.Item]:
    """No further items."""
    return ()


class AnnotatedModule(pytest.File):
    """A module of a chosen package, as the collector of its annotated functions."""

    module: str
    folder: Path
    # Further items of a function.
    more: Callable[[Found], Iterable[pytest.Item]]

    @classmethod
    def of(
        cls, parent: pytest.Collector, candidate: Candidate, more: More
    ) -> AnnotatedModule:
        """The collector of a candidate file."""
        node: AnnotatedModule = cls.from_parent(parent, path=candidate.path)
        node.module, node.folder = candidate.module, candidate.folder
        node.more = functools.partial(more, node)
        return node

    def collect(self) -> Iterator[pytest.Item]:
        """Import the module and yield an item for each annotated function, in the order of their names."""
        try:
            module = _imported(self.module, self.folder)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module may do anything; its item says what it did
            item = Trace.of(
                self, Found("import", importlib.import_module, self.module), Example()
            )
            item.broken = (
                f"{self.module} does not import: {type(error).__name__}: {error}"
            )
            yield item
            return
        for found in functions_of(module):
            ways = examples.examples_of(found.qualified) or (Example(),)
            for number, example in enumerate(ways, 1):
                name = found.name if len(ways) == 1 else f"{found.name}[{number}]"
                yield Trace.of(
                    self, Found(name, found.function, found.qualified), example
                )
            yield from self.more(found)


def _imported(name: str, folder: Path) -> types.ModuleType:
    """The module. What is not installed, and nothing has put on the path yet, is found where it lies, as pytest finds
    the folders of tests when it comes to them."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
    sys.path.append(str(folder))
    return importlib.import_module(name)


class Trace(pytest.Item):
    """One annotated function, traced with one example."""

    found: Found
    example: Example
    broken: str | None = None

    @classmethod
    def of(cls, parent: AnnotatedModule, found: Found, example: Example) -> Trace:
        """The item of one function."""
        item: Trace = cls.from_parent(parent, name=found.name)
        item.found, item.example = found, example
        item.add_marker(MARK)
        for mark in example.marks:
            item.add_marker(mark)
        return item

    def runtest(self) -> None:
        """Raise ``Wrong`` or ``CouldNotTell``, or return."""
        if self.broken is not None:
            raise CouldNotTell(self.broken)
        outcome = verdicts.judge(
            self.found.qualified,
            self.found.function,
            self.example,
            self.config.stash[CALLS],
        )
        if outcome.ok is None:
            raise CouldNotTell(outcome.text)
        if outcome.ok is False:
            raise Wrong(outcome.text) from outcome.error

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> Any:
        """What is wrong and where, in the user's code only."""
        if isinstance(excinfo.value, Wrong):
            return "\n".join(
                [
                    f"E   {excinfo.value}",
                    *_frames(excinfo.value.__cause__, self.path, self.config.rootpath),
                ]
            )
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the function is defined."""
        code = getattr(inspect.unwrap(self.found.function), "__code__", None)
        return (
            self.path,
            None if code is None else code.co_firstlineno - 1,
            f"trace of {self.found.qualified}",
        )


def _collected(module: AnnotatedModule) -> list[pytest.Item]:
    """The items of a module, reported as those are that pytest collects: it counts them."""
    report = collect_one_node(module)
    module.ihook.pytest_collectreport(report=report)
    return [item for item in report.result or [] if isinstance(item, pytest.Item)]


def _is_ignored(candidate: Candidate, config: pytest.Config) -> bool:
    """Whether pytest would leave the file out, or a folder in which it lies, as with ``--ignore=src/old``.

    What ``norecursedirs`` says is about where tests are looked for: a package may be named ``build``.
    """
    root = config.rootpath
    own = candidate.folder in (root, root / "src")
    top = root if own else candidate.folder
    unsearched = config.getini("norecursedirs")
    folders = [
        folder
        for folder in candidate.path.parents
        if top in folder.parents
        and not any(fnmatch_ex(pattern, folder) for pattern in unsearched)
    ]
    return any(
        config.hook.pytest_ignore_collect(
            collection_path=place, path=None, config=config
        )
        for place in (candidate.path, *folders)
    )


def functions_of(module: types.ModuleType) -> list[Found]:
    """The functions and methods that are defined in a module and take annotated arrays, or have examples.

    A method of a class that is no pytree dataclass is among them once it has an example: a way to make the object.
    """
    found = []
    for name, value in sorted(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module.__name__:
            members = [
                (f"{name}.{method}", f)
                for method, f in _methods(value, f"{module.__name__}.{name}")
            ]
        elif (
            callable(value)
            and not isinstance(value, type)
            and getattr(value, "__name__", None) == name
        ):
            members = [(name, value)]
        else:
            continue
        for member, function in members:
            qualified = f"{module.__name__}.{member}"
            own = getattr(function, "__module__", None) == module.__name__
            if (own and takes_arrays(function)) or examples.examples_of(qualified):
                found.append(Found(member, function, qualified))
    return found


def _methods(cls: type, qualified: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in sorted(vars(cls).items()):
        if isinstance(member, staticmethod):
            yield name, member.__func__
        elif isinstance(member, classmethod):
            yield name, getattr(cls, name)
        elif isinstance(member, types.FunctionType) and (
            not name.startswith("__") or name == "__call__"
        ):
            inner = inspect.unwrap(member)
            if is_pytree_dataclass(cls) and isinstance(inner, types.FunctionType):
                yield name, _with_self(inner, cls)
            elif examples.examples_of(f"{qualified}.{name}"):
                yield name, member


def _with_self(method: types.FunctionType, cls: type) -> Callable[..., Any]:
    """The method with its first parameter annotated by the class, whose fields say which arrays it holds."""
    code = method.__code__
    copy = types.FunctionType(
        code,
        method.__globals__,
        method.__name__,
        method.__defaults__,
        method.__closure__,
    )
    copy.__kwdefaults__ = method.__kwdefaults__
    copy.__module__, copy.__qualname__ = method.__module__, method.__qualname__
    first = code.co_varnames[0] if code.co_argcount else "self"
    copy.__annotations__ = {first: cls, **method.__annotations__}
    return copy


def _frames(error: BaseException | None, path: Path, root: Path) -> Iterator[str]:
    """The lines of the module that led to the error."""
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    tb = error.__traceback__ if error is not None else None
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == str(path):
            yield f"{shown}:{tb.tb_lineno}: in {tb.tb_frame.f_code.co_name}"
        tb = tb.tb_next


class Tracing(VerdictReports):
    """The hooks that make items of the candidates and report what could not be told."""

    def __init__(
        self,
        packages: tuple[str, ...],
        root: Path,
        everything: bool,
        more: More = nothing_more,
    ) -> None:
        super().__init__(Trace, "shardtypes_trace")
        self.everything = everything
        self._more = more
        self.useless_examples: tuple[str, ...] = ()
        self._packages = packages
        self._root = root
        self._candidates: Mapping[Path, Candidate] | None = None

    def candidates(self) -> Mapping[Path, Candidate]:
        """The files to import, found once."""
        if self._candidates is None:
            self._candidates = {
                c.path: c for c in candidates.candidates(self._packages, self._root)
            }
        return self._candidates

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> AnnotatedModule | None:
        """Collect a candidate that was named on the command line, or lies in a folder that was."""
        candidate = (
            self.candidates().get(file_path) if file_path.suffix == ".py" else None
        )
        return (
            None
            if candidate is None
            else AnnotatedModule.of(parent, candidate, self._more)
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        """Add all candidates where the command line names no files, before anything is selected or deselected."""
        have = {item.path for item in items if isinstance(item, Trace)}
        if self.everything:
            for path, candidate in self.candidates().items():
                if path not in have and not _is_ignored(candidate, session.config):
                    items.extend(
                        _collected(AnnotatedModule.of(session, candidate, self._more))
                    )
            met = {item.found.qualified for item in items if isinstance(item, Trace)}
            self.useless_examples = tuple(sorted(set(examples.registered()) - met))
        seen: set[str] = set()
        kept = []
        for item in items:
            if isinstance(item, Trace) and item.nodeid in seen:
                continue
            seen.add(item.nodeid)
            kept.append(item)
        # Last, for what the tests call is an example to some of them.
        items[:] = sorted(kept, key=lambda item: isinstance(item, Trace))
