"""At the end of a long run of the oracle: how many calls each model was held against, and what became of them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping

import pytest

tallies: dict[str, Counter[str]] = {}


def _add(more: Mapping[str, Mapping[str, int]]) -> None:
    for name, counts in more.items():
        tallies.setdefault(name, Counter()).update(counts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    oracle = sys.modules.get("tests.ops.oracle")
    if oracle is not None:
        _add(oracle.TALLY)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["oracle"] = {
            name: dict(counts) for name, counts in tallies.items()
        }


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    _add(getattr(node, "workeroutput", {}).get("oracle", {}))


def line(name: str, counts: Mapping[str, int]) -> str:
    """``jax.numpy.sum  500 calls, 31% refused by JAX, of the others 2% left open``."""
    total = sum(counts.values())
    refused = sum(counts.get(kind, 0) for kind in ("refused", "open, error"))
    left = f"{counts.get('open, result', 0) / max(total - refused, 1):4.0%}"
    return f"{name:<45} {total:6} calls, {refused / total:4.0%} refused by JAX, {left} of the rest left open"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if "ORACLE_CASES" in os.environ and tallies:
        import jax

        terminalreporter.section(f"op models against JAX {jax.__version__}")
        terminalreporter.write_line(
            "\n".join(line(name, counts) for name, counts in sorted(tallies.items()))
        )
        fewest = min(tallies, key=lambda name: tallies[name].total())
        told = f"{len(tallies)} rows, {sum(counts.total() for counts in tallies.values())} calls"
        terminalreporter.write_line(
            f"{told}; fewest of {fewest}: {tallies[fewest].total()}"
        )
