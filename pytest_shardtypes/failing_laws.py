"""The laws of ``shardtypes.laws``, each failing the test unless it holds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from shardtypes import laws


class FailingLaws:
    """The functions of ``shardtypes.laws``. They return the verdict of a law that holds, and fail the test for any
    other, one that cannot be told too: else a test would pass that tries nothing."""

    def __getattr__(self, name: str) -> Callable[..., laws.Verdict]:
        law: Callable[..., laws.Verdict] = getattr(laws, name)

        @functools.wraps(law)
        def tried(*args: Any, **kwargs: Any) -> laws.Verdict:
            __tracebackhide__ = True
            verdict = law(*args, **kwargs)
            if verdict.ok is not True:
                known = "" if verdict.ok is False else "could not tell: "
                pytest.fail(f"{known}{verdict}", pytrace=False)
            return verdict

        return tried
