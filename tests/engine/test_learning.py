"""What the use of an array tells of it from there on, and of nothing else."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from shardlint.engine import run
from shardlint.engine.shown import shown
from shardlint.lower import lower
from shardlint.project import Project

HEADER = "import einops\nimport jax\nimport jax.numpy as jnp\n\n"


def analysed(body: str) -> run:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    module = lower(
        f"{HEADER}def f(x, y, c):\n{lines}".encode(), "example", "example.py"
    ).module
    return run(Project({"example": module}), module)


def type_of(body: str, name: str = "z") -> str:
    seen = analysed(body).it.seen
    return next(shown(value)[0] for found, value in seen.values() if found == name)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("jnp.einsum('bthd,bshd->bhts', x, y)\nz = x * 2", "array['_ _ _ _']"),
        ("jnp.einsum('bthd,bshd->bhts', x, y)\nz = y * 2", "array['_ _ _ _']"),
        (
            "w = 1.0 * jnp.asarray(x)\neinops.rearrange(w, 'b (h d) -> b h d', h=4)\nz = -w",
            "array['_ _']",
        ),
        (
            "for i in range(3):\n    x = jnp.einsum('ij->ij', x) + x\nz = x",
            "array['_ _']",
        ),
        ("b, t = x.shape\nz = x", "array['b t']"),
        ("jnp.einsum('ij->ji', x)\nn, m = x.shape\nz = x", "array['n m']"),
        # A list of arrays has a dimension more; a letter may stand for a dimension of size one.
        ("einops.rearrange(x, 'b h d -> h b d')\nz = x", "unknown"),
        ("jnp.einsum('...d,df->...f', x, y)\nz = x", "unknown"),
        ("c and jnp.einsum('ij->ji', x).any()\nz = x", "unknown"),
        ("if c:\n    jnp.einsum('ij->ji', x)\nz = x", "unknown"),
    ],
)
def test_ranks_are_learned_where_they_are_certain(body: str, wanted: str) -> None:
    assert type_of(body) == wanted


def test_what_is_learned_is_held_against_what_follows() -> None:
    right = "s = jnp.einsum('ij,jk->ik', x, y)\nreturn s, x.sum(1)"
    wrong = "s = jnp.einsum('ij,jk->ik', x, y)\nreturn s, x.sum(2)"
    assert analysed(right).found() == []
    assert [event.code for event in analysed(wrong).found()] == ["ST208"]
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        jnp.ones((2, 3)).sum(2)


def test_sizes_of_dimensions_that_were_not_known_get_names() -> None:
    body = "q, k = jnp.split(jnp.einsum('bi,ij->bj', x, y), 2, -1)\nb, d = q.shape\nreturn q.reshape(b, d, 2)"
    assert [event.code for event in analysed(body).found()] == ["ST206"]
