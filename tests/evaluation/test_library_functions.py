"""Functions of JAX and others that programs call beside the numerical ones, held against themselves."""

from __future__ import annotations

import pytest

from shardlint.evaluation.errors import NotEvaluable
from tests.evaluation.running import (
    NUMBERS,
    assert_computes,
    evaluated,
    in_jax,
    main_of,
)

HEAD = """
import functools
import json
import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()), ("d",))
x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
w = jnp.cos(jnp.arange(36.0)).reshape(4, 3, 3)


def mapped(function, *args, out=P("d")):
    return jax.shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=out, check_vma=False)(*args)


def refuses(check, *args):
    try:
        check(*args)
    except AssertionError:
        return 1.0
    return 0.0


"""

PROGRAMS = {
    "ragged_dot": "return lax.ragged_dot(x, w, jnp.array([3, 0, 9, 4]))",
    "ragged_dot with rows behind the groups": "return lax.ragged_dot(x, w, jnp.array([3, 2, 0, 4]))",
    "gradients of ragged_dot": """
        sizes = jnp.array([3, 2, 7, 4])
        return jax.grad(lambda x, w: jnp.sum(lax.ragged_dot(x, w, sizes) ** 2), (0, 1))(x, w)
""",
    "ragged_dot of groups that differ between devices": """
        def body(x):
            first = 1 + lax.axis_index("d") % 2
            return lax.ragged_dot(x, w[:2], jnp.stack([first, 2 - first]))
        return mapped(body, x)
""",
    "pure_callback": """
        shape = jax.ShapeDtypeStruct((3,), jnp.float32)
        return jax.pure_callback(lambda a, b: np.asarray(a) * 2 + np.asarray(b), shape, x[0], x[1])
""",
    "pure_callback of a tree": """
        shapes = {"a": jax.ShapeDtypeStruct((3,), jnp.float32), "b": jax.ShapeDtypeStruct((), jnp.int32)}
        return jax.pure_callback(lambda a: {"a": a, "b": np.int32(7)}, shapes, x[0])
""",
    "pure_callback on each device": """
        def body(x):
            return jax.pure_callback(lambda a: a * 2, jax.ShapeDtypeStruct((2, 3), jnp.float32), x)
        return mapped(body, x)
""",
    "io_callback": """
        found = []
        io_callback(lambda a: found.append(a), None, x[0], ordered=True)
        jax.effects_barrier()
        return found
""",
    "policies of checkpoints": """
        policy = jax.checkpoint_policies.save_only_these_names("hidden")
        return jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.tanh(x) ** 2), policy=policy))(x)
""",
    "json": 'return json.loads(json.dumps({"a": [1, 2.5], "b": 3}))',
    "checks that hold": """
        chex.assert_shape(x, (16, None))
        chex.assert_shape([x, w], [(16, 3), (4, 3, 3)])
        chex.assert_rank([x, w], [2, 3])
        chex.assert_equal_shape([x, x + 1])
        chex.assert_tree_all_finite({"x": x})
        return x
""",
    "checks that do not": """
        return [
            refuses(chex.assert_shape, x, (16, 4)),
            refuses(chex.assert_shape, x, (16,)),
            refuses(chex.assert_rank, x, 3),
            refuses(chex.assert_equal_shape, [x, w]),
            refuses(chex.assert_tree_all_finite, x / 0.0),
        ]
""",
}


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """What JAX computes."""
    programs = {name: HEAD + main_of(body) for name, body in PROGRAMS.items()}
    found: dict[str, list[object]] = in_jax(
        tmp_path_factory.mktemp("jax"), programs, NUMBERS
    )
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_compute_what_they_do(
    name: str, wanted: dict[str, list[object]]
) -> None:
    assert_computes(HEAD + main_of(PROGRAMS[name]), wanted[name])


def test_a_callback_that_gives_another_shape_is_not_evaluated() -> None:
    body = "return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((4,), jnp.float32), x[0])"
    with pytest.raises(NotEvaluable, match="another shape than it says"):
        evaluated(HEAD + main_of(body))


def test_a_callback_with_effects_of_each_device_is_not_evaluated() -> None:
    body = """
        found = []
        def body(x):
            io_callback(lambda a: found.append(a), None, x)
            return x
        mapped(body, x)
        return found
"""
    with pytest.raises(NotEvaluable, match="in a mapped function"):
        evaluated(HEAD + main_of(body))
