"""Meshes, specs and shardings as the engine evaluates them, beside what JAX makes of the same program."""

from __future__ import annotations

import jax
import pytest
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from shardlint.config import Config
from shardlint.engine import run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import MeshValue, ShardingValue, SpecValue, Value

PROGRAM = """
import jax, numpy as np
import jax.sharding as js
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P

class Names:
    data = 'd'
    model = 't'

AXES = ('d', 't')
CHOICE = {'rows': P('d'), 'columns': P(None, 't')}
reshaped = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), AXES)
made = jax.make_mesh((2, 4), AXES, axis_types=(AxisType.Auto,) * 2)
laid_out = Mesh(mesh_utils.create_device_mesh((2, 4)), axis_names=AXES)
abstract = AbstractMesh((2, 4), AXES, axis_types=(AxisType.Explicit,) * 2)
one = Mesh(np.array(jax.devices()[:1]).reshape(1), 'd')
empty = P()
names = P(*AXES)
both = P(None, AXES)
longer = P(*both, *['x'])
attributes = P(Names.data, None, Names.model)
short = jax.P('d')
qualified = js.PartitionSpec('d', ('t',))
chosen = CHOICE['columns']
sharding = NamedSharding(reshaped, both)
replaced = NamedSharding(sharding.mesh, P(sharding.mesh.axis_names[1]))
computed = P('d' if abstract.shape['t'] == 4 else 't')
listed = P(*[name for name in AXES])
with js.use_abstract_mesh(abstract):
    inside = js.get_abstract_mesh()
"""
_scope: dict[str, object] = {}
exec(PROGRAM, _scope)
MADE = {
    k: v
    for k, v in _scope.items()
    if isinstance(v, (AbstractMesh, Mesh, NamedSharding, PartitionSpec))
}


def as_value(thing: object) -> Value:
    """A JAX object as the engine's value of it."""
    if isinstance(thing, PartitionSpec):
        entries = [(e,) if isinstance(e, str) else tuple(e or ()) for e in thing]
        return SpecValue(tuple(entries))
    if isinstance(thing, NamedSharding):
        mesh = as_value(thing.mesh)
        spec = as_value(thing.spec)
        assert isinstance(mesh, MeshValue) and isinstance(spec, SpecValue)
        return ShardingValue(mesh, spec)
    assert isinstance(thing, (Mesh, AbstractMesh))
    return MeshValue(
        tuple(thing.shape.items()), tuple(t.name for t in thing.axis_types)
    )


@pytest.fixture(scope="module")
def seen() -> dict[str, Value]:
    module = lower(PROGRAM.encode(), "program", "program.py").module
    return dict(run(Project({"program": module}), module).it.seen.values())


@pytest.mark.parametrize("name", MADE)
def test_value_is_what_jax_makes(name: str, seen: dict[str, Value]) -> None:
    assert seen[name] == as_value(MADE[name])


def test_all_are_compared() -> None:
    assert len(MADE) == 18 and len(jax.devices()) >= 8


@pytest.mark.parametrize(
    ("context", "codes"),
    [
        ("", ["ST103"]),
        ("with jax.set_mesh(mesh):", []),
        ("with mesh:", []),
        ("with scope(), timer:", []),
    ],
)
def test_the_configured_mesh_is_the_last_resort(context: str, codes: list[str]) -> None:
    """What an unknown context puts in force is not known, so its axes are not judged by the settings."""
    body = "jax.lax.with_sharding_constraint(x, P('rows'))"
    lines = [f"    {context}", f"        {body}"] if context else [f"    {body}"]
    text = "\n".join(
        [
            "import jax",
            "from jax.sharding import PartitionSpec as P",
            "def f(x, mesh, scope, timer):",
            *lines,
        ]
    )
    module = lower(f"{text}\n".encode(), "program", "program.py").module
    found = run(
        Project({"program": module}), module, Config(mesh={"d": 2, "t": 4})
    ).found()
    assert [event.code for event in found] == codes


@pytest.mark.parametrize(
    "spec", ["P(*unknown)", "P(unknown)", "P(P.UNCONSTRAINED)", "P('d', unknown)"]
)
def test_what_is_not_known_stays_open(spec: str) -> None:
    text = f"from jax.sharding import PartitionSpec as P\ndef f(unknown):\n    spec = {spec}\n"
    module = lower(text.encode(), "program", "program.py").module
    values = dict(run(Project({"program": module}), module).it.seen.values())
    spec_value = values["spec"]
    assert not isinstance(spec_value, SpecValue) or None in (spec_value.entries or ())
