"""JAX fails where a finding says that it does: the witness of each finding is replayed."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from shardlint import ir
from shardlint.engine import run
from shardlint.engine.annotations import resolve
from shardlint.engine.types import ArrayType
from shardlint.events import Event
from shardlint.lower import lower
from shardlint.project import Project

PROGRAM = Path(__file__).parents[2] / "fixtures" / "lint" / "wrong" / "guises.py"
RAISING = {"ST204", "ST205", "ST206", "ST208", "ST209", "ST213", "ST214"}  # JAX itself refuses these


def cases() -> list[tuple[str, Event, list[ArrayType]]]:
    """(function, finding inside it, its parameters' types) where all parameters are arrays."""
    module = lower(PROGRAM.read_bytes(), "guises", str(PROGRAM)).module
    analysis = run(Project({"guises": module}), module)
    functions = [node for node in module.body if isinstance(node, ir.Function)]
    found = []
    for event in analysis.found():
        inside = [f for f, after in zip(module.body, [*module.body[1:], None], strict=True)
                  if f in functions and f.at < event.at and (after is None or event.at < after.at)]  # fmt: skip
        if event.code not in RAISING or not inside:
            continue
        node = inside[0]
        assert isinstance(node, ir.Function)
        types = [resolve(analysis.it, p.annotation, "guises") for p in node.params]
        arrays = [t for t in types if isinstance(t, ArrayType) and t.shape is not None and t.shape.rank is not None]
        if len(arrays) == len(types) and types:
            found.append((node.name, event, arrays))
    return found


CASES = cases()


@pytest.mark.parametrize(("name", "event", "types"), CASES, ids=[f"{c[0]}-{c[1].code}-{c[1].at}" for c in CASES])
def test_jax_fails_at_the_witness(name: str, event: Event, types: list[ArrayType]) -> None:
    function: Any = runpy.run_path(str(PROGRAM))[name]
    sizes = {n: 2 + i for i, n in enumerate(sorted({n for t in types if t.shape for n in t.shape.names}))}
    sizes.update(event.witness)
    arguments = [
        jax.ShapeDtypeStruct(tuple(d.size.evaluate(sizes) for d in t.shape.dims if d.size), jnp.dtype(t.dtype))
        for t in types
        if t.shape is not None
    ]
    with pytest.raises((TypeError, ValueError, IndexError, AssertionError)):
        jax.eval_shape(function, *arguments)


def test_there_are_cases() -> None:
    assert len(CASES) >= 10
