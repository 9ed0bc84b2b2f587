"""Which size each name stands for, and for how long.

Each call of a checked function has a table of its own. A function that is defined inside of one sees besides what that
call bound: its own parameters come first. Calls share a table inside a ``Scope`` only, which the program opens itself.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from asyncio import current_task
from asyncio.events import _get_running_loop  # the public one raises where none runs
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import get_ident
from types import CodeType, TracebackType
from typing import Any, ParamSpec, TypeVar

from shardtypes.errors import ShardTypeError
from shardtypes.lang import Size
from shardtypes.lang.messages import stands_for

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Site:
    """Where a checked value was met: the function, and its role there (``"parameter 'x'"``, ``'the result'``)."""

    function: str
    role: str
    module: str = ""

    def __str__(self) -> str:
        return f"{self.function}: {self.role}" if self.function else self.role

    @property
    def qualified(self) -> str:
        """The function with its module, as reports of a whole project name it."""
        return (
            f"{self.module}.{self.function}"
            if self.module and self.function
            else self.function
        )


@dataclass(frozen=True, slots=True)
class Binding:
    """Where a name got its size."""

    site: Site
    dim: int | None

    def __str__(self) -> str:
        return (
            f"{self.site}" if self.dim is None else f"{self.site}, dimension {self.dim}"
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A name (``*name`` of a variadic dimension), its size (sizes), and where it got it."""

    name: str
    size: Any
    place: Binding

    def __str__(self) -> str:
        return f"{stands_for(self.name, self.size)}, bound by {self.place}"


@dataclass(frozen=True, slots=True)
class Deferred:
    """A size expression met before the names in it: compared as soon as they are known."""

    size: Size
    actual: Any
    binding: Binding
    declared: str
    broadcast: bool
    # of a value whose names are its own: counted where it differs, and never an error
    own: bool = False


class Table:
    """Bindings of one call or one ``Scope``. Sizes are ints, or the symbolic dimensions of an abstract trace."""

    __slots__ = (
        "closed",
        "code",
        "deferred",
        "owner",
        "parent",
        "places",
        "shared",
        "sizes",
        "statements",
        "variadics",
    )

    def __init__(self, code: CodeType | None = None) -> None:
        self.sizes: dict[str, Any] = {}
        # (site, dim); made into a Binding only when a message needs it
        self.places: dict[str, tuple[Site, int | None]] = {}
        self.variadics: dict[str, tuple[Any, ...]] = {}
        self.deferred: list[Deferred] = []
        self.parent: Table | None = None
        self.closed = False
        # That of the function whose call this is the table of; None for a ``Scope``.
        self.code = code
        # Whether calls inside use this table: that of a ``Scope``, on the thread or task that opened it.
        self.shared = False
        self.owner: Any = None
        # The names that each statement bound when it ran last.
        self.statements: dict[Hashable, list[str]] | None = None

    def copy(self) -> Table:
        """A table with the same sizes, to go its own way."""
        made = Table(self.code)
        made.sizes, made.places = dict(self.sizes), dict(self.places)
        made.variadics, made.deferred = dict(self.variadics), list(self.deferred)
        made.shared = self.shared
        return made

    def inherit(self, outer: Table) -> None:
        """Add what the call bound in which this function was defined; the function's own names come first."""
        self.sizes = {**outer.sizes, **self.sizes}
        self.places = {**outer.places, **self.places}
        self.variadics = {**outer.variadics, **self.variadics}

    def bind(self, name: str, size: Any, site: Site, dim: int | None) -> None:
        """Record the size of a name met for the first time."""
        self.sizes[name] = size
        self.places[name] = (site, dim)

    def place(self, name: str) -> Binding | None:
        """Where a name got its size."""
        found = self.places.get(name)
        return Binding(*found) if found is not None else None

    def bound(self, names: Iterable[str]) -> tuple[Bound, ...]:
        """What is known of these names."""
        known = [name for name in names if name in self.places]
        sizes = [
            self.variadics[name[1:]] if name.startswith("*") else self.sizes[name]
            for name in known
        ]
        return tuple(
            Bound(n, size, Binding(*self.places[n]))
            for n, size in zip(known, sizes, strict=True)
        )

    def forget_from(self, count: int) -> None:
        """Forget all sizes of names but the first ``count``."""
        while len(self.sizes) > count:
            name, _ = self.sizes.popitem()
            self.places.pop(name, None)

    def mark(self) -> tuple[int, int, int, int]:
        """A point to roll back to."""
        return (
            len(self.sizes),
            len(self.variadics),
            len(self.places),
            len(self.deferred),
        )

    def fail(
        self, mark: tuple[int, int, int, int], error: BaseException | None
    ) -> None:
        """End a call that began at ``mark`` with an error: what it bound is forgotten."""
        if isinstance(error, ShardTypeError):
            error.left_call([*itertools.islice(self.places, mark[2])])
        self.rollback(mark)

    def rollback(self, mark: tuple[int, int, int, int]) -> None:
        """Forget everything bound since ``mark``."""
        for table, size in zip(
            (self.sizes, self.variadics, self.places), mark[:3], strict=True
        ):
            while len(table) > size:
                table.popitem()
        del self.deferred[mark[3] :]

    @contextmanager
    def statement(self, key: Hashable) -> Iterator[None]:
        """Check what a statement assigns: in the next round of a loop its names may stand for other sizes."""
        if self.shared:
            yield
            return
        if self.statements is None:
            self.statements = {}
        for name in self.statements.pop(key, ()):
            self.places.pop(name, None)
            self.sizes.pop(name, None)
            self.variadics.pop(name.removeprefix("*"), None)
        before = len(self.places)
        yield
        self.statements[key] = [*itertools.islice(self.places, before, None)]


_current: ContextVar[Table | None] = ContextVar("shardtypes_scope", default=None)
# The innermost table in force, whoever opened it.
innermost_table = _current.get


def _runner() -> Any:
    """The asyncio task that runs here, else the thread."""
    loop = _get_running_loop()
    task = None if loop is None else current_task(loop)
    return get_ident() if task is None else task


def scope_in_force() -> Table | None:
    """The table of the innermost open ``Scope`` of this thread or task, which calls share; else None.

    A task inherits what was in force where it was made, and runs beside it: that scope is not its own.
    """
    table = _current.get()
    return (
        table
        if table is not None and table.shared and table.owner == _runner()
        else None
    )


def enter_table(table: Table) -> Table:
    """Put a table in force; undo it with ``leave_table``."""
    table.parent = _current.get()
    table.closed = False
    if table.shared:
        table.owner = _runner()
    _current.set(table)
    return table


def leave_table(table: Table) -> None:
    """Close a table and put the innermost one that is still open back in force.

    Tables of interleaved generators close in any order, and in any task.
    """
    table.closed = True
    current = _current.get()
    if current is table:
        current, table.parent = table.parent, None
    while current is not None and current.closed:
        current = current.parent
    _current.set(current)


def open_tables() -> Iterator[Table]:
    """The tables in force, innermost first, up to the innermost ``Scope``."""
    table = _current.get()
    while table is not None and not table.shared:
        yield table
        table = table.parent
    if table is not None and table.owner == _runner():
        yield table


class Scope:
    """``with Scope(): ...``: all checks in the block share one table, those in the calls that it makes too.

    The block begins with a fresh table, so that its names may mean other sizes than outside. Re-entrant; safe with
    threads and asyncio.
    """

    def __init__(self) -> None:
        self._tables: list[Table] = []

    def __enter__(self) -> Scope:
        self._tables.append(enter_table(shared_table()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        leave_table(self._tables.pop())

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes bound so far in the block."""
        return dict(self._tables[-1].sizes) if self._tables else {}


def shared_table(code: CodeType | None = None) -> Table:
    """A table that calls share while it is in force."""
    table = Table(code)
    table.shared = True
    return table


def scope(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: each call opens a ``Scope``. Name, doc and signature of the function are kept.

    Works above and below ``typechecked``. Generators and coroutines hold their table while they run only.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        from shardtypes.generators import scoped

        return scoped(function)  # type: ignore[no-any-return]  # a generator function in, a generator function out
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
            with Scope():
                return await function(*args, **kwargs)

        run_coroutine.__shardtypes_scope__ = True  # type: ignore[attr-defined]  # as below
        return run_coroutine  # type: ignore[return-value]  # a coroutine function in, a coroutine function out

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        opened = enter_table(shared_table())
        try:
            return function(*args, **kwargs)
        finally:
            leave_table(opened)

    run.__shardtypes_scope__ = True  # type: ignore[attr-defined]  # tells `typechecked` above it to check inside
    return run
