"""What is shown above functions that send something between devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.lint.editor import Editor, drive
from tests.support import ROOT, run_pytest

pytestmark = pytest.mark.once

TEXT = """\
import jax.numpy as jnp
from jax import lax
from shardtypes import f32, typed_shard_map


def alone(x: f32["B M"]) -> f32["B M"]:
    return x


@typed_shard_map
def output(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M"]:
    return lax.psum(x @ w, "t")


class Block:
    @typed_shard_map
    def wrong(self, x: f32["8/d 16/t"], w: f32["16/t 4"]) -> f32["8/d 4"]:
        return lax.psum(jnp.tanh(x @ w), "t")
"""


async def lenses_of(editor: Editor, path: Path) -> list[tuple[int, str]]:
    """Their lines (from 1) and texts."""
    params = lsp.CodeLensParams(lsp.TextDocumentIdentifier(path.as_uri()))
    found = await editor.text_document_code_lens_async(params)
    titles = []
    for one in found or ():
        assert one.command is not None
        titles.append((one.range.start.line + 1, one.command.title))
    return titles


def test_collectives_and_their_bytes(tmp_path: Path) -> None:
    """With names for sizes that are not known; they follow the text, and what is saved."""
    path = tmp_path / "model.py"
    settings = "[tool.shardlint]\nmesh = { d = 2, t = 4 }\n"
    (tmp_path / "pyproject.toml").write_text(settings)
    path.write_text(TEXT)

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        await editor.until(lambda p: bool(p.diagnostics))

        output = "psum: 8*B*M*(t-1)/(d*t) bytes from each device"
        wrong = "psum: 96 bytes from each device; found wrong: ST301"
        assert await lenses_of(editor, path) == [(11, output), (17, wrong)]

        editor.change(path, "\n" + TEXT, 2)
        await editor.until(lambda p: p.version == 2)
        assert await lenses_of(editor, path) == [(12, output), (18, wrong)]

        path.write_text(TEXT.replace("B/d F/t", "8/d F/t"))
        assert (await lenses_of(editor, path))[0] == (
            12,
            output.replace("8*B*M*(t-1)/(d*t)", "64*M*(t-1)/(d*t)"),
        )

    drive(tmp_path, script)


MAPPED = """\
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

from layers import SCALE

mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
mapped = partial(jax.shard_map, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False)


@mapped
def total(x):
    return SCALE * lax.psum(x.sum(), "d")


@mapped
def forgotten(x):
    return SCALE * x.sum()


@jax.jit
def alone(x):
    return x * 2
"""

CALLS = """\
import jax.numpy as jnp
import model


def test_all():
    for size in (16, 32):
        x = jnp.arange(float(size))
        model.total(x), model.alone(x)
    model.forgotten(x)
"""


def test_what_tests_proved_and_refuted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the last run that called a function, until what it may depend on changes."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    path = tmp_path / "model.py"
    path.write_text(MAPPED)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "layers.py").write_text("SCALE = 2.0\n")
    (tmp_path / "test_model.py").write_text(CALLS)

    def tested() -> None:
        options = "--shardtypes", "--shardtypes-prove", "--no-shardtypes-trace"
        done = run_pytest(*options, "test_model.py", cwd=tmp_path)
        assert done.returncode == 1, done.stdout

    tested()

    async def script(editor: Editor) -> None:
        editor.open(path, MAPPED)
        await editor.until(lambda p: True)

        async def verdicts() -> list[tuple[int, str]]:
            found = []
            for line, title in await lenses_of(editor, path):
                found.append((line, title.rpartition("; ")[2]))
            return found

        proved = (15, "proved by the last test run")
        refuted = (20, "refuted by the last test run, at model.py:21")
        assert await verdicts() == [proved, refuted]

        before = "by a test run before the last change"
        old = [(15, f"proved {before}"), (20, f"refuted {before}, at model.py:21")]
        (tmp_path / "layers.py").write_text("SCALE = 3.0\n")
        assert await verdicts() == old
        tested()
        assert await verdicts() == [proved, refuted]

        editor.change(path, MAPPED.replace("x * 2", "x * 3"), 2)
        await editor.until(lambda p: p.version == 2)
        assert await verdicts() == old

    drive(tmp_path, script)
