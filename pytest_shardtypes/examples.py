"""The registry of examples: what a function that is to be traced needs besides its annotated arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from pytest_shardtypes.axes import MeshAxes


@dataclass(frozen=True)
class Example:
    """One way to trace a function: values for some parameters, sizes for some names, a mesh, marks for the test."""

    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    mesh: MeshAxes | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    marks: tuple[pytest.MarkDecorator, ...] = ()


_registered: dict[str, list[Example]] = {}


def trace_example(
    function: str,
    /,
    *examples: Any,
    mesh: str | None = None,
    sizes: Mapping[str, int] | None = None,
    marks: pytest.MarkDecorator | Sequence[pytest.MarkDecorator] = (),
    **named: Any,
) -> None:
    """Say, in conftest.py, how ``--shardtypes`` is to trace a function, as in ``trace_example("model.mlp", config=C)``.

    ``function`` is its dotted name with the module. ``examples`` and further keywords are values for the parameters
    that are no annotated arrays; ``sizes`` fixes the sizes of names; ``mesh``, as in ``"d=2,t=4"``, is an abstract mesh
    of Explicit axes, on which shardings are checked as well; ``marks`` go to the test. Several calls for one function
    give several tests. Raises ``BadMesh`` (a ``ValueError``) for a mesh that cannot be read.
    """
    if not isinstance(function, str) or not all(
        part.isidentifier() for part in function.split(".")
    ):
        raise ValueError(
            f"trace_example takes the dotted name of a function, as in 'model.layers.mlp', not {function!r}"
        )
    axes = None if mesh is None else MeshAxes.parse(mesh, "explicit")
    every = (marks,) if isinstance(marks, pytest.MarkDecorator) else tuple(marks)
    _registered.setdefault(function, []).append(
        Example(examples, named, axes, dict(sizes or {}), every)
    )


def examples_of(function: str) -> tuple[Example, ...]:
    """What was registered for a function, in that order."""
    return tuple(_registered.get(function, ()))


def registered() -> tuple[str, ...]:
    """The functions that have examples."""
    return tuple(_registered)


def exchange(others: Mapping[str, list[Example]]) -> dict[str, list[Example]]:
    """Put other examples in place of those that are registered, which are returned: each test run has its own."""
    before = dict(_registered)
    _registered.clear()
    _registered.update(others)
    return before
