"""The language server, spoken to over its own protocol by a real client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from shardlint.addresses import rule_page
from tests.lint.editor import Editor, drive
from tests.support import ROOT, run_python

pytestmark = pytest.mark.once

WRONG = """\
import jax.numpy as jnp
from shardtypes import f32


def norm(x: f32["B/d L M"], scale: f32["M"]) -> f32["B/d L M"]:
    é = "𝒳"; mean = jnp.mean(x * x, axis=-1)
    return x / mean * scale
"""
RIGHT = WRONG.replace("axis=-1", "axis=-1, keepdims=True")


def test_findings_follow_the_text(tmp_path: Path) -> None:
    path = tmp_path / "model.py"

    async def script(editor: Editor) -> None:
        editor.open(path, WRONG)
        found = await editor.until(lambda p: bool(p.diagnostics))
        (diagnostic,) = found.diagnostics
        assert (diagnostic.code, diagnostic.source, diagnostic.range.start.line) == (
            "ST204",
            "shardlint",
            6,
        )
        assert "fails for" in diagnostic.message
        page = diagnostic.code_description
        assert page == lsp.CodeDescription(rule_page("ST204"))

        at = lsp.TextDocumentPositionParams(
            lsp.TextDocumentIdentifier(path.as_uri()), lsp.Position(5, 16)
        )
        hover = await editor.text_document_hover_async(
            lsp.HoverParams(at.text_document, at.position)
        )
        assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
        assert "mean: float32['B/d L']" in hover.contents.value
        hover = await editor.text_document_hover_async(
            lsp.HoverParams(at.text_document, diagnostic.range.start)
        )
        assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
        assert (
            "ST204 operator-mismatch" in hover.contents.value
            and "Why is this bad" in hover.contents.value
        )

        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(7, 0))
        hints = await editor.text_document_inlay_hint_async(
            lsp.InlayHintParams(at.text_document, whole)
        )
        # Columns count UTF-16 code units: the letter outside the basic plane is two of them.
        assert hints is not None and [
            (h.position.line, h.position.character) for h in hints
        ] == [(5, 18)]

        context = lsp.CodeActionContext([diagnostic])
        asked = lsp.CodeActionParams(at.text_document, diagnostic.range, context)
        mends, action = await editor.text_document_code_action_async(asked) or ()
        assert isinstance(mends, lsp.CodeAction)
        assert mends.title == "keep the dimension"
        assert (
            isinstance(action, lsp.CodeAction)
            and action.edit is not None
            and action.edit.changes is not None
        )
        (edit,) = action.edit.changes[path.as_uri()]
        lines = WRONG.splitlines(keepends=True)
        lines.insert(edit.range.start.line, edit.new_text)
        editor.change(path, "".join(lines), 2)
        assert not (await editor.until(lambda p: p.version == 2)).diagnostics

        editor.change(path, RIGHT, 3)
        assert not (await editor.until(lambda p: p.version == 3)).diagnostics

    drive(tmp_path, script)


def test_hover_knows_names_where_they_are_used(tmp_path: Path) -> None:
    """Parameters, locals and fields, also in manual code and inside of what a finding marks; not what is no value."""
    path = tmp_path / "model.py"
    text = """\
from jax import lax
from shardtypes import f32, pytree_dataclass, typed_shard_map

@pytree_dataclass
class Layer:
    up: f32["M F/t"]
    down: f32["F/t M"]

@typed_shard_map
def mlp(x: f32["B/d M"], layer: Layer) -> f32["B/d M"]:
    part = (x @ layer.up) @ layer.down
    return lax.psum(part * part, "t")
"""

    async def script(editor: Editor) -> None:
        editor.open(path, text)
        await editor.until(lambda p: bool(p.diagnostics))

        async def hover(line: int, word: str) -> str | None:
            at = lsp.Position(line - 1, text.splitlines()[line - 1].index(word))
            found = await editor.text_document_hover_async(
                lsp.HoverParams(lsp.TextDocumentIdentifier(path.as_uri()), at)
            )
            assert found is None or isinstance(found.contents, lsp.MarkupContent)
            return None if found is None else found.contents.value

        assert await hover(11, "x @") == "```python\nx: float32['B/d M']\n```"
        assert await hover(11, "layer.up") == "```python\nlayer: Layer\n```"
        assert await hover(11, "up)") == "```python\nlayer.up: float32['M F/t']\n```"
        assert (
            await hover(11, "@ layer.down")
            == "```python\n(x @ layer.up) @ layer.down: float32['B/d M {U:t}']\n```"
        )
        assert await hover(9, "typed_shard_map") is None
        marked = await hover(12, "part *")
        assert marked is not None
        assert marked.startswith("```python\npart: float32['B/d M {U:t}']\n```")
        assert "**ST301 pending-sum-used**" in marked

    drive(tmp_path, script)


def test_hover_on_an_expression_says_how_many_bytes_a_device_has(
    tmp_path: Path,
) -> None:
    """Also over several lines, of which the beginning is shown."""
    path = tmp_path / "model.py"
    settings = "[tool.shardlint]\nmesh = { d = 2 }\n"
    (tmp_path / "pyproject.toml").write_text(settings)
    text = """\
import jax.numpy as jnp
from shardtypes import f32

def f(x: f32["8/d 16"], w: f32["16 B"]) -> None:
    print(jnp.tanh(x))
    print(
        jnp.concatenate(
            [x, jnp.zeros_like(x), jnp.ones_like(x), jnp.zeros_like(x)],
            axis=1,
        )
    )
    print(x @ w, jnp.sum(w, axis=1))
"""

    async def script(editor: Editor) -> None:
        editor.open(path, text)
        document = lsp.TextDocumentIdentifier(path.as_uri())

        async def hover(line: int, word: str) -> str:
            at = lsp.Position(line - 1, text.splitlines()[line - 1].index(word))
            found = None
            while found is None:
                found = await editor.text_document_hover_async(
                    lsp.HoverParams(document, at)
                )
                await asyncio.sleep(0.05)
            assert isinstance(found.contents, lsp.MarkupContent)
            return found.contents.value.replace("```python\n", "").replace("\n```", "")

        device = "on each device of d=2: float32"
        assert await hover(5, "jnp.tanh") == (
            f"jnp.tanh(x): float32['8/d 16']\n\n{device}['4 16'], 256 bytes"
        )
        assert await hover(7, "concatenate") == (
            "jnp.concatenate( [x, jnp.zeros_like(x), jnp.ones_like(x), jn …: "
            f"float32['8/d 64']\n\n{device}['4 64'], 1,024 bytes"
        )
        assert await hover(12, "@") == f"x @ w: float32['8/d B']\n\n{device}['4 B']"
        assert (
            await hover(12, "sum(") == "jnp.sum(w, axis=1): float32['16']\n\n64 bytes"
        )

    drive(tmp_path, script)


def test_an_unsaved_change_is_seen_in_the_files_that_import_it(tmp_path: Path) -> None:
    helper, user = tmp_path / "helper.py", tmp_path / "user.py"
    text = 'from shardtypes import f32\n\n\ndef f(x: f32["3 N"]) -> f32["N"]:\n    return x[0]\n'
    helper.write_text(text)

    async def script(editor: Editor) -> None:
        editor.open(helper, text)
        editor.open(
            user,
            "import jax.numpy as jnp\nfrom helper import f\n\ny = f(jnp.zeros((3, 4)))\n",
        )
        assert not (await editor.until(lambda p: p.uri == user.as_uri())).diagnostics
        editor.change(helper, text.replace("3 N", "5 N"), 2)
        found = await editor.until(
            lambda p: p.uri == user.as_uri() and bool(p.diagnostics)
        )
        assert [d.code for d in found.diagnostics] == ["ST202"]

    drive(tmp_path, script)


def test_settings_that_cannot_be_used_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\nmash = {}\n")

    async def script(editor: Editor) -> None:
        editor.open(tmp_path / "model.py", WRONG)
        editor.change(tmp_path / "model.py", RIGHT, 2)
        message = await editor.next(editor.messages)
        assert "mash" in message and "did you mean 'mesh'?" in message
        (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\nmesh = { d = 2 }\n")
        editor.change(tmp_path / "model.py", WRONG, 3)
        assert (await editor.until(lambda p: p.version == 3)).diagnostics
        assert editor.messages.empty()

    drive(tmp_path, script)


def test_it_ends_well_when_it_is_told_to() -> None:
    """With nothing on standard error, which editors show to their users."""
    messages: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    data = ""
    for message in messages:
        text = json.dumps({"jsonrpc": "2.0", **message})
        data += f"Content-Length: {len(text)}\r\n\r\n{text}"
    command = [sys.executable, "-m", "shardlint", "server"]
    done = subprocess.run(
        command, input=data.encode(), cwd=ROOT, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b'"id":2' in done.stdout.replace(b" ", b"")


def test_without_its_library_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['pygls'] = None; from shardlint.cli import main; sys.exit(main(['server']))"
    done = run_python("-c", code)
    assert done.returncode == 2
    assert "pip install 'shardtypes[server]'" in done.stderr
