"""What findings say, word for word: both sides, where a size came from, and what was probably meant."""

from __future__ import annotations

import pytest

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.positions import Positions
from shardlint.project import Project
from shardlint.rules import rule

HEAD = """
import jax
import jax.numpy as jnp
from jax import lax
from shardtypes import f32, i32, pytree_dataclass, typed_shard_map

def dense(x: f32['B M'], w: f32['M F']) -> f32['B F']:
    return x @ w

def loss(logits: f32['B C'], labels: i32['B']) -> f32['']:
    return logits.mean()
"""


def messages(body: str) -> list[tuple[str, tuple[str, ...]]]:
    program = HEAD + body
    module = lower(program.encode(), "example", "example.py").module
    found = []
    for event in analyze(Project({"example": module}), module):
        one = rule(event.code)
        assert one is not None
        found.append(
            (
                f"{event.code} {one.message(event)}",
                tuple(text for _, _, text in event.related),
            )
        )
    return found


PARTIAL = "a partial sum over 't': call lax.psum(…, 't') first"
CONTRACTED = "contracted here over a dimension sharded over 't'"
CASES = {
    "@typed_shard_map\ndef f(x: f32['B F/t'], w: f32['F/t M']) -> f32['B M']:\n    h = x @ w\n    return h * h\n": (
        "ST301 `*` is applied to two partial sums over 't': call lax.psum(…, 't') first",
        (CONTRACTED,),
    ),
    "@typed_shard_map\ndef f(x: f32['B F/t'], w: f32['F/t M']) -> f32['B M']:\n    return (x @ w) ** 2\n": (
        f"ST301 `**` is applied to {PARTIAL}",
        (CONTRACTED,),
    ),
    "@typed_shard_map\ndef f(x: f32['B F/t'], w: f32['F/t M']) -> f32['B']:\n    return (x @ w).max(axis=1)\n": (
        f"ST301 result of f is made of each device's part of a sum: jnp.max is applied to {PARTIAL}",
        (CONTRACTED,),
    ),
    "class A:\n  @typed_shard_map\n  def f(self, x: f32['B F/t'], w: f32['F/t M']) -> f32['B M']: return x @ w\n": (
        "ST301 result of f is a partial sum over 't': call lax.psum(…, 't') first",
        (CONTRACTED,),
    ),
    "def f(x: f32['B C']):\n    return jnp.median(x, axis=[0, 1])\n": (
        "ST213 jnp.median: the axes are a list, which cannot be hashed; pass a tuple",
        (),
    ),
    "def f(x: f32['B C'], y: f32['B C']):\n    return jnp.sum((x, y[0]))\n": (
        "ST219 jnp.sum: a tuple ('B C', 'C') is not an array; pass one of its items, or join them with jnp.stack",
        (),
    ),
    "@pytree_dataclass\nclass Layer:\n    w: f32['M F']\n    v: f32['F']\n\n"
    "def f(x: f32['N M F'], y: f32['N M']):\n    return Layer(x, y)\n": (
        "ST202 field v of Layer (stacked): expected f32['F'], got f32['M']: dimension 0 is M, expected F "
        "(fails for F=2, M=3)",
        ("declared f32['F'] here",),
    ),
    "@pytree_dataclass\nclass Layer:\n    w: f32['M F']\n\ndef f(x: f32['M']):\n    return Layer(x)\n": (
        "ST202 field w of Layer: expected f32['M F'], got f32['M']: rank is 1, expected 2",
        ("declared f32['M F'] here",),
    ),
    "def f(x: f32['B C'], y: i32['B']):\n    return loss(y, x)\n": (
        "ST202 argument logits of loss: expected f32['B C'], got i32['B']: rank is 1, expected 2; "
        "are logits and labels swapped?",
        ("declared f32['B C'] here",),
    ),
    "def f(x: f32['B M'], w: f32['F M']):\n    return dense(x, w)\n": (
        "ST202 argument w of dense: expected f32['M F'], got f32['F M']: dimension 0 is F, expected M "
        "(fails for F=2, M=3)",
        ("declared f32['M F'] here", "'M' of dense is bound to M by this argument"),
    ),
    "def f(x: f32['B M'], w: f32['M F']):\n    return jax.vmap(jnp.matmul, in_axes=(0, None, 0))(x, w)\n": (
        "ST211 vmap: in_axes has 3 entries for 2 arguments",
        ("called here",),
    ),
    "def f(x: f32['B M'], w: f32['M F']):\n    return jax.vmap(lambda a, b: a * b.sum())(x, w)\n": (
        "ST211 vmap: mapped dimensions differ: argument 0 has B, argument 1 has M (fails for B=2, M=3)",
        (),
    ),
    "def f(xs: f32['T B M']):\n    def step(c, x):\n        return c.T, x\n    return lax.scan(step, xs[0], xs)\n": (
        "ST210 scan: the carry starts as 'B M' but the body returns 'M B' (fails for B=2, M=3)",
        ("scan is called here", "the carry starts here"),
    ),
    "def f(w: f32['M'], x: f32['B M']):\n    return jax.grad(lambda w: x @ w)(w)\n": (
        "ST217 grad needs a function with a scalar result, this one returns an array 'B'",
        ("its gradient is taken here",),
    ),
    "def f(x: f32['B L H D']):\n    b, l, h, d = x.shape\n    return x.reshape(b, h, l, d)\n": (
        "ST207 reshape from 'B L H D' to 'B H L D' does not move elements: use a transpose",
        (),
    ),
    "import optax\ntx = optax.adam(1e-3)\n\ndef f(params, state, grads):\n    updates, new = tx.update(grads, state)\n"
    "    return optax.apply_updates(params, updates), state\n": (
        "ST216 `new`, the updated optimizer state, is never used: the function returns the old `state`; pass on `new`",
        (),
    ),
    "def f(x: f32['batch length']) -> f32['batch lenght']:\n    return x\n": (
        "ST105 only the result of f has a dimension 'lenght'; did you mean 'length'?",
        (),
    ),
}


@pytest.mark.parametrize("body", CASES)
def test_the_message_is_word_for_word(body: str) -> None:
    assert messages(body) == [CASES[body]]


def test_what_is_wrong_with_the_array_of_a_method_is_said_of_the_call() -> None:
    """Not of an argument, which has nothing to do with it."""
    code = "@typed_shard_map\ndef f(x: f32['B F/t'], w: f32['F/t M']):\n    return (x @ w).clip(0.0, 1.0)\n"
    source = (HEAD + code).encode()
    module = lower(source, "example", "example.py").module
    (event,) = analyze(Project({"example": module}), module)
    place = Positions(source, "example.py").place(event.at)
    line = source.decode().splitlines()[place.line - 1]
    assert line[place.column - 1 : place.end_column - 1] == "(x @ w).clip(0.0, 1.0)"
