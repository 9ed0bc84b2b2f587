"""``flax.nnx`` in guarded code, against flax: what programs with its modules compute, number by number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.evaluation.running import AS_NUMBERS, assert_computes, in_jax, main_of

pytestmark = pytest.mark.once  # what flax computes does not change with JAX

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

X = np.sin(np.arange(2 * 8 * 6, dtype=np.float32)).reshape(2, 8, 6)
IMAGE = np.cos(np.arange(2 * 8 * 6 * 4, dtype=np.float32)).reshape(2, 8, 6, 4)
TOKENS = np.arange(2 * 8).reshape(2, 8) % 7


class MLP(nnx.Module):
    def __init__(self, width, rngs):
        self.first = nnx.Linear(6, width, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.drop = nnx.Dropout(0.25, rngs=rngs)
        self.last = nnx.Linear(width, 3, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.gelu(self.norm(self.first(x)))))


class Block(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.RMSNorm(6, rngs=rngs)
        self.mix = nnx.Linear(6, 6, rngs=rngs)

    def __call__(self, x):
        return x + jnp.tanh(self.mix(self.norm(x)))


def loss(model, x):
    return jnp.mean(model(x) ** 2)

"""

LAYERS = {
    "Linear": "nnx.Linear(6, 5, rngs=rngs)(X)",
    "Linear of low precision": "nnx.Linear(6, 5, dtype=jnp.bfloat16, rngs=rngs)(X)",
    "Linear without a bias": "nnx.Linear(6, 5, use_bias=False, rngs=rngs)(X)",
    "Linear with its initializer": (
        "nnx.Linear(6, 5, bias_init=nnx.initializers.normal(0.3), rngs=rngs)(X)"
    ),
    "LinearGeneral": "nnx.LinearGeneral((8, 6), (3, 2), axis=(1, 2), rngs=rngs)(X)",
    "Einsum": "nnx.Einsum('bti,ihd->bthd', (6, 3, 2), (3, 2), rngs=rngs)(X)",
    "Conv": "nnx.Conv(4, 5, (3, 3), rngs=rngs)(IMAGE)",
    "Conv with strides": "nnx.Conv(4, 5, (3, 2), strides=(2, 1), padding='VALID', rngs=rngs)(IMAGE)",
    "Conv of groups": "nnx.Conv(4, 8, (3, 3), feature_group_count=2, padding=1, rngs=rngs)(IMAGE)",
    "Conv with holes": "nnx.Conv(4, 5, (3, 3), kernel_dilation=2, rngs=rngs)(IMAGE)",
    "causal Conv": "nnx.Conv(6, 5, (3,), padding='CAUSAL', rngs=rngs)(X)",
    "circular Conv": "nnx.Conv(6, 5, (3,), padding='CIRCULAR', rngs=rngs)(X)",
    "ConvTranspose": "nnx.ConvTranspose(4, 5, (3, 3), strides=(2, 2), rngs=rngs)(IMAGE)",
    "Embed": "nnx.Embed(7, 5, rngs=rngs)(TOKENS)",
    "Embed attends": "nnx.Embed(7, 6, rngs=rngs).attend(X)",
    "LayerNorm": "nnx.LayerNorm(6, rngs=rngs)(X)",
    "LayerNorm of two dimensions": "nnx.LayerNorm(6, reduction_axes=(1, 2), use_bias=False, rngs=rngs)(X)",
    "RMSNorm": "nnx.RMSNorm(6, epsilon=1e-3, rngs=rngs)(X)",
    "GroupNorm": "nnx.GroupNorm(6, num_groups=2, rngs=rngs)(X)",
    "GroupNorm by size": "nnx.GroupNorm(4, num_groups=None, group_size=2, rngs=rngs)(IMAGE)",
    "BatchNorm": "nnx.BatchNorm(6, rngs=rngs)(X)",
    "BatchNorm in use": "nnx.BatchNorm(6, use_running_average=True, rngs=rngs)(X)",
    "Dropout": "nnx.Dropout(0.5, rngs=rngs)(X)",
    "Dropout with shared masks": "nnx.Dropout(0.5, broadcast_dims=(1,), rngs=rngs)(X)",
    "Sequential": "nnx.Sequential(nnx.Linear(6, 5, rngs=rngs), nnx.relu, nnx.Linear(5, 2, rngs=rngs))(X)",
    "attention": "nnx.MultiHeadAttention(2, 6, decode=False, rngs=rngs)(X)",
    "attention with a mask": (
        "nnx.MultiHeadAttention(2, 6, 8, 5, decode=False, rngs=rngs)(X, mask=nnx.make_causal_mask(TOKENS))"
    ),
    "attention to others": (
        "nnx.MultiHeadAttention(2, 6, normalize_qk=True, decode=False, rngs=rngs)(X, X[:, ::2])"
    ),
    "attention with dropout": (
        "nnx.MultiHeadAttention(2, 6, dropout_rate=0.3, deterministic=False, decode=False, rngs=rngs)(X)"
    ),
    "dot_product_attention": "nnx.dot_product_attention(*[IMAGE] * 3)",
    "max_pool": "nnx.max_pool(IMAGE, (2, 2), strides=(2, 2))",
    "avg_pool": "nnx.avg_pool(IMAGE, (3, 3), strides=(1, 1), padding='SAME')",
    "avg_pool without padding": "nnx.avg_pool(IMAGE, (3, 3), padding='SAME', count_include_pad=False)",
    "masks": "nnx.combine_masks(nnx.make_attention_mask(TOKENS > 2, TOKENS > 3), nnx.make_causal_mask(TOKENS))",
    "draws": "(rngs.normal((3,)), rngs.params.uniform((2,)), rngs.dropout(), nnx.Rngs(1, noise=2).noise())",
    "forks": "(rngs.fork().params(), rngs['params'].fork()(), rngs())",
}
PROGRAMS = {
    "a step of an optimizer": """
        model = MLP(4, nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(0.1, 0.9), wrt=nnx.Param)

        @nnx.jit
        def step(model, optimizer, x):
            value, grads = nnx.value_and_grad(loss)(model, x)
            optimizer.update(model, grads)
            return value

        values = [step(model, optimizer, X) for _ in range(3)]
        return values, nnx.state(model), optimizer.step, optimizer.opt_state
        """,
    "a gradient with more results": """
        model = MLP(4, nnx.Rngs(0))
        model.eval()

        def aux(model, x):
            y = model(x)
            return jnp.sum(y), y

        grads, y = nnx.grad(aux, has_aux=True)(model, X)
        return grads, y, model.first.kernel
        """,
    "a gradient of some variables": """
        model = MLP(4, nnx.Rngs(0))
        chosen = nnx.All(nnx.Param, nnx.PathContains("last"))
        return nnx.grad(loss, argnums=nnx.DiffState(0, chosen))(model, X)
        """,
    "taken apart and made": """
        graph, params, rest = nnx.split(MLP(4, nnx.Rngs(0)), nnx.Param, ...)
        params = jax.tree.map(lambda p: p * 2.0, params)
        model = nnx.merge(graph, params, rest)
        y = model(X)
        return y, nnx.state(model, nnx.BatchStat), params["first"]["kernel"], params.first.bias
        """,
    "made as a copy": """
        graph, params, rest = nnx.split(MLP(4, nnx.Rngs(0)), nnx.Param, ...)
        model = nnx.merge(graph, params, rest, copy=True)
        y = model(X)
        return y, nnx.state(model, nnx.BatchStat), nnx.state(nnx.clone(model), nnx.Param)
        """,
    "a pure function": """
        graph, params, rest = nnx.split(MLP(4, nnx.Rngs(0)), nnx.Param, ...)

        @jax.jit
        def value(params, rest):
            model = nnx.merge(graph, params, rest)
            return loss(model, X), nnx.state(model, nnx.BatchStat)

        return jax.value_and_grad(value, has_aux=True)(params, rest)
        """,
    "shared parts": """
        class Tied(nnx.Module):
            def __init__(self, rngs):
                self.embed = nnx.Embed(7, 6, rngs=rngs)
                self.again = self.embed

            def __call__(self, tokens):
                return self.again.attend(self.embed(tokens))

        model = Tied(nnx.Rngs(1))
        copy = nnx.clone(model)
        copy.embed.embedding[...] = copy.embed.embedding[...] * 2
        return copy(TOKENS), model(TOKENS), nnx.state(copy)
        """,
    "updated in place": """
        model = MLP(4, nnx.Rngs(0))
        state = nnx.state(model, nnx.Param)
        nnx.update(model, jax.tree.map(jnp.ones_like, state))
        model.last.bias.value = model.last.bias.value + 3.0
        model.last.kernel[0] = 5.0
        return model(X), -model.last.bias + model.last.kernel.T[0, 0], model.last.kernel.shape
        """,
    "lists of layers": """
        class Deep(nnx.Module):
            def __init__(self, rngs):
                self.blocks = nnx.List([Block(rngs) for _ in range(3)])

            def __call__(self, x):
                for block in self.blocks:
                    x = block(x)
                return x

        model = Deep(nnx.Rngs(0))
        return model(X), nnx.grad(loss)(model, X)
        """,
    "lists of layers as trees": """
        class Deep(nnx.Module):
            def __init__(self, rngs):
                self.blocks = nnx.List([Block(rngs) for _ in range(2)])

            def __call__(self, x):
                for block in self.blocks:
                    x = block(x)
                return x

        model = Deep(nnx.Rngs(0))
        doubled = jax.tree.map(lambda leaf: leaf * 2, model.blocks)
        grads = jax.tree.map(lambda g: g * 2, nnx.grad(loss)(model, X))
        return [block(X) for block in doubled], jax.tree.leaves(model.blocks), grads, len(jax.tree.leaves(model))
        """,
    "layers that are scanned": """
        @nnx.split_rngs(splits=3)
        @nnx.vmap(in_axes=0, out_axes=0)
        def make(rngs):
            return Block(rngs)

        blocks = make(nnx.Rngs(0))

        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        def forward(block, x):
            return block(x)

        return forward(blocks, X), blocks.mix.kernel
        """,
    "a module as a tree": """
        model = Block(nnx.Rngs(0))
        doubled = jax.tree.map(lambda leaf: leaf * 2, model)
        return doubled(X), jax.tree.leaves(model)
        """,
    "a vmap over examples": """
        model = Block(nnx.Rngs(0))
        return nnx.vmap(lambda model, x: model(x), in_axes=(None, 0))(model, X)
        """,
    "shard_map of a module": """
        mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        model = Block(nnx.Rngs(0))
        graph, params = nnx.split(model)

        def local(params, x):
            value = lax.pmean(loss(nnx.merge(graph, params), x), "d")
            return value

        mapped = jax.shard_map(local, mesh=mesh, in_specs=(P(), P(None, "d")), out_specs=P())
        return jax.value_and_grad(mapped)(params, X)
        """,
    "a cache": """
        attention = nnx.MultiHeadAttention(2, 6, decode=True, rngs=nnx.Rngs(0))
        attention.init_cache((2, 8, 6))
        return [attention(X[:, i : i + 1]) for i in range(3)], attention.cache_index
        """,
    "metrics": """
        metrics = nnx.MultiMetric(loss=nnx.metrics.Average("loss"), accuracy=nnx.metrics.Accuracy())
        for i in range(2):
            metrics.update(loss=jnp.float32(i), logits=X[0], labels=TOKENS[0] % 6)
        found = metrics.compute()
        metrics.reset()
        return found
        """,
    "what is sown": """
        class Sowing(nnx.Module):
            def __init__(self, rngs):
                self.mix = nnx.Linear(6, 6, rngs=rngs)

            def __call__(self, x):
                x = self.mix(x)
                self.sow(nnx.Intermediate, "mixed", x)
                return x

        model = Sowing(nnx.Rngs(0))
        y = model(X)
        return y, nnx.pop(model, nnx.Intermediate)
        """,
    "paths to leaves": """
        from typing import NamedTuple

        class Pair(NamedTuple):
            left: jax.Array
            right: list

        model = Block(nnx.Rngs(0))
        tree = {"pair": Pair(jnp.ones(2), [jnp.zeros(1), {"a": jnp.ones(3)}]), "state": nnx.state(model)}
        paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
        shown = [jax.tree_util.keystr(path) for path in paths]
        shown += [jax.tree_util.keystr(path[:2], simple=True, separator="/") for path in paths]
        assert len(shown) == 12
        return [[ord(letter) for letter in text] for text in shown]
        """,
    "specs": """
        init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("d", None))

        class Named(nnx.Module):
            def __init__(self, rngs):
                self.mix = nnx.Linear(6, 4, kernel_init=init, rngs=rngs)

        mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        with jax.set_mesh(mesh):
            state = nnx.state(Named(nnx.Rngs(0)))
            specs = nnx.get_partition_spec(state)
            kernel = specs["mix"]["kernel"]
            kernel = getattr(kernel, "value", kernel)
            return state, int(kernel[0] == "d"), len(kernel)
        """,
    "specs of what is no state alone": """
        init = nnx.with_partitioning(nnx.initializers.lecun_normal(), ("d", None))

        class Named(nnx.Module):
            def __init__(self, rngs):
                self.mix = nnx.Linear(6, 4, kernel_init=init, rngs=rngs)

        mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        with jax.set_mesh(mesh):
            _, params = nnx.split(Named(nnx.Rngs(0)), nnx.Param)
            held = (jnp.zeros(()), optax.adam(1e-3).init(params))
            shardings = nnx.get_named_sharding(held, mesh)
            specs = [s.spec for s in jax.tree.leaves(shardings)]
            return [(len(spec), int("d" in spec)) for spec in specs]
        """,
    "a general layer whose kernel is partitioned": """
        kernel = nnx.with_partitioning(nnx.initializers.lecun_normal(), (None, "d", None))
        bias = nnx.with_partitioning(nnx.initializers.normal(), ("d", None))
        mesh = jax.make_mesh((2,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        with jax.set_mesh(mesh):
            layer = nnx.LinearGeneral(6, (2, 4), kernel_init=kernel, bias_init=bias, rngs=nnx.Rngs(0))
            return layer(X), layer.kernel[...], layer.bias[...]
        """,
}


LAYER = """
def main():
    rngs = nnx.Rngs(0)
    return {}
"""
TEXTS = {name: HEAD + LAYER.format(text) for name, text in LAYERS.items()}
TEXTS.update({name: HEAD + main_of(body) for name, body in PROGRAMS.items()})


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[object]]:
    """The leaves of what each program gives with flax itself."""
    folder: Path = tmp_path_factory.mktemp("nnx")
    found: Mapping[str, list[object]] = in_jax(folder, TEXTS, AS_NUMBERS)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_it_computes_what_flax_does(
    name: str, expected: Mapping[str, list[object]]
) -> None:
    tolerance = 3e-2 if "low precision" in name else 2e-4
    assert_computes(TEXTS[name], expected[name], tolerance)
