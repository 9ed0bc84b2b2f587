"""What is shown above functions that send something between devices."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.lint.editor import Editor, drive

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


def test_collectives_and_their_bytes(tmp_path: Path) -> None:
    """With names for sizes that are not known; they follow the text, and what is saved."""
    path = tmp_path / "model.py"
    settings = "[tool.shardlint]\nmesh = { d = 2, t = 4 }\n"
    (tmp_path / "pyproject.toml").write_text(settings)
    path.write_text(TEXT)

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        await editor.until(lambda p: bool(p.diagnostics))

        async def lenses() -> list[tuple[int, str]]:
            params = lsp.CodeLensParams(lsp.TextDocumentIdentifier(path.as_uri()))
            found = await editor.text_document_code_lens_async(params)
            titles = []
            for one in found or ():
                assert one.command is not None
                titles.append((one.range.start.line + 1, one.command.title))
            return titles

        output = "psum: 8*B*M*(t-1)/(d*t) bytes from each device"
        wrong = "psum: 96 bytes from each device; found wrong: ST301"
        assert await lenses() == [(11, output), (17, wrong)]

        editor.change(path, "\n" + TEXT, 2)
        await editor.until(lambda p: p.version == 2)
        assert await lenses() == [(12, output), (18, wrong)]

        path.write_text(TEXT.replace("B/d F/t", "8/d F/t"))
        assert (await lenses())[0] == (
            12,
            output.replace("8*B*M*(t-1)/(d*t)", "64*M*(t-1)/(d*t)"),
        )

    drive(tmp_path, script)
