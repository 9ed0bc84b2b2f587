"""``auto_axes`` and ``explicit_axes``: what their functions give, and what JAX refuses of it."""

from __future__ import annotations

import contextlib

import jax
import pytest
from jax._src.core import ShardingTypeError  # JAX has no public name for it
from jax.sharding import NamedSharding

from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue

HEAD = """
from functools import partial
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P, auto_axes, explicit_axes
mesh = jax.make_mesh((2, 4), ('x', 'y'), axis_types=(AxisType.{types},) * 2)
jax.set_mesh(mesh)
whole = jnp.ones((8, 16))
"""
PLACED = """
a = jax.reshard(jnp.ones((8, 4)), P('x', 'y'))
b = jax.reshard(jnp.ones((4, 8)), P('x', 'y'))
"""
RIGHT = {
    "decorated": """
@partial(auto_axes, out_sharding=P('x', None))
def product(a, b):
    return a @ b
c = product(a, b)
d = c + jax.reshard(jnp.ones((8, 8)), P('x', None))
""",
    "called": """
c = auto_axes(lambda a: jnp.sum(a, 0), out_sharding=P('y'))(a)
d = c[:, None] * jax.reshard(jnp.ones((4, 3)), P('y', None))
""",
    "the sharding at the call": """
@auto_axes
def rows(a):
    return a.sum(1)
c = rows(a, out_sharding=P('x'))
""",
    "several results": """
c, d = auto_axes(lambda a, b: (a + 1, b.T), out_sharding=(P('x'), P()))(a, b)
""",
    "one axis": """
c = auto_axes(lambda a: a * 2, axes='y', out_sharding=P('x', 'y'))(a)
""",
}
WRONG = {
    "another sharding": (
        "ST309",
        "c = auto_axes(lambda a: a @ a.T, out_sharding=P('x'))(a) + jax.reshard(jnp.ones((8, 8)), P('y'))",
    ),
    "another shape": (
        "ST204",
        "c = auto_axes(lambda a: a.sum(0), out_sharding=P('y'))(a) + jnp.ones(5)",
    ),
    "inside": (
        "ST204",
        "c = auto_axes(lambda a: a @ a, out_sharding=P('x'))(a)",
    ),
}


def lint(text: str) -> tuple[dict[str, ArrayValue], list[str]]:
    """The arrays that the module's names hold, and the codes of findings."""
    module = lower(text.encode(), "case", "case.py").module
    analysis = run(Project({"case": module}), module)
    seen = {
        name: value
        for _, (name, value) in analysis.it.seen.items()
        if isinstance(value, ArrayValue)
    }
    return seen, [event.code for event in analysis.it.events.values()]


@contextlib.contextmanager
def mesh_kept():
    before = jax.sharding.get_mesh()
    try:
        yield
    finally:
        jax.set_mesh(before)


@pytest.mark.parametrize("name", RIGHT)
def test_results_are_sharded_as_in_jax(name: str) -> None:
    text = HEAD.format(types="Explicit") + PLACED + RIGHT[name]
    namespace: dict[str, object] = {}
    with mesh_kept():
        exec(text, namespace)
    seen, codes = lint(text)
    assert not codes
    for variable in {"c", "d"} & namespace.keys():
        array = namespace[variable]
        assert isinstance(array, jax.Array)
        assert isinstance(array.sharding, NamedSharding)
        dims = seen[variable].dims
        assert dims is not None
        assert [dim.size and dim.size.constant for dim in dims] == list(array.shape)
        spec = (*array.sharding.spec, *[None] * array.ndim)
        for dim, entry in zip(dims, spec, strict=False):
            axes = () if entry is None else (entry,)
            assert dim.axes in (None, axes)


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_found(name: str) -> None:
    code, line = WRONG[name]
    text = HEAD.format(types="Explicit") + PLACED + line
    with mesh_kept(), pytest.raises((TypeError, ValueError, ShardingTypeError)):
        exec(text, {})
    assert lint(text)[1] == [code]


@pytest.mark.parametrize("types", ["Auto", "Explicit"])
def test_arguments_of_explicit_axes(types: str) -> None:
    """Inside they are sharded as ``in_sharding`` tells, outside their types say nothing of it again."""
    text = HEAD.format(types=types)
    text += "c = explicit_axes(lambda a: a * 2, in_sharding=(P('x', None),))(whole)\n"
    wrong = text.replace("a * 2", "a + jax.reshard(a, P('y', None))")
    with mesh_kept():
        exec(text, {})
    seen, codes = lint(text)
    assert not codes
    dims = seen["c"].dims
    assert dims is not None
    assert [dim.size and dim.size.constant for dim in dims] == [8, 16]
    with mesh_kept(), pytest.raises((TypeError, ValueError, ShardingTypeError)):
        exec(wrong, {})
    assert lint(wrong)[1] == ["ST309"]
