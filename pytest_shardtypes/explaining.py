"""``explain`` on failure: how each argument and result of the function whose check failed is sharded."""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import Any

import jax
import pytest
from typeguard import TypeCheckError

from shardtypes.errors import ShardingError, ShardTypeError
from shardtypes.explanation import explain
from shardtypes.switches import enabled

TITLE = "shardtypes: what the compiler chose"
OTHER_TITLE = "shardtypes: an annotation without arrays"
OTHER_TEXT = "typeguard checks these because of --shardtypes-all-annotations or its twin in the configuration"
_CHECKED = "shardtypes.checked"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section to the report of a test that failed over a sharding, or over an annotation without arrays."""
    report = yield
    error = None if call.excinfo is None else call.excinfo.value
    if isinstance(error, TypeCheckError) and not isinstance(error, ShardTypeError):
        report.sections.append((OTHER_TITLE, OTHER_TEXT))
    if (
        call.when == "call"
        and call.excinfo is not None
        and isinstance(call.excinfo.value, ShardingError)
    ):
        text = explanation(call.excinfo.tb)
        if text is not None:
            report.sections.append((TITLE, text))
    return report


def explanation(tb: TracebackType | None) -> str | None:
    """``explain`` of the outermost checked call in a traceback; None where it was not made with arrays."""
    found = _outermost(tb)
    if found is None:
        return None
    function, args, kwargs = found
    leaves = jax.tree.leaves((args, kwargs))
    if not leaves or any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    try:
        with enabled(False):
            return str(explain(function, *args, **kwargs))
    except Exception as error:  # noqa: BLE001 - it fails as it is: why is in the report already
        return f"no explanation: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def _outermost(
    tb: TracebackType | None,
) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    while tb is not None:
        frame = tb.tb_frame
        if (
            frame.f_code.co_name == "checked"
            and frame.f_globals.get("__name__") == _CHECKED
        ):
            values = frame.f_locals
            return values["checks"].function, values["args"], values["kwargs"]
        tb = tb.tb_next
    return None
