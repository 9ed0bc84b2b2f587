"""Layouts: equal exactly when they mean the same, whatever they were made from."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
)
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32

SIZES = [
    sizes for sizes in itertools.product((1, 2, 4, 8), repeat=3) if np.prod(sizes) <= 8
]


@some.composite
def meshes(draw: Any) -> Mesh:
    sizes = draw(some.sampled_from(SIZES))
    devices = np.array(jax.devices()[: int(np.prod(sizes))])
    if draw(some.booleans()):
        devices = devices[::-1]
    names = draw(some.permutations("abc"))
    return Mesh(devices.reshape(sizes), names)


@some.composite
def specs(draw: Any, rank: int) -> P:
    entries: list[Any] = [[] for _ in range(rank)]
    for axis in draw(some.permutations("abc")):
        at = draw(some.integers(-1, rank - 1))
        if at >= 0:
            entries[at].append(axis)
    written = [
        None
        if not axes
        else axes[0]
        if len(axes) == 1 and draw(some.booleans())
        else tuple(axes)
        for axes in entries
    ]
    while written and written[-1] is None and draw(some.booleans()):
        written.pop()
    return P(*written)


shapes = some.lists(some.sampled_from([8, 16]), max_size=3).map(tuple)


def named(spec: P, mesh: Mesh, rank: int) -> list[tuple[str, ...]]:
    """What the spec says, without axes of size 1."""
    entries = [() if e is None else (e,) if isinstance(e, str) else e for e in spec] + [
        ()
    ] * rank
    return [tuple(a for a in axes if mesh.shape[a] > 1) for axes in entries[:rank]]


@settings(max_examples=150, deadline=None)
@given(some.data())
def test_equal_exactly_when_every_device_holds_the_same(data: some.DataObject) -> None:
    first = data.draw(meshes())
    second = data.draw(some.sampled_from([first, first, data.draw(meshes())]))
    shape = data.draw(shapes)
    pair = [(mesh, data.draw(specs(len(shape)))) for mesh in (first, second)]
    (mesh_a, spec_a), (mesh_b, spec_b) = pair
    maps = [NamedSharding(m, s).devices_indices_map(shape) for m, s in pair]
    equal = maps[0].keys() == maps[1].keys() and all(
        [i.indices(n) for i, n in zip(maps[0][d], shape, strict=True)]
        == [i.indices(n) for i, n in zip(maps[1][d], shape, strict=True)]
        for d in maps[0]
    )
    if dict(mesh_a.shape) == dict(mesh_b.shape):
        equal = equal and named(spec_a, mesh_a, len(shape)) == named(
            spec_b, mesh_b, len(shape)
        )
    a, b = (st.layout(NamedSharding(m, s), shape=shape) for m, s in pair)
    assert (a == b) is equal
    assert a == a and hash(a) == hash(
        st.layout(NamedSharding(mesh_a, spec_a), shape=shape)
    )


@settings(max_examples=100, deadline=None)
@given(some.data())
def test_everything_with_the_same_meaning_has_the_same_layout(
    data: some.DataObject,
) -> None:
    mesh, shape = data.draw(meshes()), data.draw(shapes)
    spec = data.draw(specs(len(shape)))
    sharding = NamedSharding(mesh, spec)
    lies = st.layout(sharding, shape=shape)
    hlo = sharding._to_xla_hlo_sharding(len(shape))
    annotation = f32[str(lies)]
    for other in (
        st.layout(jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)),
        st.layout(GSPMDSharding(mesh._flat_devices_tuple, hlo), mesh=mesh, shape=shape),
        st.layout(hlo, mesh=mesh, shape=shape),
        st.layout(annotation, mesh=mesh),
        st.layout(NamedSharding(mesh, lies.spec), shape=shape),
    ):
        assert other == lies and lies == other
        assert other.shard_shape == sharding.shard_shape(shape)
    array = jax.device_put(np.zeros(shape, np.float32), sharding)
    assert st.layout(array) == lies and st.layout(array).local_shape == shape
    assert st.layout(array).bytes_per_device == array.addressable_shards[0].data.nbytes
    assert {
        d: array.sharding.devices_indices_map(shape)[d] for d in lies.indices()
    } == lies.indices()
    used = {axis for axes in lies.dims or () for axis in axes}
    assert set(lies.replicated) == set(mesh.axis_names) - used


@pytest.mark.parametrize("entries", [("d", "t"), ("t",), (None, ("t", "d")), ()])
def test_of_compiled_programs(auto_mesh: Mesh, entries: tuple[Any, ...]) -> None:
    sharding = NamedSharding(auto_mesh, P(*entries))
    x = jax.device_put(jnp.ones((8, 16)), sharding)

    def f(x: jax.Array, unused: jax.Array, *, y: jax.Array) -> dict[str, jax.Array]:
        return {"same": x + y, "sum": x.sum()}

    compiled = (
        jax.jit(f, out_shardings={"same": sharding, "sum": None})
        .lower(x, x, y=x)
        .compile()
    )
    found = st.layout(compiled, mesh=auto_mesh)
    assert found.arguments[0][0] == st.layout(x) == found.arguments[1]["y"]
    assert found.results["same"] == st.layout(x)
    assert found.results["sum"].shape == ()


def test_on_other_devices_it_is_another_layout(auto_mesh: Mesh) -> None:
    turned = Mesh(auto_mesh.devices[::-1], ("d", "t"))
    a, b = (
        st.layout(NamedSharding(m, P("d")), shape=(8,)) for m in (auto_mesh, turned)
    )
    assert a != b and str(a) == str(b) == "8/d"
    renamed = Mesh(auto_mesh.devices, ("rows", "columns"))
    assert a == st.layout(NamedSharding(renamed, P("rows")), shape=(8,))
    one = st.layout(SingleDeviceSharding(jax.devices()[0]), shape=(8,))
    assert one != st.layout(NamedSharding(auto_mesh, P()), shape=(8,))


def test_on_meshes_that_no_machine_has() -> None:
    mesh = AbstractMesh((4096, 16), ("d", "t"), axis_types=(AxisType.Explicit,) * 2)
    lies = st.layout(f32["8192/d 64/t"], mesh=mesh)
    assert lies.shard_shape == (2, 4) and lies.indices() == {} and lies.replicated == ()
    assert lies == st.layout(NamedSharding(mesh, P("d", "t")), shape=(8192, 64))


def test_of_values_that_have_none(auto_mesh: Mesh) -> None:
    assert str(st.layout(np.ones((2, 3)))) == "2 3"
    with pytest.raises(TypeError, match="no layout: str"):
        st.layout("x")
    with pytest.raises(ValueError, match="dtype is not known"):
        _ = st.layout(NamedSharding(auto_mesh, P("d")), shape=(8,)).bytes_per_device


@pytest.mark.parametrize(
    "text", ["B/d M", "8/d _", "n//2/t/d #k 4", "*batch M/t", "... M/d/t", "_x/d", ""]
)
def test_of_annotations_without_sizes(auto_mesh: Mesh, text: str) -> None:
    """The layout says over which axes, and not how large the parts are."""
    lies = st.layout(f32[text], mesh=auto_mesh)
    assert str(lies) == text and repr(lies) == f"Layout({text!r} on mesh d=2, t=4)"
    assert str(st.layout(f32[str(lies)])) == text and lies == st.layout(
        f32[text], mesh=auto_mesh
    )
    assert hash(lies) == hash(st.layout(f32[text])) and "<figure>" in lies._repr_html_()
    if any(isinstance(size, str) for size in lies.shape):
        for ask in (
            lambda: lies.shard_shape,
            lies.indices,
            lambda: lies.bytes_per_device,
            lambda: lies.local_shape,
        ):
            with pytest.raises(
                ValueError,
                match=r"the sizes of '.*' are not known: pass them with layout",
            ):
                ask()


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (P(), "..."),
        (P("d"), "_/d ..."),
        (P("d", None), "_/d ..."),
        (P(None, ("t", "d")), "_ _/t/d ..."),
    ],
)
def test_of_bare_shardings(auto_mesh: Mesh, spec: P, text: str) -> None:
    sharding = NamedSharding(auto_mesh, spec)
    lies = st.layout(sharding)
    assert str(lies) == text and lies == st.layout(
        NamedSharding(auto_mesh, P(*spec, None, None))
    )
    assert [entry for entry in lies.spec if entry] == [entry for entry in spec if entry]
    assert lies != st.layout(NamedSharding(auto_mesh, P("t"))) and lies != st.layout(
        sharding, shape=(8, 8)
    )
    with jax.set_mesh(auto_mesh):
        compilers = sharding._to_xla_hlo_sharding(2)
        assert str(st.layout(compilers)) == text


def test_sizes_that_an_annotation_takes(auto_mesh: Mesh) -> None:
    x = st.shard(jnp.ones((8, 3, 16)), f32["8/d 3 16/t"], auto_mesh)
    assert st.layout(f32["B/d ... M/t"], auto_mesh, shape=(8, 3, 16)) == st.layout(x)
    assert st.layout(f32["B/d ... M/t"], auto_mesh, shape=(8, 16)).dims == (
        ("d",),
        ("t",),
    )
    with pytest.raises(
        ValueError,
        match=r"dimension 0 of f32\['8/d M'\] is 8, the shape \(4, 2\) has 4",
    ):
        st.layout(f32["8/d M"], shape=(4, 2))
    with pytest.raises(ValueError, match="has 2 dimensions, the shape has 3"):
        st.layout(f32["B M"], shape=(4, 2, 1))
    with pytest.raises(
        ValueError, match=r"f32\['B/x'\]: the mesh has no axis 'x' \(axes: 'd', 't'\)"
    ):
        st.layout(f32["B/x"], auto_mesh)


def test_of_traced_values(explicit_mesh: Mesh, auto_mesh: Mesh) -> None:
    seen: list[str] = []

    def f(x: jax.Array) -> jax.Array:
        seen.append(str(st.layout(x)))
        return x

    for mesh in (explicit_mesh, auto_mesh):
        with jax.set_mesh(mesh):
            x = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P("t", "d")))
            if mesh is auto_mesh:
                with pytest.raises(TypeError, match="only Explicit mesh axes"):
                    jax.jit(f)(x)
            else:
                jax.jit(f)(x)
    assert seen == ["8/t 16/d"]


def test_what_pmap_made() -> None:
    """Newer JAX names the mapped axis, older JAX has a sharding of its own for it; both can be asked."""
    made = st.layout(jax.pmap(lambda x: x)(jnp.ones((8, 3))))
    assert made.shard_shape == (1, 3) and len(made.indices()) == 8


def test_tracers_of_vmap_and_grad_over_an_array(auto_mesh: Mesh) -> None:
    x = jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P("t", "d")))
    seen = []
    jax.vmap(lambda row: seen.append(st.layout(row)))(x)
    jax.vmap(
        jax.grad(lambda row: (seen.append(st.layout(row)), row.sum())[1]), in_axes=1
    )(x)
    jax.grad(lambda y: (seen.append(st.layout(y)), y.sum())[1])(x)
    assert [str(lies) for lies in seen] == ["16/d", "8/t", "8/t 16/d"]
    with pytest.raises(
        TypeError, match="the type of this traced value has no sharding"
    ):
        jax.jit(lambda y: st.layout(y))(x)


def test_a_compilers_sharding_needs_a_mesh(auto_mesh: Mesh) -> None:
    sharding = NamedSharding(auto_mesh, P("t", "d"))._to_xla_hlo_sharding(2)
    assert str(st.layout(sharding, auto_mesh, shape=(8, 16))) == "8/t 16/d"
    with pytest.raises(ValueError, match="names no devices: put a mesh in force"):
        st.layout(sharding, shape=(8, 16))


@pytest.mark.parametrize("devices", [1, 8])
@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
def test_keys_are_sharded_as_arrays_of_keys(kind: AxisType, devices: int) -> None:
    """JAX may give the spec of a key more entries than it has dimensions."""

    @st.typechecked
    def one(rng: st.key[""]) -> f32["n"]:
        return jax.random.normal(rng, (4,))

    @st.typechecked
    def sharded(rng: st.key["n/d"]) -> f32["n/d 4"]:
        return jax.vmap(one)(rng)

    mesh = jax.make_mesh(
        (devices,), ("d",), axis_types=(kind,), devices=jax.devices()[:devices]
    )
    with jax.set_mesh(mesh):
        rng = jax.random.key(0)
        rngs = st.shard(jax.random.split(rng, 8), st.key["n/d"])
        for wrapped in (lambda f: f, jax.jit):
            assert wrapped(one)(rng).shape == (4,)
            assert wrapped(sharded)(rngs).shape == (8, 4)
        assert str(st.layout(rng)) == "" and str(st.layout(rngs)) == "8/d"
