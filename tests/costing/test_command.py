"""``shardlint cost``: formulas, numbers, limits, files to compare with, and mistakes in its options."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import run_linter

pytestmark = pytest.mark.once  # JAX has no part in it

MODEL = """
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Float32
from shardtypes import bf16, f32, pytree_dataclass, typed_shard_map


@pytree_dataclass
class Layer:
    up: bf16["M F/t"]
    scale: f32["M"]


@typed_shard_map
def layer(x: f32["B/d M"], w: Layer, y: f32["B/d F/t"]) -> f32["B/d"]:
    hidden = (x * w.scale) @ w.up.astype(jnp.float32) * y
    return lax.psum(jnp.sum(hidden, axis=1), "t")


def summed(x: f32["B/d M/t"]) -> f32["B/d M"]:
    return lax.all_gather(x, "t", axis=1, tiled=True)


@typed_shard_map
def looped(x: f32["B/d M/t"], xs: f32["N B/d"]) -> f32["B/d"]:
    total = jnp.zeros(x.shape[0])
    for _ in range(3):
        total = total + jnp.sum(summed(x), axis=1)

    def step(carry, row):
        return carry + lax.pmean(row, ("d", "t")), None

    total, _ = lax.scan(step, total, xs)
    return lax.fori_loop(0, 5, lambda i, c: c + lax.psum(c, "t") / 4, total)


@typed_shard_map
def until(x: f32["B/d"]) -> f32["B/d"]:
    return lax.while_loop(lambda c: c[0] > 1, lambda c: lax.pmean(c, "d"), x)


@typed_shard_map
def rows(x: f32["B/d M"]) -> f32["B/d M"]:
    return jax.vmap(lambda row: lax.psum(row, "t") / 4)(x)


def plain(x: Float[Array, "b d"], y: Float32[Array, "b"], z) -> Float32[Array, ""]:
    return jnp.sum(x) + jnp.sum(y)


class Model:
    def step(self, x: f32["B/s M"]) -> f32["B/s M"]:
        return x
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def cost(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_linter("cost", *arguments, cwd=folder)


def data(folder: Path, function: str, *arguments: str) -> dict[str, Any]:
    done = cost(
        folder,
        f"model.py::{function}",
        "--mesh",
        "d=2,t=4",
        "--format",
        "json",
        *arguments,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def sent(found: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [
        (row["collective"], row["formula"], row["line"]) for row in found["collectives"]
    ]


def line_of(text: str) -> int:
    return MODEL[: MODEL.index(text)].count("\n") + 1


def test_formulas(folder: Path) -> None:
    found = data(folder, "layer")
    assert [
        (row["name"], row["formula"], row["bytes"], row["split"])
        for row in (*found["arguments"], *found["results"])
    ] == [
        ("x", "4*B*M/d", None, True),
        ("w.up", "2*M*F/t", None, True),
        ("w.scale", "4*M", None, False),
        ("y", "4*B*F/(d*t)", None, True),
        ("result", "4*B/d", None, True),
    ]
    assert sent(found) == [("psum", "8*B*(t-1)/(d*t)", line_of("return lax.psum(jnp"))]
    assert found["moved"] == {
        "formula": "8*B*(t-1)/(d*t)",
        "bytes": None,
        "complete": True,
    }


def test_numbers(folder: Path) -> None:
    found = data(folder, "layer", "--sizes", "B=32,M=64,F=128")
    assert [row["bytes"] for row in found["arguments"]] == [4096, 4096, 256, 2048]
    assert found["moved"]["bytes"] == 8 * 32 * 3 // 8
    assert found["held"]["bytes"] == 4096 + 4096 + 256 + 2048 + 64


def test_calls_and_loops_multiply(folder: Path) -> None:
    assert sent(data(folder, "looped")) == [
        ("all_gather", "12*B*M*(t-1)/(d*t)", line_of("return lax.all_gather")),
        ("psum", "8*B*(d*t-1)*N/(d*d*t)", line_of("return carry + lax.pmean")),
        ("psum", "40*B*(t-1)/(d*t)", line_of("return lax.fori_loop")),
    ]


def test_a_loop_of_unknown_length_counts_a_round(folder: Path) -> None:
    """The mean over d is of parts of B/2 entries: afterwards no axis splits them."""
    found = data(folder, "until")
    (row,) = found["collectives"]
    assert (row["formula"], row["at_least"]) == ("4*B*(d-1)/d", True)
    done = cost(folder, "model.py::until", "--mesh", "d=2")
    assert "4*B*(d-1)/d, a round" in done.stdout


def test_vmap_sends_for_each_row(folder: Path) -> None:
    assert [formula for _, formula, _ in sent(data(folder, "rows"))] == [
        "4*M*(t-1)*B/t"
    ]


def test_a_helper_and_what_calls_it(folder: Path) -> None:
    found = data(folder, "summed")
    assert [formula for _, formula, _ in sent(found)] == ["4*B*M*(t-1)/(d*t)"]
    assert found["uncounted"] == []


def test_an_axis_of_one_device_sends_nothing(folder: Path) -> None:
    done = cost(folder, "model.py::summed", "--mesh", "d=2,t=1")
    assert "  sent: 0\n" in done.stdout
    assert "all_gather" not in done.stdout


def test_jaxtyping_says_nothing_about_axes(folder: Path) -> None:
    found = data(folder, "plain", "--max-replicated", "4")
    assert [
        (row["name"], row["formula"], row["split"]) for row in found["arguments"]
    ] == [("x", None, None), ("y", "4*b", None)]
    assert found["uncounted"] == [
        [
            f"model.py:{line_of('def plain')}",
            "what the compiler, or JAX's types, send outside of shard_map",
        ]
    ]
    done = cost(folder, "model.py::plain", "--mesh", "d=2")
    assert "4*b, if it is not sharded" in done.stdout


NESTED = """
from jax import lax
from shardtypes import f32, typed_shard_map


@typed_shard_map
def total(x: f32["B/d M"]) -> f32["M"]:
    return lax.psum(x.sum(0), "d")


def outer(x: f32["B/d M"]) -> f32["M"]:
    return total(x) * 2


class Model:
    def step(self, x: f32["B/d M"]) -> f32["M"]:
        @typed_shard_map
        def inner(x: f32["B/d M"]) -> f32["M"]:
            return lax.psum(x.sum(0), "d")

        return inner(x)
"""


@pytest.mark.parametrize(
    ("function", "sent", "is_left_out"),
    [
        ("outer", "sent: 8*M*(d-1)/d", False),
        ("Model.step", "sent: not known", True),
        ("Model.step.inner", "sent: 8*M*(d-1)/d", False),
    ],
)
def test_functions_in_functions(
    function: str, sent: str, is_left_out: bool, tmp_path: Path
) -> None:
    """What maps itself over devices inside of another function is counted there, or said not to be."""
    (tmp_path / "nested.py").write_text(NESTED)
    done = cost(tmp_path, f"nested.py::{function}", "--mesh", "d=2")
    assert sent in done.stdout
    line = "nested.py:21: inner, which typed_shard_map maps"
    assert (line in done.stdout) == is_left_out


def test_limit_of_what_is_whole(folder: Path) -> None:
    where = ["model.py::layer", "--mesh", "d=2,t=4"]
    done = cost(folder, *where, "--sizes", "M=64", "--max-replicated", "0.25KiB")
    assert (done.returncode, done.stderr) == (0, "")
    done = cost(folder, *where, "--sizes", "M=65", "--max-replicated", "0.25KiB")
    assert (done.returncode, done.stderr) == (
        1,
        "shardlint: w.scale float32['M'] is held whole on each device: 260 bytes, more than 256\n",
    )
    done = cost(folder, *where, "--max-replicated", "256")
    assert (done.returncode, done.stderr) == (
        2,
        "shardlint: --max-replicated: needs numbers for M: give them, as in --sizes M=32\n",
    )
    done = cost(folder, "model.py::layer", "--mesh", "d=1,t=1", "--max-replicated", "0")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_to_compare_with(folder: Path) -> None:
    where = ["model.py::summed", "--mesh", "d=2,t=4"]
    sizes = ["--sizes", "B=8,M=16"]
    assert cost(folder, *where, *sizes, "--write", "cost.json").returncode == 0
    kept = json.loads((folder / "cost.json").read_text())
    assert (kept["moved"]["bytes"], kept["held"]["bytes"]) == (192, 320)
    done = cost(folder, *where, "--against", "cost.json")
    assert (done.returncode, done.stderr) == (0, "shardlint: nothing has changed\n")
    (folder / "model.py").write_text("\n" + MODEL.replace("M/t", "M"))
    done = cost(folder, *where, "--against", "cost.json")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "shardlint: each device holds 512 bytes, 320 bytes before",
        "shardlint: each device sends 768 bytes, 192 bytes before",
        "shardlint:   - x float32['B/d M/t']: 64 bytes",
        "shardlint:   - all_gather over t: 192 bytes",
        "shardlint:   + x float32['B/d M']: 256 bytes",
        "shardlint:   + all_gather over t: 768 bytes",
    ]
    (folder / "model.py").write_text(
        MODEL.replace('lax.all_gather(x, "t", axis=1, tiled=True)', "x")
    )
    done = cost(folder, *where, "--against", "cost.json")
    assert done.returncode == 0
    assert "each device sends 0 bytes, 192 bytes before" in done.stderr


def test_files_that_cannot_be_compared_with(folder: Path) -> None:
    where = ["model.py::summed", "--mesh", "d=2,t=4"]
    assert cost(folder, *where, "--write", "cost.json").returncode == 0
    assert cost(folder, *where, "--against", "cost.json").returncode == 0
    (folder / "model.py").write_text(MODEL.replace("M/t", "M"))
    done = cost(folder, *where, "--against", "cost.json")
    assert (done.returncode, done.stderr) == (
        2,
        "shardlint: --against: needs numbers for B, M: give them, as in --sizes B=32,M=32\n",
    )
    done = cost(folder, *where, "--against", "cost.json", "--sizes", "B=8,M=16")
    assert (done.returncode, done.stderr) == (
        2,
        "shardlint: cost.json: it was written without numbers for sizes: write it anew with --sizes\n",
    )
    done = cost(
        folder, "model.py::summed", "--mesh", "d=2,t=8", "--against", "cost.json"
    )
    assert (done.returncode, done.stderr) == (
        2,
        "shardlint: cost.json: it was written for the mesh d=2,t=4, not d=2,t=8: "
        "give --mesh d=2,t=4, or write it anew\n",
    )
    done = cost(folder, *where, "--against", "model.py")
    assert (done.returncode, done.stderr) == (
        2,
        "shardlint: --against: model.py is no file that `shardlint cost --write` of this version wrote\n",
    )
    done = cost(folder, *where, "--against", "gone.json")
    assert (done.returncode, done.stderr) == (
        2,
        "shardlint: --against: gone.json cannot be read: No such file or directory\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["model.py", "--mesh", "d=2"],
            "a function is named as FILE::FUNCTION, such as model.py::loss, got 'model.py'",
        ),
        (
            ["model.py::layer"],
            "no mesh: give one, as in --mesh d=8,t=4, or write it into the settings",
        ),
        (
            ["model.py::layer", "--mesh", "d,t=4"],
            "--mesh: axis 'd' has no size: write d=8 for eight devices",
        ),
        (
            ["model.py::layer", "--mesh", "d"],
            "--mesh: axis 'd' has no size: write d=8 for eight devices",
        ),
        (
            ["model.py::layer", "--mesh", "d=2"],
            "model.py:16: the mesh d=2 has no axis 't': add it to --mesh, as in d=2,t=2",
        ),
        (
            ["model.py::Model.step", "--mesh", "d=2"],
            "model.py:53: the mesh d=2 has no axis 's': add it to --mesh, as in d=2,s=2",
        ),
        (
            ["model.py::lager", "--mesh", "d=2"],
            "model.py: no function 'lager': did you mean 'layer'?",
        ),
        (
            ["model.py::xyz", "--mesh", "d=2"],
            "model.py: no function 'xyz': the functions are Model.step, layer, looped, looped.step, plain, rows, "
            "summed, until",
        ),
        (
            ["gone.py::layer", "--mesh", "d=2"],
            "gone.py cannot be read: No such file or directory",
        ),
        (
            ["model.py::layer", "--mesh", "d=2,t=4", "--sizes", "B=0"],
            "--sizes: sizes are written like B=32,M=4096, got 'B=0'",
        ),
        (
            ["model.py::layer", "--mesh", "d=2,t=4", "--max-replicated", "much"],
            "--max-replicated: a number of bytes is written like 4096, 64KiB or 1.5GB, got 'much'",
        ),
    ],
)
def test_mistakes(folder: Path, arguments: list[str], message: str) -> None:
    done = cost(folder, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        f"shardlint: {message}\n",
    )


def test_a_file_that_is_no_python(folder: Path) -> None:
    (folder / "broken.py").write_text("import jax\ndef f(:\n")
    done = cost(folder, "broken.py::f", "--mesh", "d=2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("shardlint: broken.py:2: ")


def test_the_mesh_of_the_settings(folder: Path) -> None:
    (folder / "shardlint.toml").write_text("mesh = { d = 2, t = 4 }\n")
    done = cost(folder, "model.py::summed", "--sizes", "B=8,M=16")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("summed on d=2, t=4, bytes on each device\n")
    assert "sent: 4*B*M*(t-1)/(d*t) = 192\n" in done.stdout


GRADIENTS = """
import jax
import jax.numpy as jnp
from jax import lax
from shardtypes import f32, typed_shard_map


def loss(w, x):
    return jnp.sum((x @ w) ** 2)


@typed_shard_map
def typed(x: f32["B/d M"], w: f32["M N"]) -> f32["M N"]:
    return jax.grad(loss)(w, x)


@typed_shard_map(check_vma=False)
def untyped(x: f32["B/d M"], w: f32["M N"]) -> f32["M N"]:
    return lax.psum(jax.grad(loss)(w, x), "d")


def plain(x, cfg):
    return x
"""


def test_gradients_that_are_reduced_are_counted(tmp_path: Path) -> None:
    """JAX adds up what does not vary where it keeps track; elsewhere the program has to."""
    (tmp_path / "grads.py").write_text(GRADIENTS)
    typed = cost(tmp_path, "grads.py::typed", "--mesh", "d=8,t=1").stdout
    assert "  sent: 8*M*N*(d-1)/d\n" in typed
    assert "not counted" not in typed
    untyped = cost(tmp_path, "grads.py::untyped", "--mesh", "d=8,t=1").stdout
    assert "  sent: 8*M*N*(d-1)/d\n" in untyped
    assert "not counted" not in untyped


def test_what_is_not_annotated_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "grads.py").write_text(GRADIENTS)
    done = cost(tmp_path, "grads.py::plain", "--mesh", "d=8")
    assert "  arguments: not known" in done.stdout
    done = cost(tmp_path, "grads.py::plain", "--mesh", "d=8", "--format", "json")
    assert json.loads(done.stdout)["held"]["complete"] is False
    done = cost(tmp_path, "grads.py::plain", "--mesh", "d=8", "--max-replicated", "1GB")
    assert done.returncode == 2
    assert "what x holds is not known: annotate it" in done.stderr


def test_sizes_that_cannot_be(folder: Path) -> None:
    done = cost(folder, "model.py::layer", "--mesh", "d=2,t=4", "--sizes", "Z=3")
    assert done.returncode == 2
    assert "no size is called 'Z': the sizes are B, F, M" in done.stderr
    sizes = ["--sizes", "B=3,F=4,M=4"]
    done = cost(folder, "model.py::layer", "--mesh", "d=2,t=4", *sizes)
    assert done.returncode == 2
    assert "x, float32['B/d M'], is not cut into equal parts on d=2, t=4" in done.stderr
