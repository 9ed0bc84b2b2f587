"""What a derivative gives knows how it was computed only inside of another derivative."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import flatten
from tests.evaluation.running import NUMBERS, evaluated, in_jax
from tests.evaluation.test_departures import program

pytestmark = pytest.mark.once  # derivatives do not change with JAX

TRAINING = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P


def step(w, x):
    (loss, aux), g = jax.value_and_grad(lambda w: (jnp.sum(jnp.tanh(x @ w)), jnp.cos(w)), has_aux=True)(w)
    out, pull = jax.vjp(jnp.sin, w)
    return w - lax.pmean(g, "d"), lax.psum(loss, "d"), aux, out, pull(out)


def main():
    mesh = Mesh(np.asarray(jax.devices()), ("d",))
    run = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("d")), out_specs=P(), check_vma=False)
    w, x = jnp.ones(4), jnp.sin(jnp.arange(64.0)).reshape(16, 4)
    for _ in range(3):
        w, *_ = run(w, x)
    return w


if __name__ == "__main__":
    main()
"""


def test_results_of_a_training_do_not_keep_what_they_were_computed_from() -> None:
    outcome = program(TRAINING).run(8)
    assert len(outcome.regions) == 3
    leaves = [leaf for region in outcome.regions for leaf in flatten(region.results)[0]]
    arrays = [leaf for leaf in leaves if isinstance(leaf, Array)]
    assert len(arrays) == 15
    assert all(array.node is None for array in arrays)


NESTED = {
    name: (
        "import jax\nimport jax.numpy as jnp\nf = lambda x: jnp.sum(jnp.sin(x) ** 3)\nx = jnp.arange(1.0, 4.0)\n\n\n"
        f"def main():\n    return [{text}]\n"
    )
    for name, text in {
        "grad of grad": "jax.grad(lambda x: jnp.sum(jax.grad(f)(x) ** 2))(x)",
        "of the value": "jax.grad(lambda x: jax.value_and_grad(f)(x)[0] * x[0])(x)",
        "of aux": "jax.grad(lambda x: jnp.sum(jax.value_and_grad(lambda x: (f(x), x * x), has_aux=True)(x)[0][1]))(x)",
        "of vjp": "jax.grad(lambda x: jnp.sum(jax.vjp(jnp.sin, x)[1](x)[0]) + jnp.sum(jax.vjp(jnp.cos, x)[0]))(x)",
        "vjp of grad": "jax.vjp(jax.grad(f), x)[1](x)[0]",
        "a pullback that is called later": (
            "(lambda pull: jax.grad(lambda c: jnp.sum(pull(c)[0] ** 2))(x))(jax.vjp(jnp.sin, x)[1])"
        ),
        "three times": "jax.vmap(jax.grad(jax.grad(jax.grad(lambda s: jnp.sin(s) * s**2))))(x)",
        "of a stopped one": "jax.grad(lambda x: jnp.sum(jax.lax.stop_gradient(jax.grad(f)(x)) * x))(x)",
        "by two arguments": "jax.grad(lambda x, y: jnp.sum(jax.grad(lambda y: jnp.sum(x * y**3))(y)), 1)(x, x)",
        "of vmap": "jax.grad(lambda x: jnp.sum(jax.vmap(jax.grad(lambda s: s**3))(x)))(x)",
        "of scan": "jax.grad(lambda x: jax.lax.scan(lambda c, s: (c + jax.grad(jnp.sin)(s * c), None), 0.5, x)[0])(x)",
    }.items()
}


def test_derivatives_of_derivatives_are_those_of_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, NESTED, NUMBERS)
    for name, text in NESTED.items():
        found = evaluated(text)
        assert np.allclose(found[0], wanted[name][0], rtol=1e-5), name
