"""Turning the checks off.

``SHARDTYPES=0`` in the environment, read when a function is decorated, leaves functions as they are: no cost at all.
``enabled(False)`` turns checks off while a program runs.
"""

from __future__ import annotations

import os
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Literal

_OFF = {"0", "off", "false", "no"}

# Whether annotations without arrays are left alone, which are typeguard's to check otherwise. Read once for each
# function, at its first call.
arrays_only = False

# Whether annotations of jaxtyping are checked, too. Read once for each function, at its first call.
jaxtyping_too = False

# After how many calls of a function its checker is generated: that takes as long as some hundred calls of the general
# checks, which few of the functions that are only traced get to.
calls_before_generated = 10

# Whether checks run where no block around says something.
on_by_default = True
_local: ContextVar[bool | None] = ContextVar("shardtypes_enabled", default=None)
# What a block around says; None where none does.
said_here = _local.get


def switched_off() -> bool:
    """Whether the environment turns all checks off (``SHARDTYPES=0``)."""
    return os.environ.get("SHARDTYPES", "1").strip().lower() in _OFF


def checks_on() -> bool:
    """Whether checks run at this point."""
    local = _local.get()
    return (on_by_default if local is None else local) or not left_out()


def left_out() -> Literal[True]:
    """Note that checks are left out here, if JAX is tracing: it may use the trace later. True."""
    # needs JAX, which a program that uses us has loaded by now
    from shardtypes.provenance import note_unchecked

    note_unchecked()
    return True


class enabled:
    """``enabled(False)`` turns checks off for the program; ``with enabled(False): ...`` for the block only."""

    def __init__(self, on: bool = True) -> None:
        global on_by_default
        if not isinstance(on, bool):
            raise TypeError(f"enabled() takes True or False, got {on!r}")
        self._on = on
        self._before = on_by_default
        self._token: Token[bool | None] | None = None
        on_by_default = on

    def __enter__(self) -> enabled:
        global on_by_default
        on_by_default = self._before
        self._token = _local.set(self._on)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._token is not None:
            _local.reset(self._token)
            self._token = None
