"""Every function of JAX's that has a model is known to mypy, under the name of the private module that defines it."""

from __future__ import annotations

import inspect

import pytest

from shardlint import ops
from shardlint.mypy_plugin import operations
from shardlint.ops import lowered
from shardtypes.semantics.lowerings import LOWERINGS
from tests.ops.tables import resolve

NAMESPACES = (
    "jax.numpy.", "jax.lax.", "jax.nn.", "jax.scipy.", "jax.ops.", "jax.random.", "jax.image.", "einops."
)  # fmt: skip
#: Names of NumPy's functions, of which JAX has no own.
BORROWED = "numpy.", "ml_dtypes."
#: Their types, not their shapes, are what mypy asks for.
ELSEWHERE = {"jax._src.pjit.with_sharding_constraint"}


def unknown() -> list[str]:
    """Full names, as mypy has them, of functions whose models it does not find."""
    found = []
    for name in [*ops.MODELS, *filter(lowered.is_lowered, LOWERINGS)]:
        function = (
            inspect.unwrap(resolve(name) or print)
            if name.startswith(NAMESPACES)
            else print
        )
        if inspect.isfunction(function):
            found.append(f"{function.__module__}.{function.__qualname__}")
    own = [
        name
        for name in found
        if not name.startswith(BORROWED) and name not in ELSEWHERE
    ]
    assert len(own) > 500
    return [name for name in own if operations.public_name(name) is None]


def test_every_model_is_found_by_the_name_that_mypy_has() -> None:
    assert unknown() == []


def test_a_module_that_is_not_listed_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorter = tuple(pair for pair in operations._PUBLIC if "scipy" not in pair[0])
    monkeypatch.setattr(operations, "_PUBLIC", shorter)
    operations.public_name.cache_clear()
    try:
        assert "jax._src.scipy.linalg.cho_solve" in unknown()
    finally:
        operations.public_name.cache_clear()
