"""The language server offers to annotate functions, and draws arrays where an editor shows images."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lsprotocol import types as lsp

from tests.lint.editor import Editor, drive
from tests.lint.test_server_choices import applied

pytestmark = pytest.mark.once

TEXT = """\
import jax.numpy as jnp
from shardtypes import f32


def first(x: f32["B M"], w: f32["M F"]):
    é = "𝒳"; y = x @ w
    return y


def second(x: f32["B M"]) -> f32["B M"]:  # shardlint: ignore[ST201]
    return x


def third(x: f32["B M"]):
    return x > 0
"""


def test_the_function_is_annotated(tmp_path: Path) -> None:
    path = tmp_path / "model.py"

    async def titles(editor: Editor, line: int) -> dict[str, lsp.CodeAction]:
        at = lsp.Position(line, 5)
        context = lsp.CodeActionContext([], only=["refactor"])
        document = lsp.TextDocumentIdentifier(path.as_uri())
        found = await editor.text_document_code_action_async(
            lsp.CodeActionParams(document, lsp.Range(at, at), context)
        )
        return {
            one.title: one for one in found or () if isinstance(one, lsp.CodeAction)
        }

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        await editor.until(lambda found: bool(found.diagnostics))
        assert list(await titles(editor, 4)) == ["Annotate first with what is inferred"]
        assert await titles(editor, 5) == {}
        assert await titles(editor, 9) == {}
        (action,) = (await titles(editor, 13)).values()
        assert action.kind == "refactor.rewrite.annotate"
        assert action.edit is not None and action.edit.changes is not None
        new = applied(TEXT, action.edit.changes[path.as_uri()])
        wanted = TEXT.replace("import f32", "import f32, bool_")
        wanted = wanted.replace(
            'third(x: f32["B M"]):', 'third(x: f32["B M"]) -> bool_["B M"]:'
        )
        assert new == wanted

    drive(tmp_path, script)


def test_hover_draws_sharded_arrays_where_the_editor_shows_images(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.py"
    (tmp_path / "pyproject.toml").write_text(
        "[tool.shardlint]\nmesh = { d = 2, t = 4 }\n"
    )
    text = (
        TEXT
        + '\n\ndef fourth(x: f32["B/d M/t"], w: f32["M"]) -> f32["B/d M/t"]:\n    y = x + 1\n    return y + w\n'
    )

    async def hover(editor: Editor, line: int, column: int) -> str:
        document = lsp.TextDocumentIdentifier(path.as_uri())
        at = lsp.Position(line, column)
        found = await editor.text_document_hover_async(lsp.HoverParams(document, at))
        assert found is not None and isinstance(found.contents, lsp.MarkupContent)
        return found.contents.value

    async def script(editor: Editor) -> None:
        editor.open(path, text)
        await editor.until(lambda found: bool(found.diagnostics))
        shown = await hover(editor, 18, 4)
        label, _, data = shown.partition("](data:image/svg+xml;base64,")
        assert label.endswith("![float32['B/d M/t']")
        svg = b64decode(data.rpartition(")")[0]).decode()
        parts = ElementTree.fromstring(svg).findall("{http://www.w3.org/2000/svg}rect")
        assert len(parts) == 8
        assert "data:" not in await hover(editor, 19, 15)  # whole on every device
        editor.workspace_did_change_configuration(
            lsp.DidChangeConfigurationParams({"shardlint": {"hoverPictures": False}})
        )
        assert "data:" not in await hover(editor, 18, 4)

    drive(tmp_path, script, preferences={"hoverPictures": True})


def test_lines_that_moved(tmp_path: Path) -> None:
    """Before everything was checked again, the head of a function is where the text is now."""
    path = tmp_path / "model.py"

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        await editor.until(lambda found: bool(found.diagnostics))
        moved = TEXT.replace("import jax", "\n\nimport jax", 1)
        editor.change(path, moved, 2)
        await editor.until(lambda found: found.version == 2)
        at = lsp.Position(15, 5)
        document = lsp.TextDocumentIdentifier(path.as_uri())
        context = lsp.CodeActionContext([], only=["refactor.rewrite"])
        found = await editor.text_document_code_action_async(
            lsp.CodeActionParams(document, lsp.Range(at, at), context)
        )
        (action,) = [one for one in found or () if isinstance(one, lsp.CodeAction)]
        assert action.edit is not None and action.edit.changes is not None
        new = applied(moved, action.edit.changes[path.as_uri()])
        assert 'def third(x: f32["B M"]) -> bool_["B M"]:\n' in new

    drive(tmp_path, script)
