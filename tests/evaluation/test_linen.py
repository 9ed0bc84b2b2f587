"""``flax.linen`` in guarded code, against flax: what programs with its modules compute, number by number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from shardlint.cli import main
from tests.evaluation.running import AS_NUMBERS, assert_computes, in_jax, main_of

pytestmark = pytest.mark.once  # what flax computes does not change with JAX

HEAD = """
from typing import Any, Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
import flax.linen as nn
from flax import core, struct, traverse_util
from flax.training import train_state
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

X = np.sin(np.arange(2 * 8 * 6, dtype=np.float32)).reshape(2, 8, 6)
IMAGE = np.cos(np.arange(2 * 8 * 6 * 4, dtype=np.float32)).reshape(2, 8, 6, 4)
TOKENS = np.arange(2 * 8).reshape(2, 8) % 7
KEY = jax.random.key(0)


class MLP(nn.Module):
    width: int
    out: int = 3
    act: Callable = nn.gelu

    @nn.compact
    def __call__(self, x, train=True):
        x = nn.Dense(self.width)(x)
        x = nn.BatchNorm(use_running_average=not train)(x)
        x = nn.Dropout(0.25, deterministic=not train)(self.act(x))
        return nn.Dense(self.out, name="last")(x)


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        return x + jnp.tanh(nn.Dense(6)(nn.RMSNorm()(x)))


class Step(nn.Module):
    @nn.compact
    def __call__(self, x, scale):
        x = Block(name="block")(x) * scale
        return x, jnp.mean(x)

"""

LAYERS = {
    "Dense": "nn.Dense(5), X",
    "Dense of low precision": "nn.Dense(5, dtype=jnp.bfloat16), X",
    "Dense without a bias": "nn.Dense(5, use_bias=False), X",
    "DenseGeneral": "nn.DenseGeneral((3, 2), axis=(-2, -1)), X",
    "Einsum": "nn.Einsum((6, 3, 2), 'bti,ihd->bthd', use_bias=False), X",
    "Conv": "nn.Conv(5, (3, 3)), IMAGE",
    "Conv with strides": "nn.Conv(5, (3, 2), strides=(2, 1), padding='VALID'), IMAGE",
    "Conv of groups": "nn.Conv(8, (3, 3), feature_group_count=2, padding=1), IMAGE",
    "causal Conv": "nn.Conv(5, 3, padding='CAUSAL', kernel_dilation=2), X",
    "ConvTranspose": "nn.ConvTranspose(5, (3, 3), strides=(2, 2)), IMAGE",
    "Embed": "nn.Embed(7, 5), TOKENS",
    "LayerNorm": "nn.LayerNorm(), X",
    "LayerNorm of two dimensions": "nn.LayerNorm(reduction_axes=(1, 2), use_bias=False), X",
    "RMSNorm": "nn.RMSNorm(epsilon=1e-3), X",
    "GroupNorm": "nn.GroupNorm(num_groups=2), X",
    "Sequential": "nn.Sequential([nn.Dense(5), nn.relu, nn.Dense(2)]), X",
    "attention": "nn.MultiHeadDotProductAttention(2), X",
    "attention with a mask": "nn.MultiHeadAttention(num_heads=2, qkv_features=8), X, X, X",
    "attention to itself": "nn.SelfAttention(2, out_features=5, normalize_qk=True), X",
    "attention with dropout": "nn.SelfAttention(2, dropout_rate=0.3, deterministic=False), X",
}
PROGRAMS = {
    "a training step": """
        model = MLP(4)
        variables = model.init(KEY, X, train=False)

        class State(train_state.TrainState):
            batch_stats: Any

        state = State.create(
            apply_fn=model.apply,
            params=variables["params"],
            tx=optax.sgd(0.1, 0.9),
            batch_stats=variables["batch_stats"],
        )

        @jax.jit
        def step(state, x, key):
            def loss_fn(params):
                y, changed = state.apply_fn(
                    {"params": params, "batch_stats": state.batch_stats},
                    x,
                    train=True,
                    rngs={"dropout": key},
                    mutable=["batch_stats"],
                )
                return jnp.mean(y**2), changed

            (loss, changed), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
            return state.apply_gradients(grads=grads, batch_stats=changed["batch_stats"]), loss

        losses = []
        for k in range(3):
            state, loss = step(state, X, jax.random.fold_in(KEY, k))
            losses.append(loss)
        return losses, state.params, state.batch_stats, state.step
        """,
    "batch statistics that are kept": """
        model = MLP(4)
        variables = model.init({"params": KEY, "dropout": KEY}, X)
        return variables, model.apply(variables, X, train=False)
        """,
    "setup": """
        class Net(nn.Module):
            width: int

            def setup(self):
                self.embed = nn.Embed(7, self.width)
                self.layers = [nn.Dense(self.width) for _ in range(2)]
                self.scale = self.param("scale", nn.initializers.normal(0.5), (self.width,))

            def encode(self, tokens):
                return self.embed(tokens) * self.scale

            def __call__(self, tokens):
                x = self.encode(tokens)
                for layer in self.layers:
                    x = nn.relu(layer(x))
                return self.embed.attend(x)

        model = Net(5)
        variables = model.init(KEY, TOKENS)
        bound = model.bind(variables)
        return (
            variables,
            model.apply(variables, TOKENS),
            model.apply(variables, TOKENS, method="encode"),
            model.apply(variables, TOKENS, method=Net.encode),
            bound.encode(TOKENS),
            bound(TOKENS),
        )
        """,
    "modules in fields": """
        class Outer(nn.Module):
            inner: nn.Module
            heads: Sequence[nn.Module]

            @nn.compact
            def __call__(self, x):
                x = self.inner(x)
                return [head(x) for head in self.heads], nn.Dense(2)(x)

        model = Outer(MLP(4), [nn.Dense(2), nn.Dense(3)])
        keys = {"params": KEY, "dropout": jax.random.key(1)}
        y, variables = model.init_with_output(keys, X)
        return y, variables
        """,
    "the same module twice": """
        class Twice(nn.Module):
            @nn.compact
            def __call__(self, x):
                layer = nn.Dense(6)
                return layer(layer(x)) + Block()(Block()(x))

        return Twice().init_with_output(KEY, X)
        """,
    "other variables": """
        class Counting(nn.Module):
            @nn.compact
            def __call__(self, x):
                is_first = not self.has_variable("counts", "calls")
                calls = self.variable("counts", "calls", lambda: jnp.zeros((), jnp.int32))
                if not is_first:
                    calls.value += 1
                self.sow("intermediates", "seen", x.sum())
                return x * calls.value

        model = Counting()
        variables = model.init(KEY, X)
        y, changed = model.apply(variables, X, mutable=["counts", "intermediates"])
        return variables, y, changed
        """,
    "layers that are scanned": """
        Stack = nn.scan(
            nn.remat(Step),
            variable_axes={"params": 0},
            split_rngs={"params": True},
            in_axes=nn.broadcast,
            length=3,
        )
        model = Stack(name=None)
        params = jax.tree.map(
            lambda leaf: jnp.sin(jnp.arange(leaf.size, dtype=jnp.float32)).reshape(leaf.shape),
            model.init(KEY, X, 0.5)["params"],
        )
        y, means = model.apply({"params": params}, X, 0.5)
        grads = jax.grad(lambda p: jnp.sum(model.apply({"params": p}, X, 0.5)[0] ** 2))(params)
        return y, means, grads
        """,
    "experts side by side": """
        Experts = nn.vmap(
            nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=0, axis_size=2
        )
        model = Experts(features=3)
        shapes = jax.tree.map(lambda leaf: leaf.shape, model.init(KEY, X)["params"])
        ones = jax.tree.map(jnp.ones, shapes, is_leaf=lambda one: isinstance(one, tuple))
        return model.apply({"params": ones}, X)
        """,
    "names of axes": """
        class Named(nn.Module):
            @nn.compact
            def __call__(self, x):
                init = nn.with_logical_partitioning(nn.initializers.lecun_normal(), ("embed", "mlp"))
                x = nn.Dense(4, kernel_init=init)(x)
                return nn.with_logical_constraint(x, ("batch", None, "mlp"))

        rules = (("batch", "d"), ("mlp", "t"), ("embed", "d"))
        variables = Named().init(KEY, X)
        specs = nn.logical_to_mesh(nn.get_partition_spec(variables), rules)
        kernel = specs["params"]["Dense_0"]["kernel"]
        with nn.logical_axis_rules(rules):
            again = nn.logical_to_mesh_axes(("embed", None))
        return (
            Named().apply(variables, X),
            nn.unbox(variables),
            [kernel == P("d", "t"), again == P("d", None)],
        )
        """,
    "dicts of parameters": """
        params = core.freeze(Block().init(KEY, X)["params"])
        flat = traverse_util.flatten_dict(core.unfreeze(params), sep="/")
        doubled = traverse_util.path_aware_map(
            lambda path, leaf: leaf * 2 if path[-1] == "kernel" else leaf, core.unfreeze(params)
        )
        rest, dense = params.pop("Dense_0")
        return flat, doubled, rest, dense, traverse_util.unflatten_dict(flat, sep="/")
        """,
    "attention functions": """
        mask = nn.combine_masks(nn.make_attention_mask(TOKENS > 2, TOKENS > 3), nn.make_causal_mask(TOKENS))
        heads = np.stack([X, X], axis=2)
        return (
            mask,
            nn.dot_product_attention(heads, heads, heads, mask=mask),
            nn.max_pool(IMAGE, (2, 2), strides=(2, 2)),
            nn.avg_pool(IMAGE, (3, 3), padding="SAME"),
        )
        """,
    "a pmap": """
        model = Block()
        params = model.init(KEY, X)["params"]

        def loss(params, x):
            return jnp.mean(model.apply({"params": params}, x) ** 2)

        def step(params, x):
            grads = jax.grad(loss)(params, x)
            return jax.lax.pmean(grads, "batch")

        shards = jnp.reshape(X, (8, 2, 6))
        copies = jax.tree.map(lambda leaf: jnp.stack([leaf] * 8), params)
        return jax.tree.map(lambda leaf: leaf[0], jax.pmap(step, "batch")(copies, shards))
        """,
}

LAYER = """
def main():
    model, *args = {}
    return model.init_with_output({{"params": KEY, "dropout": jax.random.key(1)}}, *args)
"""
TEXTS = {name: HEAD + LAYER.format(text) for name, text in LAYERS.items()}
TEXTS.update({name: HEAD + main_of(body) for name, body in PROGRAMS.items()})


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[object]]:
    """The leaves of what each program gives with flax itself."""
    folder: Path = tmp_path_factory.mktemp("linen")
    found: Mapping[str, list[object]] = in_jax(folder, TEXTS, AS_NUMBERS)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_it_computes_what_flax_does(
    name: str, expected: Mapping[str, list[object]]
) -> None:
    tolerance = 3e-2 if "low precision" in name else 2e-4
    assert_computes(TEXTS[name], expected[name], tolerance)


CLASSIFIER = """
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.jax_utils import replicate
from jax import lax


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(8, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train{norm})(x)
        return nn.Dense(3)(nn.relu(x).mean(axis=(1, 2)))


model = Classifier()


@functools.partial(jax.pmap, axis_name="batch")
def train_step(variables, images, labels):
    def loss_fn(params):
        held = {{**variables, "params": params}}
        logits, changed = model.apply(held, images, train=True, mutable=["batch_stats"])
        losses = -jnp.take_along_axis(nn.log_softmax(logits), labels[:, None], axis=1)
        return losses.mean(), changed["batch_stats"]

    grads, stats = jax.grad(loss_fn, has_aux=True)(variables["params"])
    grads = {reduced}
    stats = lax.pmean(stats, "batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, variables["params"], grads)
    return {{"params": params, "batch_stats": stats}}


def main():
    devices = jax.local_device_count()
    images = jax.random.normal(jax.random.key(0), (16, 6, 6, 3))
    variables = model.init(jax.random.key(1), images, train=False)
    rows = images.reshape(devices, -1, 6, 6, 3)
    labels = jnp.arange(16).reshape(devices, -1) % 3
    return train_step(replicate(variables), rows, labels)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("norm", ["", ", axis_name='batch'"])
@pytest.mark.parametrize(
    ("reduced", "code"),
    [
        ("lax.pmean(grads, 'batch')", ""),
        ("lax.psum(grads, 'batch')", "ST316"),
    ],
)
def test_each_device_may_normalize_its_own_batch(
    norm: str, reduced: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """What is wrong beside it is found all the same, and the comparison is whole."""
    path = tmp_path / "program.py"
    path.write_text(CLASSIFIER.format(norm=norm, reduced=reduced))
    main([str(path), "--no-cache", "--format", "concise", "--statistics"])
    printed = capsys.readouterr().out
    found = [line for line in printed.splitlines() if line.startswith(f"{path}:")]
    assert [line.split()[1][: len(code)] for line in found] == [code] * bool(code)
    assert "program.py: batch" not in printed
