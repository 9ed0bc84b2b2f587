"""Functions of ``jax.lax`` that are evaluated by themselves, and their gradients, held against JAX."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.evaluation.errors import NotEvaluable
from tests.evaluation.running import (
    AS_NUMBERS,
    assert_computes,
    computed_by_jax,
    evaluated,
    in_jax,
    main_of,
    programs_of_expressions,
)

pytestmark = pytest.mark.once  # what programs compute does not change with JAX

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()), ("d",))
x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
cube = jnp.cos(jnp.arange(60.0)).reshape(3, 4, 5)
image = jnp.sin(jnp.arange(2 * 3 * 6 * 5.0)).reshape(2, 3, 6, 5)
at = jnp.array([[1, 0], [0, 3], [2, 2], [5, 1]])
rows = jnp.array([[2], [0], [9], [2]])
whole = lax.GatherDimensionNumbers(offset_dims=(1, 2, 3), collapsed_slice_dims=(), start_index_map=(0, 2))
cells = lax.GatherDimensionNumbers(offset_dims=(0,), collapsed_slice_dims=(0, 2), start_index_map=(0, 2))
one = lax.GatherDimensionNumbers((1,), (0,), (0,))
batched = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
into = lax.ScatterDimensionNumbers((1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
blocks = lax.ScatterDimensionNumbers((1, 2), (1,), (0, 2))
matrix = jnp.array([[4.0, 1.0, 0.5], [0.2, 3.0, 0.1], [0.3, 0.4, 5.0]])
v = jnp.array([1.0, 2.0, -1.0])
new = jnp.arange(12.0).reshape(4, 3) + 1


def mapped(function, *args, out=P("d")):
    return jax.shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=out, check_vma=False)(*args)


def newton(f, x):
    for _ in range(30):
        x = x - f(x) / jax.grad(lambda y: jnp.sum(f(y)))(x)
    return x


def root(a):
    return lax.custom_root(lambda x: x**3 - a, jnp.float32(1.0), newton, lambda g, y: y / g(jnp.float32(1.0)))


def by_matrix(matvec, b):
    return jnp.linalg.solve(jax.jacobian(matvec)(b), b)


def solved(matrix, b):
    return lax.custom_linear_solve(lambda x: matrix @ x, b, by_matrix, by_matrix)


"""

TEXTS = {
    "gather": """
lax.gather(cube, at[:3], whole, (1, 4, 2))
lax.gather(cube, at, whole, (2, 4, 2), mode="clip")
lax.gather(cube, at, whole, (1, 4, 2), mode=lax.GatherScatterMode.CLIP)
lax.gather(cube, at, whole, (1, 4, 2), mode="fill", fill_value=7.0)
lax.gather(cube, at, cells, (1, 4, 1), mode="clip")
lax.gather(cube, at[None] % 3, cells, (1, 3, 1), mode="promise_in_bounds")
lax.gather(cube[0].astype(jnp.int32), rows, one, (1, 3), mode="fill")
lax.gather(x, jnp.array([[1], [2]] * 8), batched, (1, 1))
jax.grad(lambda c: jnp.sum(lax.gather(c, at, whole, (2, 3, 2), mode="clip") ** 2))(cube)
jax.grad(lambda c: jnp.sum(jnp.nan_to_num(lax.gather(c, at, whole, (2, 3, 2), mode="fill")) ** 2))(cube)
mapped(lambda x: lax.gather(x, rows[:2] % 2, one, (1, 3)), x)
mapped(lambda x: lax.gather(cube[0], lax.axis_index("d")[None, None] % 4, one, (1, 5)), x)
""",
    "scatter": """
lax.scatter(x, rows[:3], new[:3], into)
lax.scatter(x, rows[:3] + 10, new[:3], into)
lax.scatter(x, rows[:3] + 10, new[:3], into, mode="clip")
lax.scatter_add(x, rows, new, into)
lax.scatter_add(x, rows + 10, new, into, mode=lax.GatherScatterMode.FILL_OR_DROP)
lax.scatter_sub(x, rows, new, into)
lax.scatter_mul(x, rows, new, into)
lax.scatter_min(x, rows, new - 4, into)
lax.scatter_max(x, rows, new - 4, into)
lax.scatter_add(cube, at, jnp.arange(24.0).reshape(4, 2, 3), lax.ScatterDimensionNumbers((1, 2), (1,), (0, 2)))
lax.scatter_add(cube, at, jnp.arange(24.0).reshape(4, 2, 3), blocks, mode="clip")
lax.scatter_apply(x, rows[:3], jnp.exp, into, update_shape=(3, 3))
jax.grad(lambda x: jnp.sum(lax.scatter_add(x, rows, new, into) ** 2))(x)
jax.grad(lambda new: jnp.sum(lax.scatter_add(x, rows + 10, new, into) ** 2))(new)
jax.grad(lambda new: jnp.sum(lax.scatter(x, rows[:3], new, into, unique_indices=True) ** 2))(new[:3])
mapped(lambda x: lax.scatter_add(x, rows % 3, new, into), x)
""",
    "bits": """
lax.bitcast_convert_type(v, jnp.int32)
lax.bitcast_convert_type(jnp.arange(4) + 1065353216, jnp.float32)
lax.bitcast_convert_type(jnp.array([-1, 5]), jnp.uint32).astype(jnp.float32)
lax.bitcast_convert_type(v.astype(jnp.float16), jnp.uint16)
mapped(lambda x: lax.bitcast_convert_type(jnp.round(x), jnp.int32), x)
jax.grad(lambda v: jnp.sum(v * lax.bitcast_convert_type(lax.bitcast_convert_type(v, jnp.int32), jnp.float32)))(v)
""",
    "solutions": """
root(2.0)
jax.grad(root)(2.0)
jax.jvp(root, (2.0,), (3.0,))
jax.vmap(jax.grad(root))(jnp.array([1.0, 2.0, 3.0]))
solved(matrix, v)
jax.grad(lambda b: jnp.sum(solved(matrix, b) ** 2))(v)
jax.grad(lambda m: jnp.sum(solved(m, v) ** 2))(matrix)
jax.jacobian(solved, 1)(matrix, v)
lax.custom_linear_solve(lambda x: 2 * x, v, lambda f, b: b / 2, symmetric=True)
jax.grad(lambda a: jnp.sum(lax.custom_linear_solve(lambda x: a * x, v, lambda f, b: b / f(1.0), symmetric=True)))(2.0)
mapped(lambda x: jax.grad(lambda b: jnp.sum(solved(matrix, b) ** 2))(x[0])[None], x)
""",
    "others": """
lax.approx_min_k(x, 2, recall_target=1.0)
lax.approx_min_k(x, 3, reduction_dimension=0, recall_target=1.0)
lax.broadcast_like(v, x)
lax.empty((2, 3), jnp.float32).shape
lax.composite(lambda x, scale=1.0: jnp.sum(x) * scale, "own.sum")(x, scale=2.0)
lax.platform_dependent(x, cpu=jnp.sum, cuda=jnp.max, default=jnp.min)
lax.platform_dependent(x, cuda=jnp.max, default=jnp.min)
jax.pmap(lambda x: lax.pswapaxes(x, "i", 0), axis_name="i")(jnp.arange(128.0).reshape(8, 8, 2))
lax.conv_general_dilated_patches(image, (2, 3), (1, 2), "VALID")
lax.conv_general_dilated_patches(image, (2, 2), (2, 1), "SAME", rhs_dilation=(1, 2))
lax.conv_general_dilated_patches(image, (2, 2), (1, 1), [(0, 1), (1, 0)], dimension_numbers=("NHWC", "OIHW", "NHWC"))
jax.grad(lambda image: jnp.sum(lax.conv_general_dilated_patches(image, (2, 3), (1, 2), "VALID") ** 2))(image)
""",
}
PROGRAMS = programs_of_expressions(HEAD, TEXTS.values())


wanted = computed_by_jax(PROGRAMS)


@pytest.mark.parametrize("group", TEXTS)
def test_functions_compute_what_they_do(
    group: str, wanted: dict[str, list[object]]
) -> None:
    for text in TEXTS[group].strip().splitlines():
        assert_computes(PROGRAMS[text], wanted[text])


REFUSED = {
    "said to be in": "lax.gather(cube, at, whole, (2, 3, 2))",
    "in several windows": "lax.scatter_apply(x, rows, jnp.exp, into, update_shape=(4, 3))",
    "the bits of bfloat16": "lax.bitcast_convert_type(v.astype(jnp.bfloat16), jnp.int16)",
    "the bits of float32 as uint8": "lax.bitcast_convert_type(v, jnp.uint8)",
    "a second derivative of a solution": "jax.grad(jax.grad(root))(2.0)",
    "without a transpose": (
        "jax.grad(lambda b: jnp.sum(lax.custom_linear_solve(lambda x: 2 * x, b, lambda f, b: b / 2)))(v)"
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_covered_is_not_evaluated(reason: str) -> None:
    with pytest.raises(NotEvaluable, match=reason):
        evaluated(HEAD + main_of(f"        return {REFUSED[reason]}"))


EXCHANGE = """
def by_hand(given, kept, starts, sizes, places, received, axis_name):
    own = lax.axis_index(axis_name)
    every = [lax.all_gather(one, axis_name) for one in (given, starts, sizes, places)]
    for sender in range(8):
        rows, start, count, place = (one[sender] for one in every)
        for k in range(3):
            found = kept.at[place[own] + k].set(rows[start[own] + k], mode="drop")
            kept = jnp.where(k < count[own], found, kept)
    return kept


def exchanged(x):
    own = lax.axis_index("d")
    others = jnp.arange(8)
    sent = (2 * others[:, None] + others) % 3
    sizes = sent[own]
    starts = jnp.cumsum(sizes) - sizes
    places = (jnp.cumsum(sent, axis=0) - sent)[own]
    kept = jnp.full((20, 3), -1.0) * (own + 1)
    return EXCHANGE(jnp.tile(x, (8, 1)), kept, starts, sizes, places, sent[:, own], axis_name="d")


def squares(x):
    return jax.grad(lambda x: jnp.sum(exchanged(x) ** 3))(x)


def main():
    broadcast = mapped(lambda x: BROADCAST(x, "d", 3), x)
    return mapped(exchanged, x), mapped(squares, x), broadcast
"""


def test_collectives_that_no_cpu_has_are_those_that_are_written_by_hand(
    tmp_path: Path,
) -> None:
    by_hand = EXCHANGE.replace("EXCHANGE", "by_hand")
    by_hand = by_hand.replace(
        "BROADCAST(x", "(lambda x, axis, k: lax.all_gather(x, axis)[k])(x"
    )
    wanted = in_jax(tmp_path, {"by hand": HEAD + by_hand}, AS_NUMBERS)
    text = EXCHANGE.replace("EXCHANGE", "lax.ragged_all_to_all")
    text = text.replace("BROADCAST", "lax.pbroadcast")
    assert_computes(HEAD + text, wanted["by hand"])
