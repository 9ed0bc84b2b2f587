"""What a derivative gives knows how it was computed only inside of another derivative."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import flatten
from tests.evaluation.running import NUMBERS, assert_computes, evaluated, in_jax
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
        "jvp": "jax.jvp(lambda x: jnp.sin(x) * x[0], (x,), (jnp.cos(x),))",
        "jvp of a tree": "jax.jvp(lambda t: (t['a'] * t['b'], 2.0), ({'a': x, 'b': x + 1},), ({'a': x, 'b': x * x},))",
        "jvp with aux": "jax.jvp(lambda x: (jnp.sin(x), x * x), (x,), (x,), has_aux=True)",
        "jvp of grad": "jax.jvp(jax.grad(f), (x,), (jnp.cos(x),))",
        "grad of jvp": "jax.grad(lambda x: jnp.sum(jax.jvp(jnp.sin, (x,), (x * x,))[1]))(x)",
        "jvp of jvp": "jax.jvp(lambda x: jax.jvp(f, (x,), (x,))[1], (x,), (jnp.ones(3),))",
        "jvp along each row": "jax.vmap(lambda v: jax.jvp(jax.grad(f), (x,), (v,))[1])(jnp.eye(3))",
        "jvp of each example": "jax.vmap(lambda r: jax.jvp(lambda w: jnp.sum(w * r) ** 2, (x,), (r,))[1])(jnp.eye(3))",
        "linearize": "(lambda y, push: [y, push(x), push(x * x)])(*jax.linearize(lambda x: jnp.tanh(x) * x[1], x))",
        "jacfwd": "jax.jacfwd(lambda x: jnp.outer(x, jnp.sin(x))[:2])(x)",
        "jacrev": "jax.jacrev(lambda x: jnp.outer(x, jnp.sin(x))[:2])(x)",
        "jacobians of trees by two arguments": (
            "[j(lambda a, b: {'p': a['u'] * b[0], 'q': jnp.sum(b)**2}, (0, 1))({'u': x}, x[:2])"
            " for j in (jax.jacfwd, jax.jacrev)]"
        ),
        "jacobians with aux": (
            "[j(lambda x: (x**3, x + 1), has_aux=True)(x) for j in (jax.jacfwd, jax.jacrev, jax.jacobian)]"
        ),
        "hessian": "jax.hessian(f)(x)",
        "hessian by an argument at the end": "jax.hessian(lambda a, x: jnp.sum(a * x[0] * x**2), -1)(x, x)",
        "hessian of each example": "jax.vmap(jax.hessian(lambda r: jnp.prod(jnp.sin(r))))(jnp.outer(x, x))",
        "grad of a laplacian": "jax.grad(lambda x: jnp.trace(jax.hessian(lambda y: jnp.sum(y**4) * y[0])(x)))(x)",
        "of scan": "jax.grad(lambda x: jax.lax.scan(lambda c, s: (c + jax.grad(jnp.sin)(s * c), None), 0.5, x)[0])(x)",
    }.items()
}


@pytest.mark.long
def test_derivatives_of_derivatives_are_those_of_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, NESTED, NUMBERS)
    for name, text in NESTED.items():
        found = evaluated(text)
        assert len(found) == len(wanted[name]) > 0, name
        for one, other in zip(found, wanted[name], strict=True):
            assert np.shape(one) == np.shape(other), name
            assert np.allclose(one, other, rtol=1e-5, atol=1e-5), name


GAUSS_NEWTON = """lax.pmean(
        (lambda model: jax.vjp(model, lax.pcast(w, "d", to="varying"))[1](jax.jvp(model, (w,), (v,))[1])[0])(
            lambda w: jnp.tanh(x @ w)
        ),
        "d",
    )"""

MAPPED = {
    f"{name} {checked=}": f"""
import functools
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()), ("d",))


@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("d"), P()), out_specs={specs}, check_vma={checked})
def mapped(w, x, v):
    return {text}


def main():
    w = jnp.cos(jnp.arange(3.0))
    x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
    return mapped(w, x, w * w + 1)
"""
    for checked in (True, False)
    for name, specs, text in [
        (
            "jvp of a sum of all devices",
            "P()",
            'jax.jvp(lambda w: lax.psum(jnp.sum(jnp.tanh(x @ w)), "d"), (w,), (v,))',
        ),
        ("jvp of the rows", 'P("d")', "jax.jvp(lambda w: jnp.tanh(x @ w), (w,), (v,))"),
        (
            "linearize",
            'P("d")',
            "jax.linearize(lambda w: jnp.tanh(x @ w) + w[0], w)[1](v)",
        ),
        ("jacfwd of the rows", 'P("d")', "jax.jacfwd(lambda w: jnp.tanh(x @ w))(w)"),
        (
            "jacrev by the rows",
            'P("d")',
            "jax.jacrev(lambda x: jnp.sum(jnp.tanh(x @ w), 0))(x)[None]",
        ),
        (
            "hessian",
            "P()",
            'lax.pmean(jax.hessian(lambda x: jnp.sum(jnp.tanh(x @ w) ** 3))(x), "d")',
        ),
        ("gauss newton", "P()", GAUSS_NEWTON),
    ]
}


def test_tangents_and_jacobians_on_devices_are_those_of_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, MAPPED, NUMBERS)
    for name, text in MAPPED.items():
        assert_computes(text, wanted[name])


MADE_INSIDE = {
    name: f"""
import functools
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()), ("d",))


@jax.custom_jvp
def scaled(w):
    return 2.0 * w


scaled.defjvp(lambda primals, tangents: (2.0 * primals[0], tangents[0] * jnp.full(3, 2.0)))


def energy(x, strain):
    return lax.psum(jnp.sum((x + x @ strain) ** 2), "d")


@functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("d")), out_specs={specs})
def mapped(w, x):
    return {text}


def main():
    return mapped(jnp.cos(jnp.arange(3.0)), jnp.sin(jnp.arange(48.0)).reshape(16, 3))
"""
    for name, specs, text in [
        ("zeros", "P()", "jax.grad(energy, argnums=1)(x, jnp.zeros((3, 3)))"),
        (
            "zeros for each example",
            "P()",
            "jax.vmap(jax.grad(energy, argnums=1), in_axes=(0, None))(x, jnp.zeros((3, 3)))",
        ),
        (
            "zeros that vary",
            'P("d")',
            'jax.grad(energy, argnums=1)(x, lax.pcast(jnp.zeros((3, 3)), "d", to="varying"))',
        ),
        (
            "indices for each example",
            "P()",
            'jax.vmap(lambda row: lax.psum(row * lax.axis_index("d"), "d"))(x)',
        ),
        (
            "a rule",
            "P()",
            'jax.grad(lambda w: lax.psum(jnp.sum(scaled(w) * x), "d"))(w)',
        ),
        (
            "a rule for each example",
            "P()",
            'jax.vmap(jax.grad(lambda w, r: lax.psum(jnp.sum(scaled(w) * r), "d")), in_axes=(None, 0))(w, x)',
        ),
        (
            "a pullback",
            "P()",
            "jax.vjp(lambda s: energy(x, s), jnp.ones((3, 3)))[1](jnp.ones(()))[0]",
        ),
    ]
}


def test_gradients_by_what_mapped_functions_make_are_those_of_jax(
    tmp_path: Path,
) -> None:
    wanted = in_jax(tmp_path, MADE_INSIDE, NUMBERS)
    for name, text in MADE_INSIDE.items():
        assert_computes(text, wanted[name])
