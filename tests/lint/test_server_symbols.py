"""Dimensions and mesh axes in an editor: completion, definition, references, rename, tokens, shapes of devices."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from lsprotocol import types as lsp

from tests.lint.editor import Editor, drive

pytestmark = pytest.mark.once

TEXT = """\
import jax
from jax import lax
from jax.sharding import PartitionSpec as P
from shardtypes import f32, bf16

mesh = jax.make_mesh((2, 4), ("d", "t"))
SPEC = P("d", None, "t")


def dense(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F/t"]:
    é = "𝒳"; y: f32["B/d F/t"] = x @ w
    return y


def summed(x: f32["B M {U:t}"]) -> f32["B M"]:
    return lax.psum(x, "t")


def caller(a: f32["8/d width"], b: f32["width 2*width"]):
    return dense(a, b)
"""
OTHER = """\
from jax.sharding import PartitionSpec

ROWS = PartitionSpec(("d", "t"))
NOT_ONE = {"t": 1}
"""
Ask: TypeAlias = Callable[[Editor, Path], Awaitable[None]]


def _session(folder: Path, script: Ask) -> None:
    """With a project of two files, one of them open."""
    (folder / "pyproject.toml").write_text(
        "[tool.shardlint]\nmesh = { d = 2, t = 4 }\n"
    )
    path = folder / "model.py"
    path.write_text(TEXT)
    (folder / "other.py").write_text(OTHER)

    async def opened(editor: Editor) -> None:
        editor.open(path, TEXT)
        await editor.until(lambda p: p.uri == path.as_uri())
        await script(editor, path)

    drive(folder, opened)


def _at(line: int, text: str, offset: int = 0) -> lsp.Position:
    """Where a text is in a line (from 1), in UTF-16 units."""
    before = TEXT.splitlines()[line - 1]
    before = before[: before.index(text) + offset]
    return lsp.Position(line - 1, len(before.encode("utf-16-le")) // 2)


def _places(locations: object) -> list[tuple[str, int, int]]:
    assert isinstance(locations, (list, tuple))
    return [
        (Path(one.uri).name, one.range.start.line + 1, one.range.start.character)
        for one in locations
    ]


def test_definition_references_and_rename(tmp_path: Path) -> None:
    """A dimension means the same in its function, a mesh axis in the project; what is only written alike is left."""

    async def script(editor: Editor, path: Path) -> None:
        document = lsp.TextDocumentIdentifier(path.as_uri())
        context = lsp.ReferenceContext(include_declaration=True)

        async def references(at: lsp.Position) -> list[tuple[str, int, int]]:
            asked = lsp.ReferenceParams(context, document, at)
            return _places(await editor.text_document_references_async(asked))

        dimension = await references(_at(10, "M F/t"))
        assert [(line, column) for _, line, column in dimension] == [(10, 22), (10, 35)]
        axis = [
            ("model.py", 6, 36),
            ("model.py", 7, 21),
            ("model.py", 10, 39),
            ("model.py", 10, 58),
            ("model.py", 11, 28),
            ("model.py", 15, 26),
            ("model.py", 16, 24),
            ("other.py", 3, 28),
        ]
        assert await references(_at(15, "t}")) == axis

        asked = lsp.DefinitionParams(document, _at(16, '"t"', 1))
        made = await editor.text_document_definition_async(asked)
        assert _places([made]) == [("model.py", 6, 36)]
        asked = lsp.DefinitionParams(document, _at(11, "B/d"))
        first = await editor.text_document_definition_async(asked)
        assert _places([first]) == [("model.py", 10, 18)]

        renamed = await editor.text_document_rename_async(
            lsp.RenameParams(document, _at(10, "B/d"), "batch")
        )
        assert renamed is not None and renamed.changes is not None
        assert _applied(TEXT, renamed.changes[path.as_uri()]) == TEXT.replace(
            "B/d", "batch/d"
        )
        renamed = await editor.text_document_rename_async(
            lsp.RenameParams(document, _at(6, '"t"', 1), "model")
        )
        assert renamed is not None and renamed.changes is not None
        expected = TEXT.replace('"t"', '"model"').replace("/t", "/model")
        expected = expected.replace("U:t", "U:model")
        assert _applied(TEXT, renamed.changes[path.as_uri()]) == expected
        other = (path.parent / "other.py").as_uri()
        assert _applied(OTHER, renamed.changes[other]) == OTHER.replace(
            '("d", "t")', '("d", "model")'
        )
        refused = lsp.RenameParams(document, _at(6, '"t"', 1), "two words")
        assert await editor.text_document_rename_async(refused) is None
        nothing = lsp.RenameParams(document, _at(12, "return"), "name")
        assert await editor.text_document_rename_async(nothing) is None

    _session(tmp_path, script)


def test_tokens_hover_and_signatures(tmp_path: Path) -> None:
    async def script(editor: Editor, path: Path) -> None:
        document = lsp.TextDocumentIdentifier(path.as_uri())
        asked = lsp.SemanticTokensParams(document)
        tokens = await editor.text_document_semantic_tokens_full_async(asked)
        assert tokens is not None
        found = _decoded(list(tokens.data))
        assert [one for one in found if one[0] == 15] == [
            (15, 19, 1, 0),
            (15, 21, 1, 0),
            (15, 26, 1, 2),
            (15, 40, 1, 0),
            (15, 42, 1, 0),
        ]
        assert (11, 22, 1, 0) in found and (11, 24, 1, 1) in found

        hover = await editor.text_document_hover_async(
            lsp.HoverParams(document, _at(12, "y"))
        )
        assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
        assert hover.contents.value == (
            "```python\ny: float32['B/d F/t']\n```\n\n"
            "on each device of d=2, t=4: float32['B//2 F//4']"
        )

        help_ = await editor.text_document_signature_help_async(
            lsp.SignatureHelpParams(document, _at(20, "b)", 1))
        )
        assert help_ is not None and help_.active_parameter == 1
        (signature,) = help_.signatures
        assert signature.label == (
            "dense(x: f32['B/d M'], w: f32['M F/t']) -> f32['B/d F/t']"
        )
        assert signature.documentation == "with B = 8, M = width, F = 2*width"

    _session(tmp_path, script)


def test_completion_where_names_are_typed(tmp_path: Path) -> None:
    """While the text does not parse."""
    cases = {
        "    z: f32['": ["B", "M", "F", "width"],
        "    z: f32[jax.Array, '": ["B", "M", "F", "width"],
        "    z: f32['B/": ["d", "t"],
        "    z: f32['B {U:": ["d", "t"],
        "    z = P('": ["d", "t"],
        "    z = lax.psum(y, '": ["d", "t"],
        "    z: ": ["f32", "bf16"],
        "    z = '": [],
    }

    async def script(editor: Editor, path: Path) -> None:
        document = lsp.TextDocumentIdentifier(path.as_uri())
        for version, (typed, expected) in enumerate(cases.items(), 2):
            text = TEXT.replace("    return y", typed)
            editor.change(path, text, version)
            at = lsp.Position(11, len(typed))
            asked = lsp.CompletionParams(document, at)
            found = await editor.text_document_completion_async(asked)
            assert isinstance(found, (list, tuple))
            assert [one.label for one in found] == expected, typed

    _session(tmp_path, script)


def _decoded(data: list[int]) -> list[tuple[int, int, int, int]]:
    found = []
    line = column = 0
    for index in range(0, len(data), 5):
        lines, characters, length, kind, _ = data[index : index + 5]
        column = characters if lines else column + characters
        line += lines
        found.append((line + 1, column, length, kind))
    return found


def _applied(text: str, edits: object) -> str:
    """The text after edits whose columns count UTF-16 units, each on one line."""
    assert isinstance(edits, (list, tuple))
    lines = [line.encode("utf-16-le") for line in text.splitlines(keepends=True)]
    for edit in sorted(edits, key=lambda one: -one.range.start.character):
        line = edit.range.start.line
        start, end = 2 * edit.range.start.character, 2 * edit.range.end.character
        new = edit.new_text.encode("utf-16-le")
        lines[line] = lines[line][:start] + new + lines[line][end:]
    return "".join(line.decode("utf-16-le") for line in lines)
