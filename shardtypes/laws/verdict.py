"""What a law says of a function."""

from __future__ import annotations

from dataclasses import dataclass


class LawError(AssertionError):
    """A function breaks a law; the message says at which positions and where."""


def first_line(error: Exception | None) -> str:
    """Of an error's message; empty where it has none."""
    lines = str(error).splitlines()
    return lines[0] if lines else ""


class CannotTell(Exception):
    """A law cannot be tried; the message says why and what to give."""


class SaysNothing(CannotTell):
    """With these arguments a law holds, or cannot be tried, because positions have nothing to do with each other."""


@dataclass(frozen=True)
class Verdict:
    """``ok`` is True, False, or None for *could not tell*; ``reason`` says why, and is what ``str`` gives.

    ``proved`` is whether the law was shown for all values at the sizes of the arguments, from what each operation of
    the program can depend on, with ``assumed`` taken for granted; what holds without that was tried in numbers.
    ``positions`` of a law that fails are the position of the result that is wrong and the one that it depends on (of
    ``incremental`` the first position that differs, of ``keys`` two examples), ``where`` is the line, as
    ``"model.py:31"``, at which that comes in, and None where it is not known.
    """

    ok: bool | None
    reason: str
    proved: bool = False
    positions: tuple[int, ...] = ()
    where: str | None = None
    assumed: tuple[str, ...] = ()

    def raise_if_failed(self) -> Verdict:
        """Raise ``LawError`` for a law that does not hold."""
        if self.ok is False:
            raise LawError(self.reason)
        return self

    def __str__(self) -> str:
        return self.reason

    def __bool__(self) -> bool:
        raise TypeError(
            "a verdict has three values: use .ok, which is True, False or None"
        )
