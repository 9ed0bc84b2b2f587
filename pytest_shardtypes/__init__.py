"""``pytest --shardtypes``: run a test suite on forced devices with every annotation checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_shardtypes.examples import trace_example as trace_example

__all__ = ["trace_example"]


def __getattr__(name: str) -> Any:
    # On first use only: pytest imports this package at every start.
    if name == "trace_example":
        from pytest_shardtypes.examples import trace_example

        return trace_example
    raise AttributeError(f"module 'pytest_shardtypes' has no attribute {name!r}")
