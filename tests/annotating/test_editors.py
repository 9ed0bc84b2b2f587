"""The language server offers to annotate the function whose head the cursor is in."""

from __future__ import annotations

from pathlib import Path

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
