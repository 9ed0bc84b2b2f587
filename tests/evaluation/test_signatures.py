"""What programs that are run in numbers may pass to functions of libraries is what these take."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from inspect import Parameter, Signature
from typing import Any

import pytest

import shardlint.evaluation
from shardlint.evaluation.outside import KNOWN
from tests.semantics.call import resolved

pytestmark = pytest.mark.once  # of the newest releases of the libraries

LIBRARIES = ("jax.", "flax.", "optax.", "equinox.", "einops.")
#: Parameters that are not taken, for a reason: a program that passes one is not run.
NOT_TAKEN = {
    "what is set apart by a function of its own": "equinox.filter",
    "deprecated names": "equinox.nn.Dropout equinox.nn.LayerNorm",
    "classes that compute products": """flax.linen.MultiHeadAttention flax.linen.MultiHeadDotProductAttention
        flax.linen.SelfAttention""",
    "internals of variables and graphs": """flax.linen.Variable flax.nnx.GraphDef flax.linen.compact""",
    "ways to add up or to compare that change numbers": """flax.linen.standardize flax.nnx.standardize
        flax.nnx.PathContains flax.nnx.split_rngs flax.nnx.to_pure_dict flax.nnx.replace_by_pure_dict jax.vmap
        jax.dtypes.result_type jax.lax.ragged_dot""",
    "states of several classes": "flax.nnx.from_flat_state flax.nnx.merge_state",
    "meshes without devices": "jax.sharding.AbstractMesh",
    "passed by place": """flax.nnx.OfType jax.tree.unflatten jax.tree_util.tree_unflatten optax.bias_correction
        optax.tree.bias_correction optax.tree_utils.tree_bias_correction optax.tree.cast_like
        optax.tree_utils.tree_cast_like optax.tree.where optax.tree_utils.tree_where""",
}
EXCEPTIONS = {name for names in NOT_TAKEN.values() for name in names.split()}
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

for _module in pkgutil.walk_packages(
    shardlint.evaluation.__path__, f"{shardlint.evaluation.__name__}."
):
    importlib.import_module(_module.name)


def signature_of(function: Any) -> Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def in_library(qualname: str) -> Signature | None:
    """That of the function itself; None where this release has none of that name."""
    try:
        return signature_of(resolved(qualname))
    except (AttributeError, ImportError):
        return None


def not_taken(own: Signature, there: Signature) -> list[str]:
    """The parameters of a library's function, by name, that ours has not."""
    kinds = {one.kind for one in own.parameters.values()}
    if Parameter.VAR_KEYWORD in kinds:
        return []
    named = _NAMED
    if Parameter.VAR_POSITIONAL in kinds:
        named = (Parameter.KEYWORD_ONLY,)
    wanted = [one.name for one in there.parameters.values() if one.kind in named]
    return [name for name in wanted if name not in own.parameters and name != "self"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_they_take_what_the_libraries_take() -> None:
    missing = {}
    compared = 0
    for name, function in KNOWN.items():
        if not name.startswith(LIBRARIES) or not callable(function):
            continue
        own, there = signature_of(function), in_library(name)
        if own is None or there is None:
            continue
        compared += 1
        found = not_taken(own, there)
        if found:
            missing[name] = found
    assert compared > 300
    assert {
        name: found for name, found in missing.items() if name not in EXCEPTIONS
    } == {}
    assert EXCEPTIONS - missing.keys() == set()
