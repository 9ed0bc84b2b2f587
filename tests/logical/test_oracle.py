"""What the rules say of random specs, beside what JAX does with them on eight devices and on abstract meshes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some
from jax.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec

from shardlint.engine import analyze
from shardlint.lower import lower
from shardlint.project import Project

HEADER = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P
from shardtypes import f32
"""
MESH = "mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ('d', 't'))\n"
USES = {
    "constraint": "def use(x: f32['{shape}']):\n"
    "    return jax.lax.with_sharding_constraint(x, NamedSharding(mesh, {spec}))\n",
    "put": "def use(x: f32['{shape}']):\n    return jax.device_put(x, NamedSharding(mesh, {spec}))\n",
    "in": "def use(x: f32['{shape}']):\n    return x\nuse = jax.jit(use, in_shardings=NamedSharding(mesh, {spec}))\n",
    "out": "def use(x: f32['{shape}']):\n    return x\nout = NamedSharding(mesh, {spec})\n"
    "use_it = jax.jit(use, out_shardings=out)\ndef call(x: f32['{shape}']):\n    return use_it(x)\n",
    "manual": "def use(x: f32['{shape}']):\n    return x\n"
    "use = jax.shard_map(use, mesh=mesh, in_specs={spec}, out_specs={spec})\n",
}
REFUSED = {"ST102", "ST103", "ST104", "ST306"}

axis = some.sampled_from(["d", "t", "d", "t", "q"])
entry = some.one_of(
    some.none(), axis, some.lists(axis, min_size=1, max_size=2).map(tuple)
)
spec = some.lists(entry, max_size=3).map(tuple)
shape = some.lists(
    some.sampled_from([1, 2, 3, 4, 6, 8, 16]), min_size=0, max_size=3
).map(tuple)


def codes(program: str) -> set[str]:
    module = lower(program.encode(), "program", "program.py").module
    return {event.code for event in analyze(Project({"program": module}), module)}


def program(use: str, shape: tuple[int, ...], spec: tuple[Any, ...]) -> str:
    text = USES[use].format(shape=" ".join(map(str, shape)), spec=_written(spec))
    return HEADER + MESH + text


def outcome(use: str, shape: tuple[int, ...], spec: tuple[Any, ...]) -> Any:
    """The result of the same call, or the error that JAX raises."""
    mesh = Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("d", "t"))
    x = jnp.zeros(shape)
    try:
        if use == "manual":
            p = PartitionSpec(*spec)
            return jax.shard_map(lambda x: x, mesh=mesh, in_specs=p, out_specs=p)(x)
        sharding = jax.sharding.NamedSharding(mesh, PartitionSpec(*spec))
        if use == "constraint":
            return jax.jit(lambda x: jax.lax.with_sharding_constraint(x, sharding))(x)
        if use == "put":
            return jax.device_put(x, sharding)
        options = (
            {"in_shardings": sharding} if use == "in" else {"out_shardings": sharding}
        )
        return jax.jit(lambda x: x, **options)(x)
    except Exception as error:  # noqa: BLE001 - JAX's classes for this differ from release to release
        return error


@pytest.mark.parametrize("use", ["constraint", "put", "in", "out"])
@settings(max_examples=40)
@given(shape=shape, spec=spec)
def test_placements(use: str, shape: tuple[int, ...], spec: tuple[Any, ...]) -> None:
    found = codes(program(use, shape, spec))
    result = outcome(use, shape, spec)
    # JAX 0.12 computes it, but has no name for how XLA laid out what is split over half of an axis
    assume(not (use == "constraint" and type(result).__name__ == "IndivisibleError"))
    assert isinstance(result, Exception) == bool(found & REFUSED), (found, result)
    if use == "constraint" and not isinstance(result, Exception):
        splits = [_count(e) for e in spec]
        if "ST312" in found:
            shards = {
                str(index)
                for index in result.sharding.devices_indices_map(shape).values()
            }
            assert len(shards) < np.prod(splits)
        elif all(size % k == 0 for size, k in zip(shape, splits, strict=False)):
            parts = [*splits, *[1] * (len(shape) - len(splits))]
            assert result.sharding.shard_shape(shape) == tuple(
                n // k for n, k in zip(shape, parts, strict=True)
            )


@settings(max_examples=30)
@given(rank=some.integers(0, 3), spec=spec)
def test_specs_of_shard_map(rank: int, spec: tuple[Any, ...]) -> None:
    shape = (16,) * rank
    found = codes(program("manual", shape, spec))
    result = outcome("manual", shape, spec)
    assert isinstance(result, Exception) == bool(found & REFUSED), (found, result)


@settings(max_examples=40)
@given(
    required=some.integers(0, 3),
    optional=some.integers(0, 2),
    entries=some.integers(1, 5),
)
def test_number_of_shardings(required: int, optional: int, entries: int) -> None:
    """A finding means that no call can work, none that some call does."""
    names = [
        f"a{i}=0.0" if i >= required else f"a{i}" for i in range(required + optional)
    ]
    text = f"def use({', '.join(names)}):\n    return 0.0\n"
    specs = f"({'None, ' * entries})"
    found = codes(f"import jax\n{text}use = jax.jit(use, in_shardings={specs})\n")
    scope: dict[str, Any] = {}
    exec(text, scope)
    works = []
    for count in range(required, required + optional + 1):
        try:
            jax.jit(scope["use"], in_shardings=eval(specs)).eval_shape(*[1.0] * count)
            works.append(count)
        except ValueError:
            pass
    assert (found == {"ST307"}) == (not works), (found, works)


@pytest.mark.parametrize(
    "call",
    ["jax.sharding.reshard(x, {0})", "jnp.reshape(x, x.shape, out_sharding={0})"],
)
@settings(max_examples=30)
@given(
    sizes=some.lists(some.sampled_from([1, 2, 3, 4, 512]), min_size=1, max_size=3),
    shape=shape,
    data=some.data(),
)
def test_explicit_abstract_meshes(
    call: str, sizes: list[int], shape: tuple[int, ...], data: Any
) -> None:
    """Meshes of any size: nothing is run, and no device is there."""
    names = ["a", "b", "c"][: len(sizes)]
    one = some.sampled_from([*names, "q"])
    spec = data.draw(some.lists(some.one_of(some.none(), one), max_size=3).map(tuple))
    mesh = AbstractMesh(
        tuple(sizes), tuple(names), axis_types=(AxisType.Explicit,) * len(sizes)
    )
    written = f"AbstractMesh({tuple(sizes)}, {tuple(names)}, axis_types=(AxisType.Explicit,) * {len(sizes)})"
    found = codes(
        f"{HEADER}mesh = {written}\ndef use(x: f32['{' '.join(map(str, shape))}']):\n"
        f"    with jax.sharding.use_abstract_mesh(mesh):\n"
        f"        return {call.format(_written(spec))}\n"
    )
    try:
        with jax.sharding.use_abstract_mesh(mesh):
            scope = {"jax": jax, "jnp": jnp, "spec": PartitionSpec(*spec)}
            jax.eval_shape(
                eval(f"lambda x: {call.format('spec')}", scope),
                jax.ShapeDtypeStruct(shape, "f4"),
            )
        refused = False
    except Exception:  # noqa: BLE001 - as above
        refused = True
    if not any(spec[len(shape) :]) and len(spec) > len(shape):
        assert not found or refused  # releases differ on further entries of None
    else:
        assert refused == bool(found), (found, spec, mesh)


def _written(spec: tuple[Any, ...]) -> str:
    return f"P({', '.join(map(repr, spec))})"


def _count(entry: Any) -> int:
    names = (entry,) if isinstance(entry, str) else entry or ()
    return int(np.prod([{"d": 2, "t": 4}.get(name, 1) for name in names]))
