"""Programs of some size, right and wrong: no law fails for a right one, every wrong one fails where it is wrong.

A wrong program is the right one with one change, as people make it. The line that must be named is the one that has
``line`` in it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

PROGRAMS = Path(__file__).parent / "programs"
#: What is proved, for all values; the others hold in numbers.
PROVED = {
    "decoder": {"causal", "causal, given", "independent"},
    "encoder": {"padding", "padding, pooled", "padding, loss", "independent"},
    "sequences": {
        "recurrent",
        "mixed",
        "convolved",
        "discounted",
        "running",
        "independent",
    },
    "training": {"independent", "independent, sharded", "causal, sharded"},
    "experts": {"independent", "causal"},
}


@dataclass(frozen=True)
class Wrong:
    """A change to a program, the law that it breaks, and what must be told: the line, and positions where they are
    certain."""

    program: str
    law: str
    old: str
    new: str
    line: str
    positions: tuple[int, ...] | None = None


SOFTMAX = "p = jax.nn.softmax(s"
WRONG = [
    Wrong("decoder", "causal", ">= positions[None", "+ 1 >= positions[None", SOFTMAX, (0, 1)),
    Wrong("decoder", "causal, given", "positions[:, None] >=", "positions[:, None] <=", SOFTMAX),
    Wrong("decoder", "causal", "s = jnp.where(mask, s, -1e9)", "s = s * 1", SOFTMAX, (0, 1)),
    Wrong("decoder", "causal",
          "s = jnp.where(mask, s, -1e9)", "s = jnp.where(mask, s, 0.0)", "bhqs,bshk->bqhk", (0, 1)),
    Wrong("decoder", "causal", "p = jax.nn.softmax(s, axis=-1)", "p = jax.nn.softmax(s, axis=-2)", SOFTMAX),
    Wrong("decoder", "causal", "square = jnp.mean(x * x, axis=-1", "square = jnp.mean(x * x, axis=1", "square ="),
    Wrong("decoder", "independent", "p = jax.nn.softmax(s, axis=-1)", "p = jax.nn.softmax(s, axis=0)", SOFTMAX),
    Wrong("decoder", "independent", "x * x, axis=-1", "x * x, axis=0", "square ="),
    Wrong("decoder", "independent", "x * x, axis=-1, keepdims=True", "x * x", "square ="),
    Wrong("decoder", "incremental", "positions = start + jnp.arange", "positions = jnp.arange", "a * cos - b * sin"),
    Wrong("decoder", "incremental", "[None, :] <= positions", "[None, :] < positions", SOFTMAX, (0,)),
    Wrong("decoder", "incremental", "v[None], (n, 0, start", "v[None], (n, 0, start - 1", "params.g2[n]) @ params.w1"),
    Wrong("decoder", "incremental", "k[None], (n, 0, start", "k[None], (n, 0, 0", SOFTMAX),
    Wrong("encoder", "padding", "mask[:, None, :], s", "mask[:, :, None], s", SOFTMAX),
    Wrong("encoder", "padding", "s, -1e9)\n    p = jax.nn.softmax(s, axis=-1)",
          "jax.nn.softmax(s), 0)\n    p = s", "s = jnp.where"),
    Wrong("encoder", "padding", "mean = x.mean(axis=-1", "mean = x.mean(axis=1", "mean ="),
    Wrong("encoder", "padding, pooled",
          "mask[..., None], encode(x, mask, w), 0", "True, encode(x, mask, w), 0", "total ="),
    Wrong("encoder", "padding, loss", "< lengths", "<= lengths", "real, nll, 0).sum()"),
    Wrong("encoder", "padding, loss", "jnp.where(real, nll, 0).sum() / real.sum()", "nll.mean()", "nll.mean()"),
    Wrong("encoder", "equivariant", "y = norm(x)", "y = norm(x) + jnp.arange(x.shape[1])[:, None]", "y = norm(x)"),
    Wrong("encoder", "independent", "mean = x.mean(axis=-1, keepdims=True)", "mean = x.mean()", "mean ="),
    Wrong("sequences", "recurrent",
          "x.swapaxes(0, 1))\n", "x.swapaxes(0, 1), reverse=True)\n", "state @ w + frame", (0, 1)),
    Wrong("sequences", "mixed",
          "((0, 0), (1, 0), (0, 0)))[:, :-1]", "((0, 0), (0, 1), (0, 0)))[:, 1:]", "0.5 * before", (0, 1)),
    Wrong("sequences", "mixed",
          "before = jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]", "before = jnp.roll(x, -1, 1)", "0.5 * before"),
    Wrong("sequences", "convolved", "[(2, 0)]", "[(1, 1)]", "y = jax.lax.conv", (0, 1)),
    Wrong("sequences", "convolved", "[(2, 0)]", "'SAME'", "y = jax.lax.conv", (0, 1)),
    Wrong("sequences", "discounted", "x, axis=1)\n", "x, axis=1, reverse=True)\n", "associative_scan", (0, 1)),
    Wrong("sequences", "running",
          "total = jnp.cumsum(x, axis=1)", "total = jnp.cumsum(x[:, ::-1], axis=1)[:, ::-1]", "total ="),
    Wrong("sequences", "running",
          "total / jnp.arange(1, x.shape[1] + 1)[:, None]", "total / total[:, -1:]", "total[:, -1:]"),
    Wrong("sequences", "independent",
          "tanh(state @ w + frame)", "tanh(state @ w + frame - frame.mean(0))", "frame.mean(0)"),
    Wrong("training", "accumulates", "total + grad / parts", "total + grad", "total + grad"),
    Wrong("training", "accumulates", "total + grad / parts", "grad", "jnp.tanh(x @ w)"),
    Wrong("training", "keys", "jax.random.split(k, x.shape[0])", "jnp.broadcast_to(k, x.shape[:1])", "keep ="),
    Wrong("training", "keys", "jax.vmap(one)(x, ks)", "jax.vmap(lambda x: one(x, k))(x)", "keep ="),
    Wrong("training", "keys, sharded", "k = jax.random.fold_in(k, jax.lax.axis_index(\"d\"))", "pass", "keep ="),
    Wrong("training", "independent", "training=False)", "training=True)", "mean ="),
    Wrong("training", "independent, sharded", "keepdims=True)\n        return y *",
          "keepdims=True)\n        scale = jax.lax.pmean(scale, 'd')\n        return y *", "jax.lax.pmean"),
    Wrong("training", "independent, sharded", "y * y, axis=-1", "y * y, axis=0", "scale ="),
    Wrong("training", "causal, sharded", "jax.lax.axis_index(\"d\") * x.shape[1] + ", "3 * x.shape[1] + ", "p ="),
    Wrong("training", "causal, sharded", ">= jnp.arange", "+ 1 >= jnp.arange", "p ="),
    Wrong("experts", "independent", "jnp.cumsum(chosen, axis=1)",
          "jnp.cumsum(chosen.reshape(-1, chosen.shape[-1]), axis=0).reshape(chosen.shape)", "place ="),
    Wrong("experts", "independent",
          "jax.nn.softmax(x @ router, axis=-1)", "jax.nn.softmax(x @ router, axis=0)", "gates ="),
    Wrong("experts", "causal",
          "jnp.cumsum(chosen, axis=1) * chosen", "chosen.sum(1, keepdims=True) * chosen", "place ="),
]  # fmt: skip


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loader]:
    loader = Loader(tmp_path_factory.mktemp("programs"))
    yield loader
    for name in loader.names:
        sys.modules.pop(name, None)


class Loader:
    """Imports programs, changed ones from a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []

    def __call__(self, program: str, old: str = "", new: str = "") -> ModuleType:
        text = (PROGRAMS / f"{program}.py").read_text()
        assert old in text
        name = f"{program}_{len(self.names)}"
        path = self.folder / f"{name}.py"
        path.write_text(text.replace(old, new) if old else text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        self.names.append(name)
        spec.loader.exec_module(module)
        return module


def laws_of(program: str) -> list[str]:
    text = (PROGRAMS / f"{program}.py").read_text()
    lines = text[text.index("LAWS = {") :].splitlines()[1:-1]
    return [line.split('"')[1] for line in lines]


@pytest.mark.parametrize(
    ("program", "law"),
    [
        (path.stem, law)
        for path in sorted(PROGRAMS.glob("*.py"))
        for law in laws_of(path.stem)
    ],
)
def test_right_programs_obey_their_laws(loaded: Loader, program: str, law: str) -> None:
    verdict = loaded(program).LAWS[law]()
    assert verdict.ok is True, verdict.reason
    assert verdict.proved == (law in PROVED[program]), verdict.reason


@pytest.mark.once
@pytest.mark.parametrize(
    "wrong", WRONG, ids=lambda wrong: f"{wrong.program}, {wrong.law}, {wrong.new[:40]}"
)
def test_wrong_programs_break_them_where_they_are_wrong(
    loaded: Loader, wrong: Wrong
) -> None:
    module = loaded(wrong.program, wrong.old, wrong.new)
    verdict = module.LAWS[wrong.law]()
    assert verdict.ok is False, verdict.reason
    assert verdict.where is not None, verdict.reason
    path, _, line = verdict.where.rpartition(":")
    assert Path(path).name == Path(str(module.__file__)).name, verdict.reason
    assert (
        wrong.line in Path(str(module.__file__)).read_text().splitlines()[int(line) - 1]
    ), verdict.reason
    if wrong.positions is not None:
        assert verdict.positions == wrong.positions
