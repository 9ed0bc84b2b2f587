"""What the use of an array tells of it from there on, and of nothing else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import jax.numpy as jnp
import pytest
from einops import EinopsError

from shardlint.engine import run
from shardlint.engine.shown import shown
from shardlint.lower import lower
from shardlint.project import Project

HEADER = "import chex\nimport einops\nimport jax\nimport jax.numpy as jnp\nfrom jax import lax\n\n"


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


TOLD = {
    "b, t, d = x.shape": 3,
    "b, t, d = jnp.shape(x)": 3,
    "y = x.transpose(0, 2, 1)": 3,
    "y = x.transpose((1, 0))": 2,
    "y = jnp.transpose(x, axes=(1, 0))": 2,
    "y = jnp.einsum('ij,jk->ik', x, jnp.ones((2, 3))).sum(1)": 2,
    "y = (x.transpose(1, 0) + 1, 2)": 2,
    "assert x.ndim == 2": 2,
    "assert len(x.shape) == 2 and x.ndim == 2": 2,
    "assert not x.ndim != 2": 2,
    "if x.ndim != 3:\n    raise ValueError": 3,
    "if len(x.shape) != 3 or x.dtype == int:\n    raise ValueError": 3,
    "assert x.shape == (2, 2)": 2,
    "x = x.transpose(1, 0)": 2,
    "if c:\n    y = x\nb, d = x.shape": 2,
    "return x.transpose(1, 0)": 2,
    "z = flipped(x)": 2,
    "z = flipped(array=x)": 2,
    "z = over(c, x)": 2,
    "y = x.astype(int)\nb, d = y.shape": 2,
    "x = x.astype(int)\nx = lax.stop_gradient(x)\ny = jnp.einsum('abc->a', x)": 3,
    "with jax.named_scope('first'):\n    b, d = x.shape": 2,
    "with jax.named_scope('first'):\n    y = x.astype(int)\nb, d = y.shape": 2,
    "if c:\n    a, b = x.shape\nelse:\n    x = x.transpose(1, 0)": 2,
    "if c:\n    return x.transpose(1, 0)\na, b = x.shape": 2,
    "if c:\n    raise ValueError\nelse:\n    a, b = x.shape": 2,
    "if c:\n    with jax.named_scope('a'):\n        return x.transpose(1, 0)\nelif c is None:\n    raise ValueError\n"
    "return jnp.einsum('ab->b', x)": 2,
    "z = contracted('ab,ab->a', x, x)": 2,
    "z = contracted(equation='abc,abc->a', left=x, right=x)": 3,
    "z = lax.dynamic_slice(x, (0, 0, 0), (1, 1, 1))": 3,
    "z = lax.dynamic_update_slice(x, x, (0, 0))": 2,
    "z = lax.slice(x, (0, 0), (1, 1))": 2,
    "z = lax.pad(x, 0.0, ((0, 0, 0), (1, 1, 0)))": 2,
    "z = lax.broadcast_in_dim(x, (2, 3, 2), (0, 2))": 2,
    "z = lax.conv_general_dilated(x, x, (1, 1), 'SAME')": 4,
    "z = lax.conv_general_dilated(x, x, window_strides=(1,), padding='SAME')": 3,
}
#: Of lists of arrays as well: of what is annotated as an array they tell the rank.
OF_ARRAYS = {
    "z = einops.rearrange(x, 'a b -> b a')": 2,
    "z = jnp.pad(x, ((0, 0), (0, 1), (0, 0)))": 3,
    "chex.assert_rank(x, 2)": 2,
    "chex.assert_shape(x, (None, 2, None))": 3,
}


@pytest.mark.parametrize("body", TOLD)
def test_a_body_tells_the_ranks_of_its_parameters_from_the_first_line_on(
    body: str,
) -> None:
    """JAX holds it: with any other rank the function fails."""
    rank = TOLD[body]
    helpers = (
        "def flipped(array):\n    return array.transpose(1, 0)\n\n"
        "def over(c, array):\n    return flipped(array) if array.ndim else flipped(array)\n\n"
        "def contracted(equation, left, right):\n    return jnp.einsum(equation, left, right)\n\n"
    )
    if "over(" in body:
        helpers = helpers.replace("flipped(array) if array.ndim else ", "")
    lines = "".join(f"    {line}\n" for line in f"z = x * 2\n{body}".splitlines())
    text = f"{HEADER}{helpers}def f(x, y, c):\n{lines}"
    module = lower(text.encode(), "example", "example.py").module
    seen = run(Project({"example": module}), module).it.seen
    first = next(shown(value)[0] for found, value in seen.values() if found == "z")
    assert first == f"array['{' '.join('_' * rank)}']"
    names: dict[str, object] = {}
    exec(compile(text, "example", "exec", dont_inherit=True), names)
    for other in range(1, 5):
        given = jnp.ones((2,) * other)
        if other == rank:
            names["f"](given, given, False)  # type: ignore[operator]
            continue
        for choice in (False, True):
            with pytest.raises((TypeError, ValueError, AssertionError, IndexError)):
                names["f"](given, given, choice)  # type: ignore[operator]


@pytest.mark.parametrize("body", OF_ARRAYS)
def test_what_takes_lists_tells_the_ranks_of_arrays(body: str) -> None:
    lines = "".join(f"    {line}\n" for line in f"z = x * 2\n{body}".splitlines())
    found = []
    for annotation in ("", ": jax.Array"):
        text = f"{HEADER}def f(x{annotation}):\n{lines}"
        module = lower(text.encode(), "example", "example.py").module
        seen = run(Project({"example": module}), module).it.seen
        found.append(
            next(shown(value)[0] for name, value in seen.values() if name == "z")
        )
    assert found == ["unknown", f"array['{' '.join('_' * OF_ARRAYS[body])}']"]
    names: dict[str, object] = {}
    exec(compile(text, "example", "exec", dont_inherit=True), names)
    for rank in range(1, 5):
        refused: AbstractContextManager[object] = nullcontext()
        if rank != OF_ARRAYS[body]:
            refused = pytest.raises(
                (TypeError, ValueError, AssertionError, EinopsError)
            )
        with refused:
            names["f"](jnp.ones((2,) * rank))  # type: ignore[operator]


@pytest.mark.parametrize(
    "body",
    [
        "if c:\n    return z\nb, t = x.shape",
        "if c:\n    x = y\nb, t = x.shape",
        "if c:\n    return x\na, b = x.shape",
        "if c:\n    a, b = x.shape\nelse:\n    a, b, d = x.shape",
        "x = jnp.atleast_2d(x)\na, b = x.shape",
        "x = x[0]\na, b = x.shape",
        "with jax.named_scope('a'):\n    x = y\na, b = x.shape",
        "z = jnp.pad(x, (0, 1))",
        "z = contracted(c, x, x)",
        "x = x[None]\nb, t = x.shape",
        "for i in range(c):\n    b, t = x.shape",
        "for i in range(c):\n    x.transpose(1, 0)",
        "while c:\n    b, t = x.shape",
        "w = x.transpose(1, 0) if c else x",
        "w = c and x.transpose(1, 0)",
        "w = c < 2 < x.transpose(1, 0)",
        "w = [x.transpose(1, 0) for _ in y]",
        "w = lambda: x.transpose(1, 0)",
        "def g():\n    return x.transpose(1, 0)",
        "class C:\n    w = x.transpose(1, 0)",
        "try:\n    b, t = x.shape\nexcept ValueError:\n    pass",
        "with c:\n    b, t = x.shape",
        "match c:\n    case 1:\n        b, t = x.shape",
        "*b, t = x.shape",
        "b, t = x.shape[:2]",
        "w = x.transpose(*y)",
        "w = x.transpose(c)",
        "w = x.transpose()",
        "jnp = y\nw = jnp.transpose(x, (1, 0))",
        "w = (x := y).transpose(1, 0)\nb, t = x.shape",
        "if x.ndim == 2:\n    raise ValueError",
        "if x.ndim != 2 and c:\n    raise ValueError",
        "assert x.ndim == 2 or c",
        "w = einops.rearrange(x, 'a b -> b a')",
    ],
)
def test_nothing_is_told_by_what_not_every_call_does(body: str) -> None:
    assert type_of(f"z = x * 2\n{body}") == "unknown"


def test_what_a_function_wants_is_told_to_its_caller() -> None:
    text = (
        f"{HEADER}def heads(q):\n    b, t, h, d = q.shape\n    return q.reshape(b, t, h * d)\n\n"
        "def f(make, x):\n    q = make(x)\n    heads(q)\n    z = q + 1\n    return z.sum(axis=4)\n"
    )
    module = lower(text.encode(), "example", "example.py").module
    found = run(Project({"example": module}), module)
    shapes = [shown(value)[0] for name, value in found.it.seen.values() if name == "z"]
    assert shapes == ["array['_ _ _ _']"]
    assert [event.code for event in found.found()] == ["ST208"]


def test_an_axis_that_an_earlier_line_cannot_have() -> None:
    """What a later line says of a parameter is held against the lines before it."""
    body = "y = jnp.swapaxes(x, 1, 3)\nb, t, d = x.shape\nreturn y, b"
    assert [event.code for event in analysed(body).found()] == ["ST208"]
    assert analysed(body.replace("3", "2")).found() == []
