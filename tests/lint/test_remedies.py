"""What mends findings: each is applied by the command line, leaves nothing to find, and JAX holds it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from shardlint.cli import main
from shardlint.rules import all_rules
from shardtypes import prove

HEAD = """\
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec as P
from shardtypes import f32, typed_shard_map

mesh = AbstractMesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)


"""
MAPPED = "@partial(jax.shard_map, mesh=mesh, in_specs={specs}, out_specs={out}, check_vma=False)\n"


@dataclass(frozen=True)
class Case:
    """A function ``f`` that is ``wrong``, and ``right`` with the fixes that are asked for; ``shapes`` are those of its
    arguments. On devices it computes something else as it was."""

    code: str
    wrong: str
    right: str
    shapes: tuple[tuple[int, ...], ...] = ()
    on_devices: bool = field(default=False, kw_only=True)
    safe: bool = field(default=False, kw_only=True)


def mapped(body: str, specs: str = 'P("d", "t")', out: str = 'P("d", "t")') -> str:
    return MAPPED.format(specs=specs, out=out) + body


ROWS = "def f(x: f32['B M']):\n    return {}\n"
PAIR = "def f(x: f32['{}'], w: f32['{}']):\n    return {}\n"
SQUARES = "def f(x):\n    return {}\n"
CASES = [
    Case(
        "ST204",
        PAIR.format("B M", "F M", "x @ w"),
        PAIR.format("B M", "F M", "x @ w.T"),
        ((2, 3), (4, 3)),
    ),
    Case(
        "ST204",
        PAIR.format("M B", "M F", "(x + 1) @ w"),
        PAIR.format("M B", "M F", "(x + 1).T @ w"),
        ((3, 2), (3, 4)),
    ),
    Case(
        "ST204",
        PAIR.format("M F", "B M", "x @ (w + 1)"),
        PAIR.format("M F", "B M", "(w + 1) @ x"),
        ((3, 4), (2, 3)),
    ),
    Case(
        "ST204",
        PAIR.format("B M", "M B", "x + w"),
        PAIR.format("B M", "M B", "x + w.T"),
        ((2, 3), (3, 2)),
    ),
    Case(
        "ST204",
        ROWS.format("x - x.mean(-1)"),
        ROWS.format("x - x.mean(-1, keepdims=True)"),
        ((2, 3),),
    ),
    Case(
        "ST204",
        ROWS.format("x / jnp.sum(x, axis=1)"),
        ROWS.format("x / jnp.sum(x, axis=1, keepdims=True)"),
        ((2, 3),),
    ),
    Case(
        "ST204",
        PAIR.format("B M", "B", "x * w"),
        PAIR.format("B M", "B", "x * w[..., None]"),
        ((2, 3), (2,)),
    ),
    Case(
        "ST204",
        PAIR.format("N B M", "N F M", "x @ w"),
        PAIR.format("N B M", "N F M", "x @ w.mT"),
        ((5, 2, 3), (5, 4, 3)),
    ),
    Case(
        "ST204",
        ROWS.format("x - x.mean(-1,)"),
        ROWS.format("x - x.mean(-1, keepdims=True,)"),
        ((2, 3),),
    ),
    Case(
        "ST207",
        "def f(x: f32['B L H D']):\n    b, l, h, d = x.shape\n    return x.reshape(b, h, l, d)\n",
        "def f(x: f32['B L H D']):\n    b, l, h, d = x.shape\n    return x.transpose(0, 2, 1, 3)\n",
    ),
    Case(
        "ST209",
        PAIR.format("B M", "B N", "jnp.concatenate([x, w], axis=0)"),
        PAIR.format("B M", "B N", "jnp.concatenate([x, w], axis=1)"),
        ((2, 3), (2, 4)),
    ),
    Case(
        "ST213",
        PAIR.format("B M", "B M", "jnp.min(x, w)"),
        PAIR.format("B M", "B M", "jnp.minimum(x, w)"),
        ((2, 3), (2, 3)),
    ),
    Case(
        "ST216",
        "def f(x: f32['B M']):\n    x.at[0].set(0.0)\n    return x\n",
        "def f(x: f32['B M']):\n    x = x.at[0].set(0.0)\n    return x\n",
    ),
    Case(
        "ST220",
        ROWS.format("jnp.transpose(x, 1, 0)"),
        ROWS.format("jnp.transpose(x, (1, 0))"),
        ((2, 3),),
        safe=True,
    ),
    Case(
        "ST105",
        "def f(x: f32['batch embed']) -> f32['batch embd']:\n    return x\n",
        "def f(x: f32['batch embed']) -> f32['batch embed']:\n    return x\n",
    ),
    Case(
        "ST201",
        "def f(x: f32['B M']) -> f32['B M']:\n    return x.T\n",
        "def f(x: f32['B M']) -> f32['M B']:\n    return x.T\n",
    ),
    Case(
        "ST316",
        mapped(
            "def f(x, w):\n    return lax.psum(jnp.tanh(x @ w), 't')\n",
            '(P("d", "t"), P("t"))',
            'P("d")',
        ),
        mapped(
            "def f(x, w):\n    return jnp.tanh(lax.psum(x @ w, 't'))\n",
            '(P("d", "t"), P("t"))',
            'P("d")',
        ),
        ((4, 8), (8, 3)),
        on_devices=True,
    ),
    Case(
        "ST316",
        mapped(
            "def f(x, w):\n    return lax.psum(lax.psum(x @ w, 't') * 2, 't')\n",
            '(P("d", "t"), P("t"))',
            'P("d")',
        ),
        mapped(
            "def f(x, w):\n    return (lax.psum(x @ w, 't') * 2)\n",
            '(P("d", "t"), P("t"))',
            'P("d")',
        ),
        ((4, 8), (8, 3)),
        on_devices=True,
    ),
    Case(
        "ST304",
        "@typed_shard_map\ndef f(x: f32['B/d M']) -> f32['']:\n    return lax.psum(jnp.mean(x * x), 'd')\n",
        "@typed_shard_map\ndef f(x: f32['B/d M']) -> f32['']:\n    return lax.pmean(jnp.mean(x * x), 'd')\n",
    ),
]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.code}: {case.wrong[-40:]!r}"
)
def test_the_fix_is_applied_and_leaves_nothing(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.py"
    path.write_text(HEAD + case.wrong)
    assert main(["--no-cache", "--format", "concise", str(path)]) == 1
    assert case.code in capsys.readouterr().out
    # what is not safe is left alone where nobody asks for it
    main(["--no-cache", "--fix", str(path)])
    assert path.read_text() == HEAD + (case.right if case.safe else case.wrong)
    assert main(["--no-cache", "--unsafe-fixes", str(path)]) == 0, (
        capsys.readouterr().out
    )
    assert path.read_text() == HEAD + case.right


def function(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(compile(HEAD + source, "model", "exec", dont_inherit=True), names)
    made: Callable[..., Any] = names["f"]
    return made


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.shapes],
    ids=lambda case: f"{case.code}: {case.wrong[-40:]!r}",
)
def test_jax_holds_it(case: Case) -> None:
    """JAX refuses the program as it was, and not as it is; or it computes what one device does only as it is."""
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in case.shapes]
    if case.on_devices:
        assert prove(function(case.wrong), *shapes).ok is False
        assert prove(function(case.right), *shapes).ok
        return
    with pytest.raises((TypeError, ValueError)):
        jax.eval_shape(function(case.wrong), *shapes)
    jax.eval_shape(function(case.right), *shapes)


#: Rules whose examples the fixes mend, until nothing is left to find.
MENDED = (
    "ST105 ST201 ST204 ST207 ST209 ST213 ST216 ST220 ST301 ST303"
    " ST304 ST305 ST308 ST316 ST318 ST319 ST403 ST901 ST903"
)


@pytest.mark.once
@pytest.mark.parametrize("code", MENDED.split())
def test_examples_of_rules_are_mended(
    code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "example.py"
    (about,) = [one for one in all_rules() if one.code == code]
    path.write_text(about.docs().program("Example"))
    assert main(["--no-cache", str(path)]) == 1
    assert code in capsys.readouterr().out
    assert main(["--no-cache", "--unsafe-fixes", str(path)]) == 0, (
        capsys.readouterr().out
    )


def test_syntax_that_this_python_has_not_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    text = f"{HEAD}type Rows = f32['B M']\n\n\n{ROWS.format('x - x.mean(-1)')}"
    path.write_text(text)
    status = main(["--no-cache", "--unsafe-fixes", str(path)])
    mended = text.replace("mean(-1)", "mean(-1, keepdims=True)")
    if sys.version_info >= (3, 12):
        assert (status, path.read_text()) == (0, mended)
    else:
        assert (status, path.read_text()) == (1, text)


def test_columns_count_characters(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    text = HEAD + "def f(x: f32['B M']):\n    return 'é', x - x.mean(-1), 'ü'\n"
    path.write_text(text, encoding="utf-8")
    assert main(["--no-cache", "--unsafe-fixes", str(path)]) == 0
    mended = text.replace("mean(-1)", "mean(-1, keepdims=True)")
    assert path.read_text(encoding="utf-8") == mended


def test_what_may_be_meant_otherwise_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    body = "def f(x: f32['B M']):\n    return x - x.mean(-1, keepdims=False)\n"
    path.write_text(HEAD + body)
    assert main(["--no-cache", "--unsafe-fixes", str(path)]) == 1
    assert path.read_text() == HEAD + body
