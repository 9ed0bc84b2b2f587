"""The types of axes that a program does not state, by the release of JAX that it is for. The installed JAX is the
oracle: what is reported of a program is refused by it, and the axes that it makes are those that the engine takes."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest

from shardlint.config import Config
from shardlint.engine import run
from shardlint.events import Event
from shardlint.jax_version import NEWEST, Version, parse_version
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import MeshValue
from tests.projects import lowered

INSTALLED = parse_version(jax.__version__) or NEWEST
HEAD = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec as P, auto_axes
from shardtypes import f32

"""
MAKERS = {
    "make_mesh": "jax.make_mesh((2, 4), ('d', 't'))",
    "make_mesh by name": "jax.make_mesh((2, 4), axis_names=('d', 't'))",
    "Mesh": "Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ('d', 't'))",
    "AbstractMesh": "AbstractMesh((2, 4), ('d', 't'))",
    "auto": "jax.make_mesh((2, 4), ('d', 't'), axis_types=(AxisType.Auto,) * 2)",
    "explicit": "jax.make_mesh((2, 4), ('d', 't'), axis_types=(AxisType.Explicit,) * 2)",
    "mixed": "jax.make_mesh((2, 4), ('d', 't'), axis_types=(AxisType.Auto, AxisType.Explicit))",
}
#: How a mesh comes into force, and what is then done with a value that lies on it.
INTO_FORCE = {
    "set": "jax.set_mesh(mesh)\n{}",
    "with set": "with jax.set_mesh(mesh):\n    {}",
    "legacy": "with mesh:\n    {}",
    "not at all": "{}",
}
PLACED = "x = jax.device_put(np.ones((8, 16), np.float32), NamedSharding(mesh, P('d', 't'))); "
DONE = {
    "contraction": PLACED + "y = x @ x.T",
    "compiled contraction": PLACED + "y = jax.jit(lambda a: a @ a.T)(x)",
    "reshape": PLACED + "y = x.reshape(-1)",
    "sum": PLACED + "y = x + x.sum(1, keepdims=True)",
    "constraint": PLACED
    + "y = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P('t', 'd')))",
    "made here": "x = jnp.ones((8, 16)); y = jax.jit(lambda a: a @ a.T)(x)",
    "made here, constraint": "y = jax.jit(lambda a: jax.lax.with_sharding_constraint(a, P()))(jnp.ones((8, 16)))",
    "compiled with shardings": (
        "f = jax.jit(lambda a: a @ a.T, in_shardings=NamedSharding(mesh, P('d', 't'))); y = f(np.ones((8, 16)))"
    ),
    "automatic": PLACED
    + "y = auto_axes(lambda a: a @ a.T, out_sharding=NamedSharding(mesh, P('d')))(x)",
    "mapped": (
        "x = np.ones((8, 16), np.float32); "
        "y = jax.shard_map(lambda a: a @ a.T, mesh=mesh, in_specs=P('d'), out_specs=P('d'))(x)"
    ),
}


def opinion(
    program: str, release: Version = INSTALLED
) -> tuple[list[Event], dict[str, object]]:
    module = lower(program.encode(), "m", "m.py").module
    analysis = run(Project({"m": module}), module, Config(jax_version=release))
    return analysis.found(), {
        name: value for (_, name), (_, value) in analysis.it.seen.items()
    }


def refused(program: str) -> str | None:
    """What JAX raises, None if it accepts the program."""
    before = jax.sharding.get_mesh() if hasattr(jax.sharding, "get_mesh") else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(program, "m.py", "exec"), {})
    except Exception as error:  # noqa: BLE001 - whatever JAX raises is its answer
        return f"{type(error).__name__}: {error}"
    finally:
        if before is not None:
            jax.set_mesh(None if before.empty else before)
    return None


@pytest.mark.parametrize("maker", MAKERS)
def test_axes_have_the_types_that_jax_gives_them(maker: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names: dict[str, object] = {}
        exec(compile(f"{HEAD}mesh = {MAKERS[maker]}\n", "m.py", "exec"), names)
    mesh = names["mesh"]
    assert isinstance(mesh, jax.sharding.Mesh | jax.sharding.AbstractMesh)
    seen = opinion(f"{HEAD}mesh = {MAKERS[maker]}\n")[1]["mesh"]
    assert isinstance(seen, MeshValue)
    assert seen.types == tuple(kind.name for kind in mesh.axis_types)
    assert seen.axes == tuple(mesh.shape.items())


@pytest.mark.parametrize("how", INTO_FORCE)
@pytest.mark.parametrize("maker", [name for name in MAKERS if name != "AbstractMesh"])
def test_what_is_reported_is_refused(maker: str, how: str) -> None:
    reported = []
    for name, text in DONE.items():
        program = (
            f"{HEAD}mesh = {MAKERS[maker]}\n" + INTO_FORCE[how].format(text) + "\n"
        )
        events, _ = opinion(program)
        if any(event.code.startswith("ST3") for event in events):
            reported.append(name)
            assert refused(program) is not None, (program, events)
    if maker in ("make_mesh", "explicit") and how in ("set", "with set"):
        assert {"contraction", "compiled contraction", "constraint"} <= set(reported), (
            reported
        )


@pytest.mark.once
@pytest.mark.parametrize(
    ("maker", "release", "wanted"),
    [
        ("make_mesh", (0, 8, 3), "Auto"),
        ("make_mesh", (0, 9), "Explicit"),
        ("make_mesh", (0, 9, 0), "Explicit"),
        ("make_mesh", NEWEST, "Explicit"),
        ("AbstractMesh", (0, 10, 2), "Auto"),
        ("AbstractMesh", (0, 11, 0), "Auto"),
        ("AbstractMesh", (0, 11, 1), "Explicit"),
        ("Mesh", (0, 4, 20), "Auto"),
        ("Mesh", NEWEST, "Auto"),
        ("explicit", (0, 7, 2), "Explicit"),
        ("auto", NEWEST, "Auto"),
    ],
)
def test_the_release_decides(maker: str, release: Version, wanted: str) -> None:
    seen = opinion(f"{HEAD}mesh = {MAKERS[maker]}\n", release)[1]["mesh"]
    assert isinstance(seen, MeshValue)
    assert seen.types == (wanted, wanted)


WRONG = "def f(x: f32['B/d M'], y: f32['B/t M']):\n    return x + y\n"


@pytest.mark.once
@pytest.mark.parametrize(
    ("setting", "release", "wanted"),
    [
        ("jax.set_mesh(jax.make_mesh((2, 4), ('d', 't')))", (0, 10, 2), ["ST309"]),
        ("jax.set_mesh(jax.make_mesh((2, 4), ('d', 't')))", (0, 8, 2), []),
        (
            "jax.set_mesh(Mesh(np.array(jax.devices()).reshape(2, 4), ('d', 't')))",
            NEWEST,
            [],
        ),
        ("jax.sharding.set_mesh(jax.make_mesh((2, 4), ('d', 't')))", NEWEST, ["ST309"]),
        ("jax.sharding.use_mesh(jax.make_mesh((2, 4), ('d', 't')))", NEWEST, []),
    ],
)
def test_a_module_that_sets_its_mesh(
    setting: str, release: Version, wanted: list[str]
) -> None:
    assert [
        event.code for event in opinion(f"{HEAD}{setting}\n{WRONG}", release)[0]
    ] == wanted


SWITCHES = {
    "not at all": ("h = f\n", True),
    "of another function": ("def g(x):\n    return x\nh = auto_axes(g)\n", True),
    "of itself": ("h = auto_axes(f, out_sharding=P())\n", False),
    "as a decorator": ("@auto_axes\ndef g(x):\n    return f(x, x)\n", False),
    "as a decorator with arguments": (
        "@partial(auto_axes, out_sharding=P())\ndef g(x):\n    return f(x, x)\n",
        False,
    ),
    "through a call": (
        "def g(x):\n    return f(x, x)\nh = jax.jit(auto_axes(jax.vmap(g)))\n",
        False,
    ),
    "under another name": ("other = auto_axes\nh = other(f)\n", False),
    "of what it is given": (
        "def switch(k):\n    return auto_axes(k)\nh = switch(f)\n",
        False,
    ),
    "explicit": ("h = jax.sharding.explicit_axes(f, in_sharding=P())\n", False),
}


@pytest.mark.once
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_switch_speaks_of_what_it_is_given(switch: str, elsewhere: bool) -> None:
    """One in some file switches nothing off elsewhere."""
    text, reported = SWITCHES[switch]
    first = f"{HEAD}from functools import partial\njax.set_mesh(jax.make_mesh((2, 4), ('d', 't')))\n{WRONG}"
    files = {"m": first + ("" if elsewhere else text)}
    if elsewhere:
        files["n"] = f"{HEAD}from functools import partial\nfrom m import f\n{text}"
    modules = lowered(files)
    found = run(Project(modules), modules["m"], Config(jax_version=NEWEST)).found()
    assert [event.code for event in found] == (["ST309"] if reported else [])


def test_the_devices_are_there() -> None:
    assert np.prod([2, 4]) == jax.device_count()
