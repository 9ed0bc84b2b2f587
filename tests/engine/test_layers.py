"""Layers of libraries: what they give, held against the libraries where the test environments have them."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn
from flax import nnx

from shardlint.engine import analyze, run
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.values import ArrayValue, Value

HAIKU = """
import haiku as hk
import jax.numpy as jnp
from shardtypes import f32

def f(x: f32['B 16'], ids: f32['B L'], y: f32['B N']):
    return RESULT
"""


@pytest.mark.parametrize(
    ("result", "codes"),
    [
        ("hk.Linear(32)(x) @ hk.get_parameter('w', (32, 8), init=jnp.zeros)", []),
        (
            "hk.Linear(32)(x) @ hk.get_parameter('w', (16, 8), init=jnp.zeros)",
            ["ST204"],
        ),
        ("hk.nets.MLP([64, 10])(x) + jnp.zeros(10)", []),
        ("hk.nets.MLP([64, 10])(x) + jnp.zeros(5)", ["ST204"]),
        ("hk.LayerNorm(-1, True, True)(x) + jnp.zeros(5)", ["ST204"]),
        ("hk.Embed(100, 8)(ids) + jnp.zeros(5)", ["ST204"]),
    ],
)
def test_haiku(result: str, codes: list[str]) -> None:
    module = lower(
        HAIKU.replace("RESULT", result).encode(), "example", "example.py"
    ).module
    assert [
        event.code for event in analyze(Project({"example": module}), module)
    ] == codes


# --- flax and equinox are there, and say what is right ----------------------------------------------------------------

LINEN = {
    "nn.Dense(7)": [(3,), (2, 5, 3)],
    "nn.Conv(7, (3, 3))": [(2, 8, 8, 3), (4, 2, 8, 8, 3)],
    "nn.Conv(7, (3, 3), strides=2)": [(2, 8, 8, 3)],
    "nn.Conv(7, kernel_size=(3,), padding='VALID', strides=1)": [(2, 8, 3)],
    "nn.ConvTranspose(7, (3,), strides=2)": [(2, 8, 3)],
    "nn.DenseGeneral((4, 7))": [(2, 5, 3)],
    "nn.DenseGeneral(7, axis=(-2, -1))": [(2, 5, 4, 3)],
    "nn.LayerNorm()": [(2, 5, 3)],
    "nn.PReLU()": [(2, 5, 3)],
    "nn.MultiHeadDotProductAttention(2)": [(2, 5, 4), (3, 2, 5, 4)],
    "nn.MultiHeadAttention(2, out_features=7)": [(2, 5, 4)],
    "nn.SelfAttention(num_heads=2, qkv_features=6)": [(2, 5, 4)],
}
EQUINOX = {
    "eqx.nn.Linear(3, 7, key=KEY)": [(3,)],
    "eqx.nn.Conv2d(3, 7, 3, key=KEY)": [(3, 8, 8)],
    "eqx.nn.ConvTranspose1d(3, 7, 3, key=KEY)": [(3, 8)],
    "eqx.nn.MaxPool2d(2)": [(3, 8, 8)],
    "eqx.nn.AdaptiveAvgPool1d(2)": [(3, 8)],
    "eqx.nn.MLP(3, 7, 8, 2, key=KEY)": [(3,)],
}
NNX = {
    "nnx.Linear(3, 7, rngs=nnx.Rngs(0))": [(2, 5, 3)],
    "nnx.Conv(3, 7, (3, 3), rngs=nnx.Rngs(0))": [(2, 8, 8, 3)],
    "nnx.LinearGeneral(3, (4, 7), rngs=nnx.Rngs(0))": [(2, 5, 3)],
    "nnx.MultiHeadAttention(2, 4, out_features=7, decode=False, rngs=nnx.Rngs(0))": [
        (2, 5, 4)
    ],
    "nnx.BatchNorm(3, rngs=nnx.Rngs(0))": [(2, 5, 3)],
}
#: How many positions they give depends on more than their names.
MOVING = frozenset(
    [
        one
        for one in (*EQUINOX, *LINEN, *NNX)
        if "Pool" in one or "strides" in one or ("eqx" in one and "Conv" in one)
    ]
)
PROGRAM = """
import equinox as eqx, flax.linen as nn, jax, jax.numpy as jnp
from flax import nnx

KEY = jax.random.key(0)

def f():
    layer = LAYER
    y = layer(jnp.ones(SHAPE))
"""


def inferred(source: str, name: str = "y") -> Value:
    module = lower(source.encode(), "example", "example.py").module
    return next(
        value
        for found, value in run(Project({"example": module}), module).it.seen.values()
        if found == name
    )


def computed(layer: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    names = {"eqx": eqx, "nn": nn, "nnx": nnx, "KEY": jax.random.key(0)}
    made = eval(layer, names)
    x = jnp.ones(shape)
    if isinstance(made, nn.Module):
        return tuple(
            jax.eval_shape(lambda: made.init_with_output(jax.random.key(0), x)[0]).shape
        )
    return tuple(made(x).shape)


CASES = [
    (layer, shape)
    for table in (LINEN, EQUINOX, NNX)
    for layer, shapes in table.items()
    for shape in shapes
]


@pytest.mark.once
@pytest.mark.filterwarnings("ignore:SelfAttention will be deprecated")
@pytest.mark.parametrize(
    ("layer", "shape"), CASES, ids=[f"{layer}-{shape}" for layer, shape in CASES]
)
def test_layers_give_what_their_library_gives(
    layer: str, shape: tuple[int, ...]
) -> None:
    found = inferred(PROGRAM.replace("LAYER", layer).replace("SHAPE", str(shape)))
    wanted = computed(layer, shape)
    assert isinstance(found, ArrayValue) and found.dims is not None
    sizes = [dim.size.constant if dim.size is not None else None for dim in found.dims]
    assert len(sizes) == len(wanted)
    assert all(
        size in (None, real) for size, real in zip(sizes, wanted, strict=True)
    ), (sizes, wanted)
    assert (None in sizes) == (layer in MOVING)


FUNCTIONS = [
    f"{library}.{call}"
    for library in ("nn", "nnx")
    for call in (
        "make_causal_mask(jnp.ones((2, 6)))",
        "make_causal_mask(jnp.ones((2, 6)), 1)",
        "make_causal_mask(jnp.ones((2, 6)), dtype=jnp.bool_)",
        "make_attention_mask(jnp.ones((2, 6)), jnp.ones((2, 5)))",
        "make_attention_mask(jnp.ones((2, 6)), jnp.ones((2, 5)), jnp.equal, 2, jnp.int8)",
        "combine_masks(jnp.ones((2, 1, 6, 6)), None, jnp.ones((1, 1, 6, 6)))",
        "combine_masks(jnp.ones((2, 6)) > 0, dtype=jnp.bfloat16)",
        "dot_product_attention(jnp.ones((2, 6, 4, 8)), jnp.ones((2, 5, 4, 8)), jnp.ones((2, 5, 4, 8)))",
        "pool(jnp.ones((2, 6, 8)), 0.0, jax.lax.add, (2,), (1,), 'SAME')",
        "avg_pool(jnp.ones((2, 6, 6, 8)), (2, 2))",
        "max_pool(jnp.ones((6, 8)), (2,))",
    )
]
FUNCTIONS += [
    "nn.dot_product_attention(jnp.ones((2, 6, 4, 8)), jnp.ones((2, 5, 4, 8)), jnp.ones((2, 5, 4, 3)))",
    "nn.dot_product_attention_weights(jnp.ones((2, 6, 4, 8)), jnp.ones((2, 5, 4, 8)))",
    "nn.normalize(jnp.ones((2, 8)))",
    "nn.zeros(KEY, (2, 3))",
    "nn.ones_init()(KEY, (2, 3))",
    "nn.unbox(jnp.ones((2, 3)))",
    "nn.merge_param('x', None, jnp.ones((2, 3)))",
]


@pytest.mark.parametrize("call", FUNCTIONS)
def test_functions_give_what_their_library_gives(call: str) -> None:
    program = PROGRAM.replace("y = layer(jnp.ones(SHAPE))", f"y = {call}")
    found = inferred(program.replace("LAYER", "0"))
    names = {"nn": nn, "nnx": nnx, "jax": jax, "jnp": jnp, "KEY": jax.random.key(0)}
    wanted = eval(call, names)
    assert isinstance(found, ArrayValue) and found.dims is not None
    sizes = [dim.size.constant if dim.size is not None else None for dim in found.dims]
    assert len(sizes) == wanted.ndim
    pairs = zip(sizes, wanted.shape, strict=True)
    assert all(size in (None, real) for size, real in pairs), (sizes, wanted.shape)
    assert (None in sizes) == ("pool" in call)
    assert found.dtype in (None, str(wanted.dtype))


SCANNED = """
import flax.linen as nn, jax, jax.numpy as jnp

class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        x = x + nn.Dense(4)(nn.tanh(x))
        return x, None

class Stack(nn.Module):
    @nn.compact
    def __call__(self, x):
        block = nn.remat(Block, prevent_cse=False)
        split = {"params": True}
        y, _ = nn.scan(block, variable_axes={"params": 0}, split_rngs=split, length=3)(name="blocks")(x, None)
        z = nn.LayerNorm()(y)
        return z

def f():
    out = Stack().apply({}, jnp.ones((2, 4)))
"""


def test_scanned_modules_give_what_they_carry() -> None:
    found = inferred(SCANNED, "z")
    assert isinstance(found, ArrayValue) and found.dims is not None
    assert [dim.size.constant for dim in found.dims if dim.size is not None] == [2, 4]


UNKNOWN = """
import flax.linen as nn

def f(x):
    y = x + nn.Dense(4)(x)
    return y.shape
"""


def test_what_a_layer_gives_is_an_array() -> None:
    found = inferred(UNKNOWN)
    assert isinstance(found, ArrayValue) and found.dims is None


NNX_MODULES = """
import jax.numpy as jnp
from flax import nnx

class Block(nnx.Module):
    def __init__(self, rngs):
        self.linear = nnx.Linear(3, 3, rngs=rngs)

    def __call__(self, x):
        return self.linear(x)

class Deep(nnx.Module):
    def __init__(self, rngs, depth=2):
        self.blocks = nnx.List(BLOCKS)
        self.last = nnx.Linear(3, 7, rngs=rngs)

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(x)

def loss(model, x, scale):
    out = model(x)
    return jnp.sum(out) * scale, out

def both(model, x):
    return nnx.value_and_grad(loss, has_aux=True)(model, x, 1.0)

def f(depth):
    model = Deep(nnx.Rngs(0), depth)
    (value, y), grads = both(model, jnp.ones((2, 3)))
    by_x = nnx.grad(lambda x: loss(model, x, 1.0)[0])(jnp.ones((2, 3)))
    first = model.blocks[0](jnp.ones((5, 3)))
"""


@pytest.mark.parametrize(
    "blocks",
    [
        "[Block(rngs) for _ in range(depth)]",
        "[Block(rngs), Block(rngs)]",
        "(Block(rngs), Block(rngs))",
    ],
)
@pytest.mark.parametrize(
    ("name", "shape"),
    [("value", []), ("y", [2, 7]), ("by_x", [2, 3]), ("first", [5, 3])],
)
def test_modules_of_nnx_in_lists_and_under_gradients(
    blocks: str, name: str, shape: list[int]
) -> None:
    found = inferred(NNX_MODULES.replace("BLOCKS", blocks), name)
    assert isinstance(found, ArrayValue) and found.dims is not None
    sizes = [dim.size.constant for dim in found.dims if dim.size is not None]
    assert sizes == shape


def test_the_gradient_by_a_module_of_nnx_is_not_known() -> None:
    program = NNX_MODULES.replace("BLOCKS", "[Block(rngs)]")
    assert not isinstance(inferred(program, "grads"), ArrayValue)
