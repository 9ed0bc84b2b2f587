"""Answers that may be open: True, False, or None where it is not known."""

from __future__ import annotations

from collections.abc import Iterable


def all_hold(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether all are True: not if one is False, whatever is not known of the others."""
    found = set(verdicts)
    if False in found:
        return False
    return None if None in found else True


def any_holds(verdicts: Iterable[bool | None]) -> bool | None:
    """Whether one is True, whatever is not known of the others."""
    found = set(verdicts)
    if True in found:
        return True
    return None if None in found else False
