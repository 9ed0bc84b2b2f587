"""Mistakes that the projects of others made and mended: JAX and flax refuse each of them, and run its right twin."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from shardlint.engine.traced_sizes import COMPUTING
from tests.engine.test_cases import found, project

PRELUDE = """
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, Mesh, PartitionSpec as P
one = jax.devices()[:1]
"""


@dataclass(frozen=True)
class Mistake:
    """⟨…⟩ is wrong, and right where it is what stands after it. Where another place is reported, ``line`` has it."""

    code: str
    program: str
    right: str
    line: str = ""

    def source(self, wrong: bool) -> str:
        start, _, rest = self.program.partition("⟨")
        inside, _, end = rest.partition("⟩")
        return f"{PRELUDE}\n{start}{inside if wrong else self.right}{end}\n"

    def place(self) -> int:
        """The line that is reported."""
        source = self.source(wrong=True)
        if self.line:
            return source[: source.index(self.line)].count("\n") + 1
        return len(PRELUDE.splitlines()) + 2 + self.program.split("⟨")[0].count("\n")


_MESH = 'mesh = jax.make_mesh((1, 1), ("d", "t"))\n'
MESHES = {
    "a number for a mesh": Mistake(
        "ST314", "mesh_utils.create_device_mesh(⟨1⟩, one)", "(1,)"
    ),
    "all devices for a mesh": Mistake(
        "ST314", "mesh_utils.create_device_mesh(⟨len(one)⟩, one)", "[len(one)]"
    ),
    "as many as there are": Mistake(
        "ST314",
        "n = jax.device_count()\nmesh_utils.create_device_mesh(⟨n⟩)",
        "(n,)",
    ),
    "a number by its name": Mistake(
        "ST314", "mesh_utils.create_device_mesh(devices=one, mesh_shape=⟨1⟩)", "[1]"
    ),
    "a number for make_mesh": Mistake("ST314", 'jax.make_mesh(⟨1⟩, ("d",))', "(1,)"),
    "a number for hybrid meshes": Mistake(
        "ST314",
        "mesh_utils.create_hybrid_device_mesh(⟨1⟩, 1, one, process_is_granule=True)",
        "(1,)",
    ),
    "a number for abstract meshes": Mistake(
        "ST314", 'AbstractMesh(⟨4⟩, ("d",))', "(4,)"
    ),
    "a size that is to be filled in": Mistake(
        "ST314", 'jax.make_mesh(⟨(1, -1)⟩, ("d", "t"))', "(1, 1)"
    ),
    "no device along an axis": Mistake(
        "ST314", "mesh_utils.create_device_mesh(⟨(1, 0)⟩, one)", "(1, 1)"
    ),
    "a list of devices": Mistake("ST314", 'Mesh(one, ⟨("d", "t")⟩)', '("d",)'),
    "an array of them": Mistake("ST314", 'Mesh(np.array(one), ⟨("d", "t")⟩)', '"d"'),
    "a number of devices": Mistake(
        "ST314", 'Mesh(⟨jax.device_count()⟩, ("d",))', "jax.devices()"
    ),
    "sizes in a variable": Mistake(
        "ST103", f'{_MESH}sizes = mesh.shape\nsizes[⟨"batch"⟩]', '"d"'
    ),
    "sizes in a dict": Mistake("ST103", f'{_MESH}dict(mesh.shape)[⟨"batch"⟩]', '"d"'),
    "sizes of an object": Mistake(
        "ST103",
        f"""{_MESH}
class Trainer:
    def __init__(self, mesh):
        self.mesh = mesh
        self.sizes = mesh.shape

    def replicas(self, name):
        return self.sizes[name]

Trainer(mesh).replicas(⟨"batch"⟩)""",
        '"d"',
        "return self.sizes[name]",
    ),
    "sizes in a helper": Mistake(
        "ST103",
        f"{_MESH}def size(sizes, name):\n    return sizes[name]\n\nsize(mesh.shape, ⟨'batch'⟩)",
        "'t'",
        "return sizes[name]",
    ),
    "a position": Mistake("ST103", f"{_MESH}mesh.shape[⟨0⟩]", '"d"'),
    "two axes": Mistake("ST103", f'{_MESH}mesh.shape[⟨"d", "t"⟩]', '"d"'),
    "the position of a name": Mistake(
        "ST103", f'{_MESH}mesh.axis_names.index(⟨"batch"⟩)', '"d"'
    ),
    "the position in a variable": Mistake(
        "ST103", f'{_MESH}names = mesh.axis_names\nnames.index(⟨"batch"⟩)', '"d"'
    ),
}
_MODULES = """
key = jax.random.key(0)
x = jnp.ones((4, 8))
variables = dict(variable_axes={"params": 0}, split_rngs={"params": True})

class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, mask=None, step=None):
        return nn.Dense(8)(x), None
"""
TRANSFORMED = {
    "axes of a scan": Mistake(
        "ST211",
        f"""{_MODULES}
layers = nn.scan(Layer, **variables, in_axes=⟨(nn.broadcast,)⟩, length=3)
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return layers(name="layers")(x, x, x)
Decoder().init(key, x)""",
        "(nn.broadcast, nn.broadcast)",
    ),
    "axes of a scan that maps": Mistake(
        "ST211",
        f"""{_MODULES}
layers = nn.scan(Layer, **variables, in_axes=⟨(0, 2)⟩)
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return layers(name="layers")(x, x, x)
Decoder().init(key, x)""",
        "(0, 0)",
    ),
    "steps of a scan": Mistake(
        "ST211",
        f"""{_MODULES}
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        layers = nn.scan(Layer, **variables, in_axes=⟨(0, 1)⟩)
        return layers(name="layers")(x, x, x)
Decoder().init(key, x)""",
        "(0, 0)",
    ),
    "the length of a scan": Mistake(
        "ST211",
        f"""{_MODULES}
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.scan(Layer, **variables, length=⟨3⟩)()(x, x)
Decoder().init(key, x)""",
        "4",
    ),
    "a list of axes": Mistake(
        "ST211",
        f"""{_MODULES}
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.scan(Layer, **variables, in_axes=⟨[0, 0]⟩)()(x, x, x)
Decoder().init(key, x)""",
        "(0, 0)",
    ),
    "axes of a method's scan": Mistake(
        "ST211",
        f"""{_MODULES}
class Steps(nn.Module):
    @partial(nn.scan, variable_broadcast="params", in_axes=⟨(0,)⟩)
    @nn.compact
    def __call__(self, x, a, b):
        return x + a + b, None
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return Steps()(x, jnp.ones((3, 8)), jnp.ones((3, 8)))
Decoder().init(key, x)""",
        "(0, 0)",
    ),
    "axes of modules side by side": Mistake(
        "ST211",
        f"""{_MODULES}
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.vmap(Layer, **variables, in_axes=⟨(0,)⟩)()(x, x)
Decoder().init(key, x)""",
        "(0, None)",
    ),
    "sizes of modules side by side": Mistake(
        "ST211",
        f"""{_MODULES}
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.vmap(Layer, **variables, in_axes=⟨(0, 1)⟩)()(x, x)
Decoder().init(key, x)""",
        "(0, 0)",
    ),
    "results of modules side by side": Mistake(
        "ST211",
        f"""{_MODULES}
class Dense(nn.Module):
    @nn.compact
    def __call__(self, x):
        return 2 * x
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.vmap(Dense, **variables, out_axes=⟨(0, 0)⟩)()(x)
Decoder().init(key, x)""",
        "0",
    ),
    "axes of a function of a module": Mistake(
        "ST211",
        f"""{_MODULES}
class Decoder(nn.Module):
    @nn.compact
    def __call__(self, x):
        mapped = nn.vmap(lambda layer, x: layer(x), **variables, in_axes=⟨(0, 0)⟩)
        return mapped(Layer(), x)
Decoder().init(key, x)""",
        "(0,)",
    ),
    "axes of objects": Mistake(
        "ST211",
        """
@nnx.vmap(in_axes=⟨(None,)⟩)
def forward(model, x):
    return model(x)
forward(nnx.Linear(8, 3, rngs=nnx.Rngs(0)), jnp.ones((4, 8)))""",
        "(None, 0)",
    ),
    "axes of a scan of objects": Mistake(
        "ST211",
        """
@partial(nnx.scan, in_axes=⟨(nnx.Carry, 0, 0)⟩, out_axes=(nnx.Carry, 0))
def steps(x, step):
    return x + step, step
steps(jnp.ones(3), jnp.ones((4, 3)))""",
        "(nnx.Carry, 0)",
    ),
    "a static position": Mistake(
        "ST220", "jax.jit(lambda x, n: x * n, static_argnums=⟨2⟩)", "1"
    ),
    "a position that is given away": Mistake(
        "ST220",
        "@partial(jax.jit, donate_argnums=⟨(0, 2)⟩)\ndef f(x, n):\n    return x",
        "(0, 1)",
    ),
    "a static position of a checkpoint": Mistake(
        "ST220",
        "def f(x, n):\n    return x * n\n\njax.checkpoint(f, static_argnums=⟨(2,)⟩)(jnp.ones(3), 2)",
        "(1,)",
    ),
    "a static position of a module": Mistake(
        "ST220",
        f"{_MODULES}\nnn.remat(Layer, static_argnums=⟨(4,)⟩)().init(key, x, x, 3)",
        "(3,)",
    ),
    "a static position of an object": Mistake(
        "ST220",
        "nnx.remat(lambda x, n: x * n, static_argnums=⟨(2,)⟩)(jnp.ones(3), 2)",
        "(1,)",
    ),
}
_VARIABLE = """
class Cached(nn.Module):
    @nn.compact
    def __call__(self, x):
        cache = self.variable("cache", "key", INIT)
        if self.has_variable("cache", "key"):
            x = x + USE
        return x
Cached().init_with_output(jax.random.key(0), jnp.ones((2, 4, 8)))
"""
VARIABLES = {
    "a size that is written out": Mistake(
        "ST204",
        _VARIABLE.replace("INIT", "jnp.zeros, ⟨(2, 5, 8)⟩, jnp.float32").replace(
            "USE", "(jnp.ones((2, 4, 8)) + cache.value)"
        ),
        "(2, 4, 8)",
        "x = x + (jnp",
    ),
    "dimensions of a variable": Mistake(
        "ST208",
        _VARIABLE.replace("INIT", "lambda: jnp.zeros((2, 8))").replace(
            "USE", "jnp.sum(cache.value, axis=⟨2⟩).mean()"
        ),
        "1",
    ),
    "a parameter of a function": Mistake(
        "ST204",
        """
class Scaled(nn.Module):
    @nn.compact
    def __call__(self, x):
        return x * self.param("scale", lambda key, shape: jnp.ones(shape), ⟨(4,)⟩)
Scaled().init(jax.random.key(0), jnp.ones((2, 3)))""",
        "(3,)",
    ),
    "ranks of masks": Mistake(
        "ST204",
        "nnx.combine_masks(jnp.ones((1, 1, 4, 4)), ⟨jnp.ones((4, 4))⟩)",
        "jnp.ones((2, 1, 1, 4))",
    ),
    "sizes of masks": Mistake(
        "ST204",
        "nnx.combine_masks(jnp.ones((1, 1, 4, 4)), ⟨jnp.ones((2, 1, 1, 3))⟩)",
        "jnp.ones((2, 1, 1, 4))",
    ),
    "masks of two inputs": Mistake(
        "ST204",
        "jnp.zeros((2, 1, 5, 5)) + nn.make_causal_mask(jnp.ones((2, ⟨6⟩)))",
        "5",
    ),
}
TRACED = {
    name: Mistake(
        "ST220", f"@jax.jit\ndef f(x):\n    {body}\nf(jnp.ones((2, 3)))", right
    )
    for name, body, right in (
        (
            "sizes of a slice",
            "return lax.dynamic_slice(x, (0, 0), ⟨jnp.array((1, x.shape[1]))⟩)",
            "(1, x.shape[1])",
        ),
        (
            "sizes of a slice by name",
            "return lax.dynamic_slice(x, (0, 0), slice_sizes=⟨jnp.array((1, 2))⟩)",
            "np.array((1, 2))",
        ),
        (
            "a size of a slice",
            "n = jnp.argmax(x)\n    return lax.dynamic_slice_in_dim(x, 0, ⟨n⟩)",
            "2",
        ),
        ("a traced shape", "return jnp.zeros(⟨jnp.array(x.shape)⟩)", "x.shape"),
        ("a product", "return jnp.ones(⟨jnp.prod(jnp.array(x.shape))⟩)", "x.size"),
        (
            "a traced size",
            "n = jnp.count_nonzero(x)\n    return jnp.full((2, ⟨n⟩), 0.0)",
            "1",
        ),
        ("a count", "return jnp.arange(⟨jnp.sum(x > 0) + 1⟩)", "3"),
        ("a reshape to it", "return x.reshape(⟨jnp.max(x).astype(int)⟩, -1)", "3"),
        (
            "a broadcast to it",
            "return jnp.broadcast_to(x, (⟨jnp.argmin(x)⟩, 2, 3))",
            "4",
        ),
        ("traced repetitions", "return jnp.tile(x, ⟨jnp.argmax(x)⟩)", "2"),
        ("a number of points", "return jnp.linspace(0, 1, ⟨jnp.argmax(x)⟩)", "2"),
        ("parts", "return jnp.split(x, ⟨jnp.argmax(x)⟩, axis=1)", "3"),
        ("an axis", "return jnp.sum(x, axis=⟨jnp.argmin(x)⟩)", "1"),
        ("classes", "return jax.nn.one_hot(jnp.argmax(x), ⟨jnp.max(x)⟩)", "4"),
        (
            "a shape of numbers",
            "return jax.random.normal(jax.random.key(0), (⟨jnp.argmax(x)⟩,))",
            "3",
        ),
        ("keys", "return jax.random.split(jax.random.key(0), ⟨jnp.argmax(x)⟩)", "3"),
        ("a slice", "y = 2 * x\n    return jnp.abs(x)[:, : ⟨jnp.argmax(x)⟩]", "2"),
        ("a start", "n = jnp.argmax(x)\n    return jnp.abs(x)[⟨n⟩ :]", "1"),
        ("the best", "return lax.top_k(x, ⟨jnp.argmax(x)⟩)", "2"),
    )
}
TRACED |= {
    "a size that is an argument": Mistake(
        "ST220",
        """
def f(x, n):
    return jnp.arange(n)

@jax.jit
def g(x, n: jax.Array):
    return jnp.arange(⟨n⟩)
g(jnp.ones(3), jnp.array(3))""",
        "x.shape[0]",
    ),
    "a size in a scan": Mistake(
        "ST220",
        """
@jax.jit
def f(x):
    def step(carry, row):
        return carry, jnp.zeros(⟨jnp.argmax(row)⟩)
    return lax.scan(step, 0, x)
f(jnp.ones((2, 3)))""",
        "row.shape",
    ),
    "a size in what is compiled by a call": Mistake(
        "ST220",
        """
def f(x):
    n = jnp.argmax(x)
    return jnp.zeros(⟨n⟩)
jax.jit(f)(jnp.ones((2, 3)))""",
        "2",
    ),
}
TREES = {
    f"trees: {given}": Mistake(
        "ST220",
        f"x = jnp.ones(3)\njax.tree.map(lambda *leaves: leaves[0], {given})",
        right,
    )
    for given, right in (
        ("(0, None), ⟨(x, x)⟩", "(x, None)"),
        ("(0, 1, 2), ⟨(x, x)⟩", "(x, x, x)"),
        ("{'a': 0}, ⟨{'b': x}⟩", "{'a': (x, x)}"),
        ("{'a': 0}, ⟨(x,)⟩", "{'a': x}"),
        ("((0, 1), 1), ⟨(x, x)⟩", "((x, x), x)"),
        ("[0, 1], ⟨(x, x)⟩", "[x, x]"),
        ("⟨None⟩, x", "0"),
        ("(x, x), ⟨None⟩", "(None, None)"),
        ("(x, x), ⟨x⟩", "(x, (x, x))"),
        ("(0, 1), (x, x), ⟨(x,)⟩", "(x, None)"),
        ("(0, (1, {'a': 0})), ⟨(x, (x, {}))⟩", "(x, (x, {'a': x}))"),
    )
}
TREES["trees of a helper"] = Mistake(
    "ST220",
    """
def broadcast_prefix(prefix, tree):
    flat = []
    jax.tree.map(lambda axis, part: flat.append(axis), prefix, tree)
    return flat
broadcast_prefix(⟨(0, None)⟩, (jnp.ones(3), jnp.ones(3)))""",
    "(0, 1)",
    "jax.tree.map(lambda axis",
)
_ENUM = """
import enum

def centered(x, keep):
    return x - jnp.mean(x, axis=-1, keepdims=keep)

class Shaping(enum.Enum):
    MEMBER = MADE

    def __call__(self, x):
        return self.value(x, ⟨False⟩)

USE
"""
ENUMS = {
    f"a function of an enumeration: {made}": Mistake(
        "ST204",
        _ENUM.replace("MADE", made).replace("USE", use),
        "True",
        "return x - jnp.mean",
    )
    for made, use in (
        ("enum.member(centered)", "Shaping.MEMBER(jnp.ones((2, 3)))"),
        ("partial(centered)", "Shaping.MEMBER(jnp.ones((2, 3)))"),
    )
}
MISTAKES = MESHES | TRANSFORMED | VARIABLES | TRACED | TREES | ENUMS
#: What looks like one of them and is none.
SOUND = {
    "sizes of more than a mesh": f'{_MESH}dict(mesh.shape, batch=2)["batch"]',
    "sizes that are added to": f'{_MESH}sizes = dict(mesh.shape)\nsizes["batch"] = 2\nsizes["batch"]',
    "a size if there is one": f'{_MESH}mesh.shape.get("batch", 1)',
    "a condition": f'{_MESH}n = mesh.shape["batch"] if "batch" in mesh.shape else 1',
    "fewer slices than dimensions": "mesh_utils.create_hybrid_device_mesh((1, 1), 1, one, process_is_granule=True)",
    "a cache of another length": """
class Cached(nn.Module):
    @nn.compact
    def __call__(self, x):
        filled = self.has_variable("cache", "key")
        cache = self.variable("cache", "key", jnp.zeros, (2, 5, 8), jnp.float32)
        if filled:
            x = x + cache.value
        return x
x = jnp.ones((2, 4, 8))
Cached().apply({"cache": {"key": x}}, x)
Cached().init(jax.random.key(0), x)""",
    "a cache of the arguments": """
class Cached(nn.Module):
    @nn.compact
    def __call__(self, x):
        cache = self.variable("cache", "key", jnp.zeros, x.shape)
        return cache.value + jnp.ones((2, 5, 8))
x = jnp.ones((2, 5, 8))
variables = Cached().init(jax.random.key(0), x)
Cached().apply(variables, jnp.ones((2, 4, 8)))""",
    "a cache that grows": """
class Cached(nn.Module):
    @nn.compact
    def __call__(self, x):
        cache = self.variable("cache", "key", jnp.zeros, (2, 0, 8))
        cache.value = jnp.concatenate([cache.value, x], 1)
        y = cache.value + x
        return self.perturb("y", y)
Cached().init(jax.random.key(0), jnp.ones((2, 5, 8)))""",
    "a size from outside": """
n = jnp.array(3)
@jax.jit
def f(x):
    same = jnp.asarray(n)
    return jnp.zeros(n) + jnp.arange(same)
f(1)""",
    "a size that is not traced": """
@partial(jax.jit, static_argnums=1)
def f(x, n):
    return jnp.zeros(n) + jnp.arange(n)
f(1, 3)""",
    "a size that is computed at once": """
@jax.jit
def f(x):
    with jax.ensure_compile_time_eval():
        n = jnp.sum(jnp.arange(3))
        return jnp.zeros(n)
f(1)""",
    "a size without compilation": """
def f(x):
    n = jnp.argmax(x)
    return jnp.zeros(n), jnp.arange(jnp.argmax(x)), x.reshape(jnp.argmax(x), -1)
f(jnp.arange(2))""",
    "a size of a helper": """
def points(n):
    return jnp.arange(n)
@jax.jit
def f(x):
    return points(3) + points(x.shape[0])
f(jnp.ones(3)), points(jnp.array(3))""",
    "leaves of one's own": "jax.tree.map(lambda a, b: a, (0, None), (1, 2), is_leaf=lambda leaf: leaf is None)",
    "axes of each method": f"""{_MODULES}
layers = nn.vmap(Layer, methods={{"__call__": dict(**variables, in_axes=(0, None))}})
layers().init(key, x, jnp.ones((3, 8)))""",
    "variables that are mapped": f"""{_MODULES}
layers = nn.vmap(Layer, **variables, in_axes=None, axis_size=3)()
one = nn.vmap(Layer, **variables, in_axes=None)()
one.apply(layers.init(key, x), x)""",
    "positions in the rest": "jax.jit(lambda x, *rest: x, static_argnums=(3,))",
    "what a decorator takes": """
def logged(function):
    def inner(*args):
        return function(*args[:2])
    return inner
@partial(jax.jit, static_argnums=(2,))
@logged
def f(x, n):
    return x
f(1, 2, 3)""",
    "devices of one row": 'Mesh([one], ("d", "t"))',
    "devices in rows": 'Mesh(np.array(one).reshape(-1, 1), ("d", "t"))',
}


@pytest.mark.parametrize("name", sorted(COMPUTING))
def test_what_computes_gives_traced_arrays(name: str) -> None:
    function = getattr(jnp, name.removeprefix("jax.numpy."))
    outside = jnp.array(3)
    given = {
        "arange": (3,),
        "cumsum": (outside[None],),
        "ones": ((),),
        "sort": (outside[None],),
        "where": (outside > 0, outside, outside),
        "zeros": ((),),
    }
    twice = (
        "add",
        "dot",
        "floor_divide",
        "maximum",
        "minimum",
        "mod",
        "multiply",
        "power",
    )
    arguments = given.get(name.removeprefix("jax.numpy."), (outside,))
    if name.removeprefix("jax.numpy.") in twice:
        arguments = (outside, 1)
    traced = []

    def called(x: jax.Array) -> jax.Array:
        traced.append(isinstance(function(*arguments), jax.core.Tracer))
        return x

    jax.jit(called)(outside)
    assert traced == [True]


@pytest.mark.parametrize("name", MISTAKES)
def test_it_is_found_where_jax_refuses_it(name: str, tmp_path: Path) -> None:
    mistake = MISTAKES[name]
    case = tmp_path / "case.py"
    source = mistake.source(wrong=True)
    case.write_text(source)
    with pytest.raises((TypeError, ValueError, LookupError)):
        exec(compile(source, str(case), "exec"), {"__name__": "case"})
    assert found(project(tmp_path), case) == {(mistake.place(), mistake.code): 1}


@pytest.mark.parametrize("name", [*MISTAKES, *SOUND])
def test_nothing_is_found_where_jax_runs_it(name: str, tmp_path: Path) -> None:
    sound = name in SOUND
    source = f"{PRELUDE}\n{SOUND[name]}\n" if sound else MISTAKES[name].source(False)
    case = tmp_path / "case.py"
    case.write_text(source)
    exec(compile(source, str(case), "exec"), {"__name__": "case"})
    assert not found(project(tmp_path), case)
