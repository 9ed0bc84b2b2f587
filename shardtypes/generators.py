"""Checked generators: what they yield, are sent and return, with a table of sizes that is in force while they run."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import typing
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shardtypes.meshes import current_view
from shardtypes.scopes import Table, enter_table, leave_table, shared_table
from shardtypes.sites import Site

_ORIGINS = (
    collections.abc.Generator,
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.AsyncGenerator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
)


def parts_of(annotation: Any) -> tuple[Any, Any, Any] | None:
    """What ``Generator[Y, S, R]``, ``Iterator[Y]`` and their like declare of yields, sends and the result."""
    if typing.get_origin(annotation) not in _ORIGINS:
        return None
    args = typing.get_args(annotation)
    given = (*args[:1], *(args[1:2] or (Any,)), *(args[2:3] or (Any,)))
    return given if len(given) == 3 else None


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of a generator's values, None where anything is allowed."""

    yielded: Any
    sent: Any
    returned: Any
    function: str
    module: str

    def check(self, check: Any, value: Any, role: str, table: Table) -> None:
        """Run one of them. Names that only this value has are forgotten: the next may be of another size."""
        __tracebackhide__ = True
        if check is not None:
            mark = table.mark()
            check(value, table, current_view(), Site(self.function, role, self.module))
            table.rollback(mark)


@contextmanager
def _held(table: Table) -> Iterator[None]:
    opened = enter_table(table)
    try:
        yield
    finally:
        leave_table(opened)


def run(
    inner: Generator[Any, Any, Any], checks: Checks, sizes: Table
) -> Generator[Any, Any, Any]:
    """The generator with its checks; ``sizes`` is what its arguments bound."""
    __tracebackhide__ = True
    step: Callable[[], Any] = lambda: next(inner)  # noqa: E731 - replaced at each turn
    while True:
        with _held(sizes):
            try:
                value = step()
            except StopIteration as stop:
                checks.check(checks.returned, stop.value, "the result", sizes)
                return stop.value
            checks.check(checks.yielded, value, "the yielded value", sizes)
        try:
            sent = yield value
        except GeneratorExit:
            with _held(sizes):
                inner.close()
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the caller throws in is the generator's to handle
            step = _thrown(inner.throw, error)
        else:
            if sent is not None:
                checks.check(checks.sent, sent, "the value sent", sizes)
            step = _sent(inner.send, sent)


def _thrown(
    throw: Callable[[BaseException], Any], error: BaseException
) -> Callable[[], Any]:
    return lambda: throw(error)


def _sent(send: Callable[[Any], Any], value: Any) -> Callable[[], Any]:
    return lambda: send(value)


async def run_async(
    inner: AsyncGenerator[Any, Any], checks: Checks, sizes: Table
) -> AsyncGenerator[Any, Any]:
    """As ``run``, for an asynchronous generator."""
    __tracebackhide__ = True
    step: Callable[[], Any] = lambda: inner.asend(None)  # noqa: E731 - replaced at each turn
    while True:
        with _held(sizes):
            try:
                value = await step()
            except StopAsyncIteration:
                return
            checks.check(checks.yielded, value, "the yielded value", sizes)
        try:
            sent = yield value
        except GeneratorExit:
            with _held(sizes):
                await inner.aclose()
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            step = _thrown(inner.athrow, error)
        else:
            if sent is not None:
                checks.check(checks.sent, sent, "the value sent", sizes)
            step = _sent(inner.asend, sent)


def scoped(function: Any) -> Any:
    """The generator function with a fresh table for each call."""
    start = run_async if inspect.isasyncgenfunction(function) else run

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        return start(
            function(*args, **kwargs), Checks(None, None, None, "", ""), shared_table()
        )

    made.__shardtypes_scope__ = True  # type: ignore[attr-defined]  # tells `typechecked` above it to check inside
    return made
