"""Functions of ``jax.numpy`` and ``jax.image`` that are evaluated by themselves, held against JAX."""

from __future__ import annotations

import pytest

from shardlint.evaluation.errors import NotEvaluable
from tests.evaluation.running import (
    assert_computes,
    computed_by_jax,
    evaluated,
    main_of,
    programs_of_expressions,
)

pytestmark = pytest.mark.once  # what programs compute does not change with JAX

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()), ("d",))
x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
image = jnp.sin(jnp.arange(48.0)).reshape(6, 4, 2)
a = jnp.array([3, -1, 4, 1, -5, 9, 2, 6, 5, 3, 5])
b = jnp.array([2, 7, 1, 8, 2, -5, 4])


def mapped(function, *args, out=P("d")):
    return jax.shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=out, check_vma=False)(*args)


"""

TEXTS = {
    "sets": """
jnp.setdiff1d(a, b)
jnp.setdiff1d(a, b, size=4)
jnp.setdiff1d(a, b, size=9, fill_value=-7)
jnp.setdiff1d(a, b, size=9)
jnp.setxor1d(a, b)
jnp.setxor1d(a, b, size=4)
jnp.setxor1d(a, b, size=12)
jnp.setxor1d(a, b, size=12, fill_value=99)
jnp.setxor1d(a, a, size=3)
jnp.intersect1d(a, b)
jnp.intersect1d(a, b, size=2)
jnp.intersect1d(a, b, size=7)
jnp.intersect1d(a, b, size=7, fill_value=99)
jnp.intersect1d(a, b, return_indices=True)
jnp.intersect1d(a, b, return_indices=True, size=7)
jnp.intersect1d(a, jnp.array([77, 78]), size=3)
jnp.intersect1d(a, jnp.array([1.0, 2.5, 4.0]), size=3)
jnp.unique(a)
jnp.unique(a, return_counts=True, return_index=True, return_inverse=True)
jnp.union1d(a, b)
jnp.nonzero(a > 2)[0]
jnp.argwhere(x > 0.5)
mapped(lambda x: jnp.intersect1d(jnp.round(x * 2), jnp.arange(-2.0, 3.0), size=4), x)
mapped(lambda x: jnp.setdiff1d(jnp.round(x * 2), jnp.arange(0.0, 3.0), size=4), x)
""",
    "dtypes": """
jnp.zeros((), jnp.result_type(a, x)) + 1.5
jnp.ones((), jnp.result_type(jnp.int8, 3)) * 100
jnp.result_type(jnp.int8, int) == jnp.int8
jnp.result_type(jnp.bfloat16, jnp.float16) == jnp.float32
jnp.result_type(jnp.bfloat16, 1.0) == jnp.bfloat16
jnp.result_type(a, float) == jnp.float32
jnp.promote_types(jnp.int32, jnp.float16) == jnp.float16
jnp.promote_types("uint8", "int8") == jnp.int16
jnp.can_cast("int8", "int16"), jnp.can_cast("int16", "int8"), jnp.can_cast(jnp.int8, jnp.float32)
jnp.isdtype(a.dtype, "integral"), jnp.isdtype(x.dtype, ("bool", "real floating")), jnp.isdtype(x.dtype, jnp.int32)
jnp.isscalar(3.0), jnp.isscalar(a), jnp.isscalar(a[0]), jnp.iterable(a), jnp.iterable(a[0]), jnp.iterable([1])
""",
    "arrays": """
jnp.argpartition(a, 3)
jnp.argpartition(a, -2)
jnp.argpartition(x, 5, axis=0)
jnp.argpartition(image, 2, axis=1)
jnp.argpartition(a.astype(jnp.uint8), 4)
mapped(lambda x: jnp.argpartition(x, 1, axis=0), x)
jax.lax.top_k(a.astype(jnp.uint8), 11)
jnp.argsort(a.astype(jnp.uint8), descending=True)
jnp.apply_along_axis(jnp.cumsum, 0, x)
jnp.apply_along_axis(lambda row, by: jnp.stack([row.sum(), row[0] * by]), 1, image, 3.0)
jnp.apply_along_axis(jnp.sum, -1, image)
jax.grad(lambda x: jnp.sum(jnp.apply_along_axis(lambda row: jnp.outer(row, row), 1, x) ** 2))(x)
jnp.histogram2d(x[:, 0], x[:, 1])
jnp.histogram2d(x[:, 0], x[:, 1], bins=[4, 3], range=[[-1, 1], None], weights=x[:, 2])
jnp.histogram2d(x[:, 0], x[:, 1], bins=5, density=True)
jnp.histogram2d(x[:, 0], x[:, 1], bins=jnp.array([-1.0, -0.5, 0.5, 1.0]))
jnp.histogramdd(x, bins=[2, 3, 2])
mapped(lambda x: jnp.histogram2d(x[:, 0], x[:, 1], bins=2, range=[[-1, 1], [-1, 1]])[0], x)
jnp.packbits(x > 0)
jnp.packbits(x > 0, axis=0)
jnp.packbits(a, bitorder="little")
jnp.unpackbits(a.astype(jnp.uint8))
jnp.unpackbits(a.astype(jnp.uint8)[None], axis=0, count=5)
jnp.unpackbits(a.astype(jnp.uint8), count=99, bitorder="little")
jnp.unpackbits(jnp.packbits(x > 0), count=48).reshape(16, 3)
""",
    "images": """
jax.image.resize(image, (9, 4, 2), "nearest")
jax.image.resize(image, (4, 7, 2), jax.image.ResizeMethod.NEAREST)
jax.image.resize(image, (9, 7, 2), "linear")
jax.image.resize(image, (3, 3, 2), "bilinear")
jax.image.resize(image, (3, 3, 2), "linear", antialias=False)
jax.image.resize(image, (9, 3, 2), method="cubic")
jax.image.resize(image, (9, 3, 2), "bicubic", antialias=False)
jax.image.resize(image, (9, 3, 2), "bicubic-pytorch")
jax.image.resize(image, (13, 3, 2), "lanczos3")
jax.image.resize(image, (4, 9, 2), "lanczos5")
jax.image.resize(a, (5,), "linear")
jax.image.scale_and_translate(image, (8, 5, 2), (0, 1), jnp.array([1.5, 0.7]), jnp.array([0.3, -1.0]), "linear")
jax.image.scale_and_translate(image, (8, 4, 2), (0,), jnp.array([1.5]), jnp.array([0.3]), "cubic", antialias=False)
jax.grad(lambda image: jnp.sum(jax.image.resize(image, (9, 3, 2), "lanczos3") ** 2))(image)
jax.grad(lambda image: jnp.sum(jax.image.resize(image, (9, 3, 2), "nearest") ** 2))(image)
jax.grad(lambda by: jnp.sum(jax.image.scale_and_translate(x, (9, 3), (0,), by, by, "cubic") ** 2))(jnp.array([1.7]))
mapped(lambda x: jax.image.resize(x, (3, 3), "linear"), x)
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
    "CUBIC_PYTORCH": "jax.image.resize(image, (9, 3, 2), 'bicubic-pytorch', antialias=False)",
    "AREA": "jax.image.resize(image, (3, 2, 2), 'area')",
    "of 32 bits and of 64": "jnp.can_cast(jnp.float64, jnp.float32)",
    "assume_unique": "jnp.intersect1d(a, b, True)",
    "what is no number": "jnp.setxor1d(jnp.array([1.0, float('nan')]), x.ravel())",
    "unique without a size": "mapped(lambda x: jnp.unique(jnp.round(x).astype(int)), x)",
    "how many differ, rounding tells": "jnp.unique(x)",
    "a set without a size": "jnp.setdiff1d(x, a)",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_covered_is_not_evaluated(reason: str) -> None:
    with pytest.raises(NotEvaluable, match=reason):
        evaluated(HEAD + main_of(f"        return {REFUSED[reason]}"))
