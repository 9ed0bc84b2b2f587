"""A derivative goes back through another one: through what a slope is computed from, and for each example by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.running import NUMBERS, assert_computes, in_jax

pytestmark = pytest.mark.once  # derivatives do not change with JAX

FUNCTIONS = """
jnp.tanh(x)
jnp.exp(x)
jnp.sqrt(x)
jnp.cbrt(x)
jnp.reciprocal(x)
jnp.prod(x)
jnp.cumprod(x)
jnp.var(x)
jnp.std(x)
jnp.hypot(x, x[::-1])
jnp.logaddexp(x, x[::-1])
x ** x[::-1]
x / x[::-1]
lax.rsqrt(x)
lax.logistic(x)
lax.erf_inv(x)
jax.nn.softmax(x)
jax.nn.log_softmax(x)
jax.nn.logsumexp(x)
jax.nn.gelu(x)
jax.nn.silu(x)
jax.nn.softplus(x)
jnp.linalg.norm(x)
jnp.linalg.det(jnp.outer(x, x) + jnp.eye(3))
jnp.linalg.inv(jnp.outer(x, x) + jnp.eye(3))
jnp.linalg.solve(jnp.outer(x, x) + jnp.eye(3), x)
jnp.linalg.cholesky(jnp.outer(x, x) + jnp.eye(3))
lax.scan(lambda c, s: (jnp.tanh(c * s), c), 1.0, x)[0]
""".strip().splitlines()

TWICE = {
    text: f"""
import jax
import jax.numpy as jnp
from jax import lax

x = jnp.array([0.3, 0.5, 0.7])
v = jnp.array([1.0, 2.0, -1.0])


def once(x):
    return jnp.sum(({text}) ** 2)


def main():
    return jax.grad(lambda x: jnp.vdot(jax.grad(once)(x), v))(x)
"""
    for text in FUNCTIONS
}


def test_second_derivatives_of_functions_are_those_of_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, TWICE, NUMBERS)
    for name, text in TWICE.items():
        assert_computes(text, wanted[name], tolerance=1e-3)


EXAMPLES = {
    name: f"import jax\nimport jax.numpy as jnp\nx = jnp.arange(1.0, 4.0)\n\n\ndef main():\n    return {text}\n"
    for name, text in {
        "of each example by what all have": (
            "jax.vmap(jax.grad(lambda w, x: jnp.sum(jnp.sin(w * x))), in_axes=(None, 0))(x, jnp.outer(x, x))"
        ),
        "of each example by what is closed over": (
            "jax.vmap(lambda row: jax.grad(lambda w: jnp.sum(jnp.sin(w * row)))(x))(jnp.outer(x, x))"
        ),
        "of all examples of a derivative of each": (
            "jax.grad(lambda w: jnp.sum(jax.vmap(lambda row: jax.grad(lambda w: jnp.sum(w**3 * row))(w))"
            "(jnp.outer(x, x))))(x)"
        ),
        "a pullback of each row": "jax.vmap(jax.vjp(lambda x: x**2 * x[0], x)[1])(jnp.eye(3))",
    }.items()
}


def test_derivatives_of_each_example_are_those_of_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, EXAMPLES, NUMBERS)
    for name, text in EXAMPLES.items():
        assert_computes(text, wanted[name])


RULES = """
import jax
import jax.numpy as jnp
from jax import lax

x = jnp.array([0.3, 0.5, 0.7])
v = jnp.array([1.0, 2.0, -1.0])


@jax.custom_vjp
def cube(x):
    return x**3


def cube_forward(x):
    return cube(x), (x, jnp.sin(x))


def cube_backward(kept, g):
    x, sine = kept
    return (g * 3 * x**2 * sine,)


cube.defvjp(cube_forward, cube_backward)


@jax.custom_vjp
def rounded(x):
    return jnp.floor(4 * x) / 4 + x**2


rounded.defvjp(lambda x: (jnp.floor(4 * x) / 4 + x**2, x), lambda x, g: (g * cube(x),))


@jax.custom_jvp
def power(x, y):
    return x**y


@power.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return power(x, y), y * cube(x) * dx + jnp.exp(y) * dy


@jax.custom_jvp
def scaled(x):
    return 5 * x**2


@scaled.defjvp
def _(primals, tangents):
    return scaled(primals[0]), jnp.tanh(primals[0]) * power(primals[0], 2.0) * tangents[0]


def both(x):
    return jnp.sum(rounded(x) * power(x, 1.5) + jnp.sin(cube(x)))


def main():
    return {}
"""
OF_RULES = {
    text: RULES.replace("{}", text)
    for text in """
jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(cube(x)))(x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(jnp.tanh(cube(x))))(x), v))(x)
jax.grad(lambda x: jax.value_and_grad(lambda x: jnp.sum(rounded(x)))(x)[0])(x)
jax.grad(lambda x: jnp.vdot(jax.value_and_grad(lambda x: jnp.sum(rounded(x)))(x)[1], v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(rounded(x) * cube(x)))(x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda y: jnp.sum(cube(x) * y**2))(x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda y: jnp.sum(rounded(x) * cube(x * y)))(x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(power(x, 1.5)))(x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda x, y: jnp.sum(power(x, y)), 1)(x, x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(scaled(x)))(x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(both)(x), v))(x)
jax.grad(lambda x: jnp.vdot(jax.vjp(lambda x: rounded(cube(x)), x)[1](v)[0], v))(x)
jax.grad(lambda v: jnp.vdot(jax.vjp(lambda x: rounded(cube(x)), x)[1](v)[0], v))(x)
jax.grad(lambda a: jnp.sum(jax.grad(lambda b: jnp.sum(jax.grad(both)(b) ** 2))(a)))(x)
jax.grad(lambda x: jnp.sum(jax.jvp(scaled, (x,), (v,))[1]))(x)
jax.jvp(lambda x: jax.jvp(scaled, (x,), (v,))[1], (x,), (v,))
jax.jacrev(jax.jacrev(lambda x: both(x)))(x)
jax.hessian(lambda x: jnp.sum(scaled(x) * jnp.sin(x)))(x)
jax.jacrev(jax.jacrev(lambda x: cube(x) * jnp.sin(x)))(x)
jax.vmap(jax.grad(lambda x: jnp.vdot(jax.grad(both)(x), v)))(jnp.outer(x, x))
jax.grad(lambda x: jnp.sum(jax.vmap(jax.grad(lambda x: rounded(x) * cube(x)))(x) ** 2))(x)
jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(lax.scan(lambda c, s: (cube(c * s), c), 1.3, x)[0]))(x), v))(x)
""".strip().splitlines()
}


def test_second_derivatives_through_rules_of_the_program_are_those_of_jax(
    tmp_path: Path,
) -> None:
    """An outer derivative goes back through what a rule computes, not by the rule itself."""
    wanted = in_jax(tmp_path, OF_RULES, NUMBERS)
    for name, text in OF_RULES.items():
        assert_computes(text, wanted[name], tolerance=1e-3)
