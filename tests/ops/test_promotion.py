"""Dtypes through whole expressions, weak ones included: what the analysis says of each is what JAX gives."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue
from tests.ops.oracle import assert_same, is_open

DTYPES = {"b": "bool", "i": "int32", "u": "uint8", "w": "uint32", "q": "int8", "h": "bfloat16", "g": "float16",
          "x": "float32"}  # fmt: skip
NAMES = {"bool": "bool_", "int32": "i32", "uint8": "u8", "uint32": "u32", "int8": "i8", "bfloat16": "bf16",
         "float16": "f16", "float32": "f32"}  # fmt: skip
EXPRESSIONS = """
b + b | b.sum() | i / 2 | i / i | u + i | u + q | w + i | h + g | h + 1.5 | i + 1.5 | b + 1 | b * 1.0
jnp.where(b, h, 0) | jnp.where(b, i, 0.0) | jnp.where(b, 1, 2) | jnp.where(b, 1.0, 2) + h | jnp.where(b, h, x)
x.astype("bfloat16") | x.astype(float) | x.astype(int) | x.astype(bool) | x.astype("f4") | h.astype(np.float32)
i // 2 | i % 2.0 | -b.astype(i.dtype) | i ** 2 | 2 ** i | 2.0 ** i | True + i | x * 1j | h * 1j | b & b | ~b | i << 1
jnp.mean(i) | jnp.mean(h) | b.mean() | jnp.sqrt(i) | jnp.exp(i) | jnp.prod(u) | jnp.cumsum(u) | jnp.cumsum(b)
jnp.array(1.0) + h | jnp.array([1, 2, 3]) + u | jnp.asarray(1.0) * h | jnp.float32(1.0) * h | np.float32(1.0) * h
np.pi * h | jnp.ones(3) * h | jnp.zeros_like(h) + 1.0 | jnp.full(3, 2) + u | jnp.full(3, 2.0) + h
jnp.arange(3) + u | jnp.arange(3.0) + h | jnp.linspace(0, 1, 3) * h | jnp.eye(3) @ h | max(1, 2) * h
jnp.clip(h, 0, 1.0) | jnp.maximum(h, 0.0) | jnp.var(i) | jnp.stack([i, x]) | jnp.concatenate([u, q]) | jnp.dot(u, q)
jnp.einsum("i,i->", h, x) | jax.nn.one_hot(i, 4) | jnp.bitwise_and(b, i) | jnp.isnan(h) | jnp.argmax(x)
jnp.float_power(h, 2) | x.at[0].set(1) | i.at[0].add(1.5) | jax.lax.select(b, h, h) | jnp.nan_to_num(i) | jnp.sign(u)
jnp.true_divide(u, u) | jnp.sum(h, dtype=jnp.float32) | jnp.sum(h, dtype="float32") | jnp.unique(i, size=2)
(b.sum() / 3) * h | jnp.sum(b) * h | jax.nn.relu(2.0) * h | jnp.mean(b.astype(h.dtype)) * h | 0.0 * h + h
jax.grad(lambda t: t * t)(1.0) * h | jax.value_and_grad(lambda t: t * t)(1.0)[1] * h
jax.grad(lambda t: (t * h).sum().astype(jnp.float32))(1.0) * h | jax.jvp(lambda t: t * t, (1.0,), (1.0,))[1] * h
jax.jacfwd(lambda t: t * t)(1.0) * h | jax.hessian(lambda t: t * t * t)(1.0) * h | jax.grad(lambda t: t.sum())(h)
jax.linearize(lambda t: t * t, 1.0)[1](1.0) * h | jax.grad(lambda d: d["a"] * d["b"].sum())({"a": 1.0, "b": x})["a"] * h
jax.lax.associative_scan(jnp.add, jax.lax.broadcast(1.0, (3,))) * h | jax.lax.fori_loop(0, 3, lambda k, c: c + h, h)
jax.lax.cond(True, lambda t: t, lambda t: t * 2, h) | jax.vmap(lambda t: t * 2.0)(h) | jax.jit(lambda t: t / 2)(i)
sum([h, h])
"""
#: JAX gives more than is said.
OPEN = {
    "jax.vjp(lambda t: t * t, 1.0)[1](1.0)[0]",
    "jax.grad(lambda k: (k * x).sum(), allow_int=True)(i)",
}


def said() -> dict[str, ArrayValue]:
    expressions = [*written(), *sorted(OPEN)]
    parameters = ", ".join(
        f"{name}: {NAMES[dtype]}['3']" for name, dtype in DTYPES.items()
    )
    body = "".join(
        f"    v{number} = {text}\n" for number, text in enumerate(expressions)
    )
    imports = "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom shardtypes import *\n"
    module = lower(
        f"{imports}def f({parameters}):\n{body}".encode(), "m", "m.py"
    ).module
    known = dict(run(Project({"m": module}), module).it.seen.values())
    return {text: known[f"v{number}"] for number, text in enumerate(expressions)}


def written() -> list[str]:
    return [
        text.strip()
        for text in EXPRESSIONS.replace("\n", "|").split("|")
        if text.strip()
    ]


SAID = said()


def in_jax(text: str) -> object:
    structs = {
        name: jax.ShapeDtypeStruct((3,), jnp.dtype(dtype))
        for name, dtype in DTYPES.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jax.eval_shape(
            eval(
                f"lambda {', '.join(DTYPES)}: {text}",
                {"jax": jax, "jnp": jnp, "np": np},
            ),
            **structs,
        )


@pytest.mark.parametrize("text", SAID)
def test_dtype(text: str) -> None:
    assert_same(text, SAID[text], in_jax(text))
    assert is_open(SAID[text]) == (text in OPEN)
