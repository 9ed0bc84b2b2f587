"""Models that may leave a shape open give it for the calls that programs make."""

from __future__ import annotations

import pytest

from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from tests.ops.open_models import MAY_BE_OPEN
from tests.ops.oracle import has_shape

HEAD = """import jax
import jax.numpy as jnp
import numpy as np
from shardtypes import f32, i32

def f(x: f32['4 3'], s: f32['4 4'], v: f32['4'], ids: i32['4'], image: f32['2 8 8 3'], kernel: f32['3 3 5 3'],
      q: f32['2 8 4 16'], key: jax.Array):
    result = """

_FFT = {
    name: f"jnp.fft.{name}(x)"
    for name in "fft hfft ifft ihfft irfft rfft fft2 fftn ifft2 ifftn irfft2".split()
}
_FFT |= {name: f"jnp.fft.{name}(x)" for name in "irfftn rfft2 rfftn".split()}
_SAMPLED = "bits cauchy generalized_normal gumbel laplace logistic maxwell normal uniform weibull_min".split()
_GIVEN = {"generalized_normal": "2.0, ", "weibull_min": "1.0, 2.0, "}
_DRAWN = "gumbel laplace logistic normal uniform".split()
CALLS = {
    "jax.lax.broadcast_in_dim": "jax.lax.broadcast_in_dim(v, (4, 5), (0,))",
    "jax.lax.broadcast_to_rank": "jax.lax.broadcast_to_rank(v, 1)",
    "jax.lax.conv_transpose": "jax.lax.conv_transpose(image, kernel, (2, 2), 'SAME', transpose_kernel=True)",
    "jax.lax.reduce_and": "jax.lax.reduce_and(x > 0, (0,))",
    "jax.lax.reduce_window": "jax.lax.reduce_window(x, 0.0, jax.lax.add, (2, 1), (1, 1), 'VALID')",
    "jax.nn.dot_product_attention": "jax.nn.dot_product_attention(q, q, q)",
    "jax.numpy.argwhere": "jnp.argwhere(x, size=3)",
    "jax.numpy.average": "jnp.average(x, axis=0)",
    "jax.numpy.corrcoef": "jnp.corrcoef(x)",
    "jax.numpy.cov": "jnp.cov(x)",
    "jax.numpy.cross": "jnp.cross(x, x)",
    "jax.numpy.diag": "jnp.diag(v)",
    "jax.numpy.fill_diagonal": "jnp.fill_diagonal(s, 0.0, inplace=False)",
    "jax.numpy.gradient": "jnp.gradient(v)",
    "jax.numpy.histogram": "jnp.histogram(v, bins=4)",
    "jax.numpy.histogram_bin_edges": "jnp.histogram_bin_edges(v, bins=4)",
    "jax.numpy.lexsort": "jnp.lexsort((v, v))",
    "jax.numpy.logspace": "jnp.logspace(0.0, 1.0, 5)",
    "jax.numpy.median": "jnp.median(x, axis=0)",
    "jax.numpy.meshgrid": "jnp.meshgrid(v, v)",
    "jax.numpy.nanmedian": "jnp.nanmedian(x, axis=0)",
    "jax.numpy.nanpercentile": "jnp.nanpercentile(x, 50.0, axis=0)",
    "jax.numpy.nanquantile": "jnp.nanquantile(x, 0.5, axis=0)",
    "jax.numpy.pad": "jnp.pad(x, ((0, 1), (2, 0)))",
    "jax.numpy.percentile": "jnp.percentile(x, 50.0, axis=0)",
    "jax.numpy.polyval": "jnp.polyval(v, x)",
    "jax.numpy.quantile": "jnp.quantile(x, 0.5, axis=0)",
    "jax.numpy.repeat": "jnp.repeat(x, 2, axis=0)",
    "jax.numpy.linalg.cholesky": "jnp.linalg.cholesky(s)",
    "jax.numpy.linalg.eigh": "jnp.linalg.eigh(s)",
    "jax.numpy.linalg.eigvalsh": "jnp.linalg.eigvalsh(s)",
    "jax.numpy.linalg.matrix_rank": "jnp.linalg.matrix_rank(x)",
    "jax.numpy.linalg.solve": "jnp.linalg.solve(s, x)",
    **{
        f"jax.ops.segment_{kind}": f"jax.ops.segment_{kind}(x, ids, 5)"
        for kind in ("max", "min", "prod", "sum")
    },
    "jax.random.dirichlet": "jax.random.dirichlet(key, v, (2,))",
    "jax.scipy.linalg.cho_solve": "jax.scipy.linalg.cho_solve((s, True), x)",
    "jax.scipy.linalg.eigh": "jax.scipy.linalg.eigh(s)",
    "jax.scipy.linalg.lu_solve": "jax.scipy.linalg.lu_solve((s, ids), x)",
    "jax.scipy.linalg.solve": "jax.scipy.linalg.solve(s, x)",
    "jax.scipy.linalg.solve_triangular": "jax.scipy.linalg.solve_triangular(s, x)",
    "jax.scipy.linalg.toeplitz": "jax.scipy.linalg.toeplitz(v)",
    "jax.Array.view": "x.view(jnp.int32)",
    "numpy.random.randint": "np.random.randint(0, 5, size=(2, 3))",
    "numpy.random.Generator.integers": "np.random.default_rng(0).integers(0, 5, size=(2, 3))",
    "numpy.random.Generator.random": "np.random.default_rng(0).random((2, 3))",
    **{f"jax.numpy.fft.{name}": text for name, text in _FFT.items()},
    **{
        f"jax.random.{name}": f"jax.random.{name}(key, {_GIVEN.get(name, '')}shape=(2, 3))"
        for name in _SAMPLED
    },
    **{
        f"numpy.random.{name}": f"np.random.{name}(size=(2, 3))"
        for name in ("normal", "uniform")
    },
    **{
        f"numpy.random.Generator.{name}": f"np.random.default_rng(0).{name}(size=(2, 3))"
        for name in _DRAWN
    },
    **{
        f"numpy.random.Generator.standard_{name}": f"np.random.default_rng(0).standard_{name}((2, 3))"
        for name in ("exponential", "normal")
    },
}


@pytest.mark.once
@pytest.mark.parametrize("name", CALLS)
def test_the_usual_call_has_a_shape(name: str) -> None:
    assert name in MAY_BE_OPEN
    module = lower(f"{HEAD}{CALLS[name]}\n".encode(), "m", "m.py").module
    known = dict(run(Project({"m": module}), module).it.seen.values())
    assert has_shape(known["result"]), known["result"]
