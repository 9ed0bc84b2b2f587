"""A finding, replayed: the program is run with what its witness says, and must fail where the finding is."""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
from einops import EinopsError
from typeguard import TypeCheckError

from shardlint.engine import run
from shardlint.events import Event
from shardlint.lower import lower
from shardlint.positions import Positions
from shardlint.project import Project
from tests.engine.given import Given, distinct, literals

REFUSALS = (
    TypeError,
    ValueError,
    IndexError,
    AssertionError,
    EinopsError,
    TypeCheckError,
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: How many uses away from a mistake the function may be that is called to see it.
_FAR = 3


@dataclass(frozen=True)
class Source:
    """The text of a case."""

    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text())

    @cached_property
    def literals(self) -> tuple[Any, ...]:
        return literals(self.tree)

    def _around(self, line: int) -> list[ast.FunctionDef | ast.ClassDef]:
        """The definitions around a line, the outermost first."""
        found = [n for n in ast.walk(self.tree) if isinstance(n, _DEFINITIONS)]
        return [n for n in found if _first(n) <= line <= (n.end_lineno or 0)]

    def method(self, line: int) -> str:
        """The method around a line."""
        around = self._around(line)
        return (
            around[1].name
            if len(around) > 1 and isinstance(around[0], ast.ClassDef)
            else ""
        )

    def is_head(self, line: int, called: str) -> bool:
        """Whether a line runs when something is defined: a decorator, or the signature of what is ``called``."""
        around = self._around(line)
        return any(
            line < node.lineno or (line == node.lineno and around[0].name == called)
            for node in around
        )

    def leading(self, line: int) -> list[str]:
        """The function or class around a line, then what uses it, then what uses that."""
        found = [node.name for node in self._around(line)[:1]]
        for _ in range(_FAR):
            for node in self.tree.body:
                used = {
                    inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)
                }
                if used & {*found}:
                    # A bare statement, as of a derivative rule, ties together whatever it mentions.
                    found += [
                        n for n in (_names(node) or sorted(used)) if n not in found
                    ]
        return found


def _first(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _names(node: ast.stmt) -> list[str]:
    return [node.name] if isinstance(node, _DEFINITIONS) else []


@dataclass(frozen=True)
class Replay:
    """A finding in a file, at these lines."""

    source: Source
    event: Event
    lines: range

    @property
    def name(self) -> str:
        return f"{self.source.path.stem}-{self.lines.start}-{self.event.code}-{self.event.at}"

    def fails(self, namespace: Mapping[str, Any]) -> bool:
        """Whether some way to run what leads there comes to the finding's lines, and not past them alive."""
        return any(failed and reached for reached, failed in self.runs(namespace))

    def runs(self, namespace: Mapping[str, Any]) -> Iterator[tuple[bool, bool]]:
        """Of each way to run what leads there: whether it came to the finding's lines, and whether it failed."""
        leading = self.source.leading(self.lines.start)
        # What a witness does not name may be anything; a condition around the finding may want a 1.
        for others, hidden in itertools.product((distinct, lambda name: 1), (0, 1)):
            given = Given(
                self.event.witness, others, hidden, self.source.literals, namespace
            )
            for name in leading:
                for call in _calls(
                    namespace.get(name),
                    given,
                    self.source.method(self.lines.start),
                    len(leading) > 1,
                ):
                    with reached(self.source.path, self.lines) as lines:
                        failed = _refused(call)
                    yield (
                        bool(lines) or self.source.is_head(self.lines.start, name),
                        failed,
                    )


def _refused(call: Callable[[], Any]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # typeguard warns of what ST106 reports
        try:
            jax.eval_shape(lambda: jax.tree.leaves(call()) and None)
        except REFUSALS:
            return True
    return False


def _calls(
    entry: Any, given: Given, method: str, used: bool
) -> Iterator[Callable[[], Any]]:
    """Ways to run a function of a case, or a method of a class. What takes anything is ``used`` by what knows more."""
    if isinstance(entry, type):
        if method in vars(entry) and not (
            used and given.is_open(_plain(vars(entry)[method]))
        ):
            yield from _method_calls(entry, method, given)
    elif callable(entry) and not (used and given.is_open(entry)):
        yield from (
            _returned(entry, arguments, given) for arguments in given.calls(entry)
        )


def _plain(method: Any) -> Callable[..., Any]:
    function: Callable[..., Any] = (
        method.fget if isinstance(method, property) else inspect.unwrap(method)
    )
    return function


def _method_calls(cls: type, name: str, given: Given) -> Iterator[Callable[[], Any]]:
    method = vars(cls)[name]
    if isinstance(method, staticmethod):
        yield from (
            (lambda a=arguments: getattr(cls, name)(**a))
            for arguments in given.calls(_plain(method))
        )
        return
    for one in given.instances(cls):
        if isinstance(method, property):
            yield lambda one=one: getattr(one, name)
            continue
        for arguments in given.calls(_plain(method), cls):
            if isinstance(one, nn.Module):
                yield lambda one=one, a=arguments: one.init_with_output(
                    jax.random.key(0), method=name, **a
                )
            else:
                yield lambda one=one, a=arguments: getattr(one, name)(**a)


def _returned(
    function: Callable[..., Any], arguments: dict[str, Any], given: Given
) -> Callable[[], Any]:
    """A call of the function, and of the function or the coroutine that it returns."""

    def call() -> Any:
        result = function(**arguments)
        if inspect.iscoroutine(result):
            return asyncio.run(result)
        if isinstance(result, types.FunctionType):
            return [result(**inner) for inner in given.calls(result)]
        return result

    return call


@contextmanager
def reached(path: Path, lines: range) -> Iterator[set[int]]:
    """Those of the lines that run meanwhile."""
    found: set[int] = set()
    before = sys.gettrace()

    def local(frame: types.FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_lineno in lines:
            found.add(frame.f_lineno)
        return local

    sys.settrace(
        lambda frame, _, __: local if frame.f_code.co_filename == str(path) else None
    )
    try:
        yield found
    finally:
        sys.settrace(before)


def replays(path: Path, modules: Mapping[str, Path]) -> list[Replay]:
    """Every finding of one of a project's files."""
    lowered = {
        n: lower(p.read_bytes(), n, str(p), p.name == "__init__.py").module
        for n, p in modules.items()
    }
    name = next(n for n, p in modules.items() if p == path)
    positions = Positions(path.read_bytes(), str(path))
    source = Source(path)
    found = []
    for event in run(Project(lowered), lowered[name]).found():
        place = positions.place(event.at)
        found.append(Replay(source, event, range(place.line, place.end_line + 1)))
    return found
