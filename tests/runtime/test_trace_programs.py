"""``trace`` on programs of real size, as their authors first write them: none is called wrong, and seeded bugs are."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from pytest_shardtypes.trace_items import functions_of
from shardtypes import trace

PROGRAMS = Path(__file__).parents[2] / "fixtures" / "traced"
# What cannot be told of right programs, and why.
UNKNOWN = {
    # how many patches there are is not in the annotations
    "vit.embed": "holds only where N = 143",
    "vit.resize_positions": "with old=4, new=4, a guess",
    "specs.attention": "holds only where M = d_model",  # one width has two names
    "specs.feed_forward": "holds only where M = d_model",
}


def load(path: Path, source: str | None = None) -> ModuleType:
    """A program, or another one in its place. Its file is what is read where its variables are checked."""
    if source is not None:
        path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


#: Of the longest of these, the other release of JAX gets the one with the most transformations.
ONCE = "gqa", "specs"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=pytest.mark.once if path.stem in ONCE else ())
        for path in sorted(PROGRAMS.glob("*.py"))
    ],
)
def test_right_programs_hold(name: str) -> None:
    verdicts = {
        f"{name}.{f.name}": trace(f.function)
        for f in functions_of(load(PROGRAMS / f"{name}.py"))
    }
    wrong = [verdict.reason for verdict in verdicts.values() if verdict.ok is False]
    assert not wrong, "\n".join(wrong)
    unknown = {
        function: verdict.reason
        for function, verdict in verdicts.items()
        if verdict.ok is None
    }
    assert set(unknown) == {
        function for function in UNKNOWN if function.startswith(f"{name}.")
    }, unknown
    assert all(UNKNOWN[function] in reason for function, reason in unknown.items())


@dataclass(frozen=True)
class Bug:
    """A line that is changed, and the function that is wrong then."""

    function: str
    right: str
    wrong: str


BUGS = [
    Bug(
        "gqa.attend", "return out.reshape(b, t, h, d)", "return out.reshape(b, h, t, d)"
    ),
    Bug("gqa.attend", '"bkgts,bskd->btkgd", probs, v', '"bkgts,btkd->bskgd", probs, v'),
    Bug("gqa.attend", 'mask: bool_["T S"]', 'mask: bool_["S T"]'),
    Bug(
        "gqa.forward",
        "return logits, Cache(k=k, v=v,",
        "return logits[:, -1], Cache(k=k, v=v,",
    ),
    Bug("gqa.mlp", "hidden @ block.w_down", "hidden @ block.w_gate"),
    Bug("gqa.rope", "sin[None, :, None, :]", "sin[None, None, :, :]"),
    Bug("gqa.loss", "tokens[:, 1:, None]", "tokens[:, :, None]"),
    Bug("gqa.generate", "return tokens.T", "return tokens"),
    Bug("gqa.decode", "return logits[:, 0], cache", "return logits, cache"),
    Bug("gqa.sample", "axis=-1).astype", "axis=0).astype"),
    Bug(
        "moe.route",
        "weights / weights.sum(-1, keepdims=True)",
        "weights / weights.sum(-1)",
    ),
    Bug("moe.expert_mlp", '"ecf,efm->ecm"', '"ecf,efm->emc"'),
    Bug("moe.dense_moe", 'gathered: f32["E C M"]', 'gathered: f32["C E M"]'),
    Bug("moe.dense_moe", '"nkec,nk,ecm->nm"', '"nkec,nk,ecm->nem"'),
    Bug(
        "moe.parallel_moe", "split_axis=1, concat_axis=0", "split_axis=0, concat_axis=1"
    ),
    Bug("moe.moe_block", "out.reshape(b, t, m)", "out.reshape(t, b, m)"),
    Bug("fsdp.attention", '"bqhd,hdm->bqm"', '"bqhd,hdm->bmq"'),
    Bug("fsdp.layer", "gather(p.w_out, 2)", "gather(p.w_out, 0)"),
    Bug("fsdp.forward", "gather(params.embed, 1)[tokens]", "params.embed[tokens]"),
    Bug(
        "fsdp.cross_entropy",
        "shifted = logits - top[..., None]",
        "shifted = logits - top",
    ),
    Bug(
        "fsdp.train_step",
        "nu=nu, step=state.step + 1), value",
        "nu=nu, step=state.step + 1), value[None]",
    ),
    Bug(
        "ring.ring", "jnp.moveaxis(run.total, 1, 2)[..., None]", "run.total[..., None]"
    ),
    Bug("ring.block", "jnp.moveaxis(shrink, 1, 2)[..., None]", "shrink[..., None]"),
    Bug("ring.shifted", "[edge, x[:, :-1]]", "[edge, x]"),
    Bug("ring.Attention.__call__", '"bthd,hdm->btm", out', '"bthd,hdm->bmt", out'),
    Bug("vit.attention", "out.reshape(n, m) @ w_out", "out.reshape(m, n) @ w_out"),
    Bug("vit.block", "return x + out @ p", "return x + out.T @ p"),
    Bug(
        "vit.layer_norm", "var = jnp.var(x, -1, keepdims=True)", "var = jnp.var(x, -1)"
    ),
    Bug("vit.head", "x.mean(0)", "x.mean(1)"),
    Bug("vit.cross_entropy", ".sum(-1).mean()", ".sum(-1)"),
    Bug(
        "vit.mixup", "lam * y + (1 - lam) * y[order]", "lam * y + (1 - lam) * x[order]"
    ),
    Bug("specs.forward", '"V/t M/d -> V/t M", jnp', '"V/t M/d -> V/t M/d", jnp'),
    Bug(
        "specs.loss",
        'logits: f32["B/d L V/t"] = forward',
        'logits: f32["B/d V/t L"] = forward',
    ),
    Bug(
        "specs.gradients",
        'return lax.psum(value, ("d", "t")), grads',
        'return grads, lax.psum(value, ("d", "t"))',
    ),
]
# What is not told, and why.
MISSED = {
    "return tokens": "a configuration gives the number of steps, and a batch of that size would do",
    "split_axis=0, concat_axis=1": "how many slots an expert has is computed as a fraction, where the symbols end",
    "out.reshape(t, b, m)": "as above: the capacity is a fraction",
    "var = jnp.var(x, -1)": "it holds where no dimensions stand in place of the dots",
    "lam * y + (1 - lam) * x[order]": "jax.random.permutation takes no symbolic size",
}


@pytest.mark.once
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: f"{bug.function}: {bug.wrong}")
def test_seeded_bugs_are_told(bug: Bug, tmp_path: Path) -> None:
    program, _, name = bug.function.partition(".")
    source = (PROGRAMS / f"{program}.py").read_text()
    assert bug.right in source
    module = load(tmp_path / f"{program}.py", source.replace(bug.right, bug.wrong, 1))
    found = next(found for found in functions_of(module) if found.name == name)
    verdict = trace(found.function)
    assert verdict.ok is (None if bug.wrong in MISSED else False), verdict.reason
