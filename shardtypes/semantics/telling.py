"""What is told to whoever listens, of what is computed meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Telling(Generic[P]):
    """Called with what there is to tell, it calls the listener, if there is one."""

    def __init__(self, name: str) -> None:
        self._listener: ContextVar[Callable[P, object] | None] = ContextVar(
            name, default=None
        )

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return self._listener.get() is not None

    @contextmanager
    def to(self, listener: Callable[P, object]) -> Iterator[None]:
        """In the block, this listens."""
        token = self._listener.set(listener)
        try:
            yield
        finally:
            self._listener.reset(token)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        listener = self._listener.get()
        if listener is not None:
            listener(*args, **kwargs)
