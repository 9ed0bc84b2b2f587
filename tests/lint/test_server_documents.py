"""Documents that are no files of Python by their names: what editors say that they are, they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.lint.editor import Editor, drive
from tests.lint.test_server import RIGHT, WRONG
from tests.lint.test_server_notebooks import NOTEBOOKS, Cells

pytestmark = pytest.mark.once

#: As JupyterLab sends a notebook: its cells, with what they were between them, and magics as calls.
OF_JUPYTER = """\
get_ipython().run_line_magic("matplotlib", "inline")
from helper import Layer


def half(x: f32["B M"], layer: Layer):
    return x @ layer.up


!pip install shardtypes
half?
import jax.numpy as jnp
from shardtypes import f32


def norm(x: f32["B M"], scale: f32["M"]):
    mean = jnp.mean(x, axis=-1)
    return x / mean * scale
"""
HELPER = """\
from shardtypes import f32, pytree_dataclass


@pytree_dataclass
class Layer:
    up: f32["M F/t"]
"""


def opened(editor: Editor, uri: str, text: str, language: str = "python") -> None:
    item = lsp.TextDocumentItem(uri, language, 1, text)
    editor.text_document_did_open(lsp.DidOpenTextDocumentParams(item))


def changed(editor: Editor, uri: str, text: str, version: int) -> None:
    whole = lsp.TextDocumentContentChangeWholeDocument(text)
    about = lsp.VersionedTextDocumentIdentifier(version, uri)
    editor.text_document_did_change(lsp.DidChangeTextDocumentParams(about, [whole]))


async def closed(editor: Editor, uri: str) -> None:
    about = lsp.TextDocumentIdentifier(uri)
    editor.text_document_did_close(lsp.DidCloseTextDocumentParams(about))
    gone = await editor.until(lambda p: p.uri == uri and p.version is None)
    assert not gone.diagnostics


async def hover(editor: Editor, uri: str, line: int, column: int) -> str | None:
    about = lsp.TextDocumentIdentifier(uri)
    at = lsp.Position(line, column)
    found = await editor.text_document_hover_async(lsp.HoverParams(about, at))
    if found is None:
        return None
    assert isinstance(found.contents, lsp.MarkupContent)
    return found.contents.value


def codes(found: lsp.PublishDiagnosticsParams) -> list[tuple[object, int]]:
    return [(one.code, one.range.start.line) for one in found.diagnostics]


@pytest.mark.parametrize(
    "uri",
    [
        "untitled:Untitled-1",
        "untitled:model.py",
        "inmemory://model/1",
        "file:///",
        "file:///{folder}/SConstruct",
        "file:///{folder}/with%20blank%2Bplus.txt",
    ],
)
def test_what_the_editor_calls_python_is_checked(tmp_path: Path, uri: str) -> None:
    """As a module of its own, and under the name that the editor gave, however that is written."""
    uri = uri.replace("/{folder}", tmp_path.as_posix())

    async def script(editor: Editor) -> None:
        opened(editor, uri, WRONG)
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert (found.uri, codes(found)) == (uri, [("ST204", 6)])
        said = await hover(editor, uri, 5, 16)
        assert said is not None
        assert "mean: float32['B/d L']" in said
        changed(editor, uri, RIGHT, 2)
        assert not (await editor.until(lambda p: p.version == 2)).diagnostics
        changed(editor, uri, WRONG, 3)
        found = await editor.until(lambda p: p.version == 3 and bool(p.diagnostics))
        assert (found.uri, codes(found)) == (uri, [("ST204", 6)])
        await closed(editor, uri)
        assert await hover(editor, uri, 5, 16) is None

    drive(tmp_path, script)


def test_what_has_no_name_is_no_module_that_others_import(tmp_path: Path) -> None:
    """It would be found in place of a file, or of a library, and what it says would be held against others."""
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    path = tmp_path / "model.py"
    text = """\
from shardtypes import f32
from helper import half

def use(x: f32["B M"]) -> f32["B M"]:
    return half(x)
"""
    other = """\
from shardtypes import f32

def half(x: f32["B"]) -> f32["B"]:
    return x
"""

    async def script(editor: Editor) -> None:
        opened(editor, "untitled:helper.py", other)
        editor.open(path, text + WRONG)
        uri = path.as_uri()
        found = await editor.until(lambda p: p.uri == uri and bool(p.diagnostics))
        assert [one.code for one in found.diagnostics] == ["ST204"]
        (tmp_path / "helper.py").write_text(other)
        editor.change(path, text + RIGHT, 2)
        found = await editor.until(lambda p: p.version == 2 and bool(p.diagnostics))
        assert [one.range.start.line for one in found.diagnostics] == [4]

    drive(tmp_path, script)


def test_documents_of_other_languages_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    uris = [f"{tmp_path.as_uri()}/{name}" for name in ("notes.md", "made.ipynb", "any")]

    async def script(editor: Editor) -> None:
        for uri in uris:
            opened(editor, uri, WRONG, "markdown")
        editor.open(path, WRONG)
        told = set()

        def all_told(found: lsp.PublishDiagnosticsParams) -> bool:
            told.add(found.uri)
            return bool(found.diagnostics)

        await editor.until(all_told)
        assert told == {path.as_uri()}
        for uri in uris:
            assert await hover(editor, uri, 5, 16) is None

    drive(tmp_path, script)


@pytest.mark.parametrize("folder", [".virtual_documents/deep", "deep"])
def test_a_notebook_of_which_the_editor_has_one_text(
    tmp_path: Path, folder: str
) -> None:
    """It is a notebook as JupyterLab sends it: magics are bridged, and what lies beside it is imported."""
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\n")
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "helper.py").write_text(HELPER)
    uri = (tmp_path / folder / "study.ipynb").as_uri()

    async def script(editor: Editor) -> None:
        opened(editor, uri, OF_JUPYTER)
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert (found.uri, codes(found)) == (uri, [("ST204", 16)])
        said = await hover(editor, uri, 15, 5)
        assert said is not None
        assert "mean: float32['B']" in said
        said = await hover(editor, uri, 5, 21)
        assert said is not None
        assert "layer.up: float32['M F/t']" in said

        fixed = OF_JUPYTER.replace("axis=-1", "axis=-1, keepdims=True")
        changed(editor, uri, fixed, 2)
        assert not (await editor.until(lambda p: p.version == 2)).diagnostics
        half_typed = OF_JUPYTER.replace("x @ layer.up", "x @ (")
        for magic in ("!pip install shardtypes", "half?"):
            half_typed = half_typed.replace(magic, "")
        changed(editor, uri, half_typed, 3)
        found = await editor.until(lambda p: p.version == 3 and len(p.diagnostics) > 1)
        assert codes(found) == [("ST902", 5), ("ST204", 16)]
        await closed(editor, uri)
        assert await hover(editor, uri, 15, 5) is None
        opened(editor, uri, OF_JUPYTER)
        opened(editor, uri, fixed)
        assert not (await editor.until(lambda p: p.version == 1)).diagnostics

    drive(tmp_path, script)


def test_a_notebook_with_cells_goes_before_its_text(tmp_path: Path) -> None:
    path = tmp_path / "study.ipynb"

    async def script(editor: Editor) -> None:
        opened(editor, path.as_uri(), WRONG)
        await editor.until(lambda p: bool(p.diagnostics))
        Cells(editor, path).open({"wrong": WRONG})
        found = await editor.until(lambda p: p.uri == path.as_uri())
        assert not found.diagnostics
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert found.uri != path.as_uri()
        about = lsp.TextDocumentIdentifier(path.as_uri())
        editor.text_document_did_close(lsp.DidCloseTextDocumentParams(about))
        assert await hover(editor, found.uri, 5, 16) is not None

    drive(tmp_path, script, NOTEBOOKS)
