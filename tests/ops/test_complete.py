"""Every model is held against the real function: by a row of a table, or for a reason that is written down."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from shardlint import ops
from shardlint.ops import numpy_random, placement, queries, random, trees
from tests.ops.tables import resolve

HERE = Path(__file__).parent

# Nothing is said that could be wrong.
ALWAYS_UNKNOWN = {
    trees.structure, queries.limits, queries.something, placement.type_of, numpy_random.generator,
    random.implementation,
}  # fmt: skip

WITHOUT_ROW = {
    "jax.nn.initializers.<made>": "what a factory returns: the rows of the factories call it",
    "jax.debug.breakpoint": "waits for a user",
    "jax.lax.GatherDimensionNumbers": "gives numbers, no array: the row of gather() reads them",
    "jax.lax.ScatterDimensionNumbers": "gives numbers, no array: the rows of scatter() read them",
    "numpy.save": "writes a file",
    "numpy.savez": "writes a file",
    "numpy.lib.stride_tricks.sliding_window_view": "has no twin in JAX: test_windows holds it against NumPy",
    "jax.tree_util.Partial": "gives a function: the engine's tests call it",
}


def rows() -> set[str]:
    """The names in every table of this folder."""
    names: set[str] = set()
    for path in HERE.glob("test_*.py"):
        module = importlib.import_module(f"tests.ops.{path.stem}")
        for table in vars(module).values():
            names |= {row.name for row in getattr(table, "rows", ())}
    return names


def unasked() -> set[str]:
    """Models that no row asks, of functions that this release has."""
    asked = rows()
    return {
        name for name, known in ops.MODELS.items()
        if name not in asked and name not in WITHOUT_ROW and known.function not in ALWAYS_UNKNOWN
        and (name.startswith("jax.Array.") or resolve(name) is not None)
    }  # fmt: skip


def test_every_model_has_a_row() -> None:
    assert unasked() == set()


def test_reasons_are_of_models_without_a_row() -> None:
    assert set(WITHOUT_ROW) <= set(ops.MODELS) - rows()


def test_a_model_without_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    known = next(iter(ops.MODELS.values()))
    monkeypatch.setattr(ops, "MODELS", {**ops.MODELS, "jax.numpy.vectorize": known})
    assert unasked() == {"jax.numpy.vectorize"}
