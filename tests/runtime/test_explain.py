"""``explain``: what the compiler chose beside what was declared, as text, data and picture."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable
from html import escape
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32


@st.pytree_dataclass
class Params:
    w: f32["M/t F"]
    b: f32["F"]


def forward(
    p: Params, x: f32["B/d M/t"], scale: float = 1.0, *, shift: f32["F/t"]
) -> f32["B/d F"]:
    return x @ p.w * scale + p.b + shift


def arguments(
    mesh: Mesh, **options: P
) -> tuple[tuple[Params, jax.Array], dict[str, jax.Array]]:
    def put(shape: tuple[int, ...], *entries: object) -> jax.Array:
        return jax.device_put(jnp.ones(shape), NamedSharding(mesh, P(*entries)))

    params = Params(w=put((16, 32), "t"), b=put((32,)))
    return (
        params,
        jax.device_put(
            jnp.ones((8, 16)), NamedSharding(mesh, options.get("x", P("d", "t")))
        ),
    ), {"shift": put((32,), "t")}


def test_text_and_data(auto_mesh: Mesh) -> None:
    args, kwargs = arguments(auto_mesh)
    told = st.explain(forward, *args, **kwargs)
    line = forward.__code__.co_firstlineno + 3
    text = re.sub(r"from \S+/", "from ", str(told))
    assert text.splitlines()[:7] == [
        "forward on mesh d=2, t=4",
        "  arguments",
        "    p.b     f32[32]  128 bytes a device  replicated  declared f32['F']",
        "    p.w     f32[16/t, 32]  512 bytes a device  declared f32['M/t F']",
        "    x       f32[8/d, 16/t]  64 bytes a device  declared f32['B/d M/t']",
        "    shift   f32[32/t]  32 bytes a device  declared f32['F/t']",
        "  results",
    ]
    assert re.search(
        rf"(all_reduce|reduce_scatter) over t, \d+ bytes, from test_explain.py:{line}",
        text,
    ), text
    data = told.to_dict()
    assert json.loads(json.dumps(data))["function"] == "forward"
    by_name = {row["name"]: row for row in data["arguments"]}
    assert by_name["p.b"]["replicated"] and not by_name["x"]["replicated"]
    assert by_name["x"]["bytes_per_device"] == args[1].addressable_shards[0].data.nbytes
    assert {entry["kind"] for entry in data["collectives"]} <= {
        "all_reduce",
        "reduce_scatter",
        "all_gather",
    }


def test_what_differs_is_said(auto_mesh: Mesh) -> None:
    args, kwargs = arguments(auto_mesh, x=P("t"))
    told = st.explain(forward, *args, **kwargs)
    differs = {row.name: row.differs for row in told.arguments if row.differs}
    assert differs == {
        "x": "dimension 0 is sharded over 't', expected sharded over 'd'"
    }
    assert "but dimension 0 is sharded over 't'" in str(told)


def test_jitted_functions_static_and_unused_arguments(auto_mesh: Mesh) -> None:
    @functools.partial(jax.jit, static_argnums=0, static_argnames="scale")
    def f(
        n: int, unused: f32["B"], x: f32["B/d M"], *rest: jax.Array, scale: float
    ) -> dict[str, f32["B/d M"]]:
        return {"y": x * n * scale + rest[0]}

    x = jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P("d")))
    told = st.explain(f, 3, jnp.ones(8), x, x, scale=2.0)
    assert [row.name for row in told.arguments] == ["x", "rest[0]"]
    assert [row.name for row in told.results] == ["result['y']"]
    assert "no collectives" in str(told) and told.mesh == "d=2, t=4"


@dataclasses.dataclass
class Config:
    """What JAX takes for one value, and cannot hash."""

    width: int
    names: list[str]


class Net:
    def __init__(self, w: jax.Array) -> None:
        self.w, self.names = w, ["net"]

    def apply(self, x: f32["B/d M"], width: int) -> f32["B/d M"]:
        return x @ self.w[:, :width]


def with_number(x: f32["B/d M"], width: int) -> f32["B/d M"]:
    return x[:, :width]


def with_flags(
    x: f32["B/d M"], on: bool, *, kind: str = "plain", y: f32["B"] | None
) -> f32["B/d M"]:
    assert on is True
    assert kind in ("plain", "other")
    return x if y is None else x + y[:, None]


def with_objects(
    x: f32["B/d M"],
    apply: Callable[[Any], Any],
    config: Config,
    *shape: int,
    **rest: Any,
) -> dict[str, Any]:
    assert rest == {"names": ["a"]}
    return {"y": apply(x) + jnp.ones(shape), "said": config.names[0]}


def made_row(x: jax.Array) -> list[tuple[Any, tuple[Any, ...], dict[str, Any]]]:
    config = Config(16, ["a"])
    return [
        (with_number, (x, 3), {}),
        (with_number, (), {"width": 3, "x": x}),
        (with_flags, (x, True), {"y": None}),
        (with_flags, (x,), {"on": True, "kind": "other", "y": None}),
        (with_objects, (x, jnp.sin, config, 8, 16), {"names": ["a"]}),
        (functools.partial(with_number, width=3), (x,), {}),
        (Net(jnp.ones((16, 16))).apply, (x, 3), {}),
        (Net.apply, (Net(jnp.ones((16, 16))), x, 3), {}),
        (jax.jit(with_number, static_argnames="width"), (x, 3), {}),
        (jax.jit(with_number, static_argnames="width"), (x,), {"width": 3}),
        (jax.jit(with_number, static_argnums=-1), (x, 3), {}),
    ]


@pytest.mark.parametrize("case", range(11))
def test_arguments_that_are_no_arrays(auto_mesh: Mesh, case: int) -> None:
    """They are what they are in the call, not numbers that JAX traces."""
    x = jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P("d")))
    f, args, kwargs = made_row(x)[case]
    told = st.explain(f, *args, **kwargs)
    assert [(row.name, row.layout) for row in told.arguments] == [("x", st.layout(x))]
    assert [row.name for row in told.results] in (["result"], ["result['y']"])
    assert told.unfollowed == ""


def test_a_function_with_a_number_that_maps_is_followed(auto_mesh: Mesh) -> None:
    def summed(x: f32["B/d M"], times: int) -> f32["B M"]:
        def body(x: jax.Array) -> jax.Array:
            return jax.lax.psum(x * jnp.ones(times)[0], "d")

        return jax.shard_map(body, mesh=auto_mesh, in_specs=P("d"), out_specs=P(None))(
            x
        )

    x = jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P("d")))
    told = st.explain(summed, x, 3)
    assert told.unfollowed == ""
    assert "psum" in str(told.intermediates)


def test_explicit_arrays_are_followed_on_the_mesh_in_force(explicit_mesh: Mesh) -> None:
    """Their types name the device that the mesh is of."""

    def f(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F/t"]:
        return jnp.tanh(x @ w)

    with jax.set_mesh(explicit_mesh):
        x = jax.device_put(jnp.ones((8, 4)), NamedSharding(explicit_mesh, P("d")))
        w = jax.device_put(
            jnp.ones((4, 16)), NamedSharding(explicit_mesh, P(None, "t"))
        )
        assert st.explain(f, x, w).unfollowed == ""
        assert st.prove(f, x, w, mesh=explicit_mesh).ok is True


def test_abstract_arguments(auto_mesh: Mesh) -> None:
    x = jax.ShapeDtypeStruct(
        (1 << 20, 1 << 12), jnp.float32, sharding=NamedSharding(auto_mesh, P("d", "t"))
    )
    told = st.explain(lambda x: x * 2, x)
    assert told.arguments[0].bytes_per_device == (1 << 32) * 4 // 8


@pytest.mark.once
def test_pictures(auto_mesh: Mesh, explicit_mesh: Mesh) -> None:
    args, kwargs = arguments(auto_mesh)
    html = st.explain(forward, *args, **kwargs)._repr_html_()
    assert html.count("<svg") == 5 and "<script" not in html and "replicated" in html
    drawn = st.layout(args[1])._repr_html_()
    where = [f"d{d} t{t}" for d in range(2) for t in range(4)]
    numbers = [str(device.id) for device in auto_mesh.devices.flat]
    assert texts(drawn) == [
        text for pair in zip(where, numbers, strict=True) for text in pair
    ]
    rows = st.layout(
        jax.device_put(jnp.ones((4, 8, 8)), NamedSharding(auto_mesh, P("t")))
    )._repr_html_()
    assert texts(rows) == ["t0", "0, 4", "t1", "1, 5", "t2", "2, 6", "t3", "3, 7"]
    legend = "down: dimension 0 in 4 parts over 't'; replicated over 'd'; each device holds 1 × 8 × 8"
    assert escape(legend) in rows


def texts(picture: str) -> list[str]:
    """What the cells of a picture say."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture)


@pytest.mark.once
def test_pictures_do_not_grow_with_the_mesh() -> None:
    """Of 65,536 devices those of the first and the last parts are drawn."""
    wide = jax.sharding.AbstractMesh((256, 256), ("x", "y"))
    small = jax.sharding.AbstractMesh((8, 8), ("x", "y"))
    for shape in ("65536/x 4096/y", "B/x M/y"):
        drawn, whole = (
            st.layout(f32[shape], mesh=mesh)._repr_html_() for mesh in (wide, small)
        )
        found = texts(drawn)
        assert found[:5] == [f"x0 y{at}" for at in range(5)]
        assert found[-2:] == ["x255 y254", "x255 y255"]
        assert found.count("⋯") == 8 + 7 and len(found) == 8 * 8
        assert "256 parts over &#x27;x&#x27;" in drawn
        assert texts(whole) == [f"x{x} y{y}" for x in range(8) for y in range(8)]
        assert len(drawn) < 1.2 * len(whole)


def test_axes_are_major_to_minor_in_pictures(auto_mesh: Mesh) -> None:
    """The devices that a part names are those that hold it."""
    array = jax.device_put(jnp.arange(8.0), NamedSharding(auto_mesh, P(("t", "d"))))
    found = texts(st.layout(array)._repr_html_())
    assert found[::2] == [f"t{t} d{d}" for t in range(4) for d in range(2)]
    held = {shard.device.id: int(shard.data[0]) for shard in array.addressable_shards}
    assert [held[int(number)] for number in found[1::2]] == list(range(8))


@pytest.mark.parametrize(
    "entries",
    [("t",), (("t", "d"),), ("t", "d"), (None, ("d", "t")), ("d", "t")],
    ids=str,
)
def test_collectives_name_the_axes_that_split_the_argument(
    auto_mesh: Mesh, entries: tuple[Any, ...]
) -> None:
    """In whatever order: the compiler names the devices of a group in several ways, one for each order."""
    x = jax.ShapeDtypeStruct(
        (64, 64), jnp.float32, sharding=NamedSharding(auto_mesh, P(*entries))
    )
    wanted = {
        axis
        for entry in entries
        for axis in (entry if isinstance(entry, tuple) else (entry,))
        if axis
    }
    whole = NamedSharding(auto_mesh, P())
    with jax.set_mesh(auto_mesh):
        for f in (
            jax.jit(lambda x: jnp.sin(x), out_shardings=whole),
            jax.jit(lambda x: x.sum()),
        ):
            found = [entry.axes for entry in st.explain(f, x).collectives]
            assert None not in found
            assert {axis for axes in found for axis in axes or ()} == wanted
