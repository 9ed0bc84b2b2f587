"""Rename of a dimension: wherever its name is shared, in all files, and nowhere else; or an error that says why not."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from shardlint.run import check
from tests.lint.editor import Editor, drive

pytestmark = pytest.mark.once

LAYERS = """\
import jax.numpy as jnp
from shardtypes import Array, f32, pytree_dataclass


@pytree_dataclass
class Layer:
    up: f32["M F/t"]
    down: f32["F/t M"]

    def normed(self, x: f32["B M"]) -> f32["B M"]:
        return x / jnp.mean(x, axis=-1, keepdims=True)

    @staticmethod
    def apart(x: f32["M N"]) -> f32["M N"]:
        return x


@pytree_dataclass
class Model:
    layers: Array["depth", Layer]
    embed: f32["V M"]


class Own:
    table: f32["M N"]

    def read(self, y: f32["N"]) -> f32["M N"]:
        return self.table + y


Act = f32["B M"]
"""
MODEL = """\
from layers import Act, Layer, Model, Own
from shardtypes import f32


def mlp(x: Act, layer: Layer) -> f32["B M"]:
    B, M = x.shape
    hidden: f32["B F/t"] = layer.normed(x) @ layer.up

    def back(y: f32["B F"]) -> f32["B M"]:
        return y @ layer.down

    return back(hidden)


def both(models: list[Model], layer: "Layer"):
    return [model.embed @ layer.up for model in models]


def other(x: f32["M N"], own: Own) -> f32["M N"]:
    return x


def through(x: Act, depth: f32["depth"]):
    return x


def put(x: f32["M N"], own: Own):
    own.table = x
"""
FILES = {"layers.py": LAYERS, "model.py": MODEL}
#: One mistake in each file, of which the messages say the names.
WRONG = {
    "layers.py": LAYERS.replace("return x / jnp", "return x.T / jnp"),
    "model.py": MODEL.replace("y @ layer.down", "y @ layer.up"),
}
Ask = Callable[[Editor], Awaitable[None]]


def _write(folder: Path, files: Mapping[str, str]) -> None:
    (folder / "pyproject.toml").write_text("[tool.shardlint]\n")
    for name, text in files.items():
        (folder / name).write_text(text)


def _session(folder: Path, files: Mapping[str, str], script: Ask) -> None:
    """The first of the files is open, the others are on the disk."""
    _write(folder, files)
    first = next(iter(files))

    async def opened(editor: Editor) -> None:
        editor.open(folder / first, files[first])
        await editor.until(lambda p: p.uri == (folder / first).as_uri())
        await script(editor)

    drive(folder, opened)


def _at(text: str, before: str, word: str) -> lsp.Position:
    """Where a word is in a text, behind what stands before it."""
    offset = text.index(word, text.index(before))
    line = text.count("\n", 0, offset)
    return lsp.Position(line, offset - text.rfind("\n", 0, offset) - 1)


async def _renamed(
    editor: Editor,
    folder: Path,
    files: Mapping[str, str],
    name: str,
    at: lsp.Position,
    new: str,
) -> dict[str, str]:
    """The files after a rename."""
    document = lsp.TextDocumentIdentifier((folder / name).as_uri())
    asked = lsp.RenameParams(document, at, new)
    found = await editor.text_document_rename_async(asked)
    assert found is not None and found.changes is not None
    after = dict(files)
    for uri, edits in found.changes.items():
        path = Path(uri.removeprefix("file://"))
        after[path.name] = _applied(files[path.name], edits)
    return after


def _applied(text: str, edits: object) -> str:
    assert isinstance(edits, (list, tuple))
    lines = text.splitlines(keepends=True)
    for edit in sorted(edits, key=lambda one: -one.range.start.character):
        start, end = edit.range.start, edit.range.end
        line = lines[start.line]
        lines[start.line] = (
            line[: start.character] + edit.new_text + line[end.character :]
        )
    return "".join(lines)


def _findings(folder: Path, files: Mapping[str, str]) -> list[tuple[str, int, str]]:
    _write(folder, files)
    found = check([str(folder)], cache=False).diagnostics
    return [
        (Path(d.place.path).name, d.place.line, f"{d.code} {d.message}") for d in found
    ]


RENAMED = {
    "layers.py": LAYERS.replace('"M F/t"', '"width F/t"')
    .replace('"F/t M"', '"F/t width"')
    .replace('"B M"', '"B width"')
    .replace('"V M"', '"V width"'),
    "model.py": MODEL.replace('"B M"', '"B width"'),
}


#: Places from which the rename begins: a file, what stands before the word, and the word.
PLACES = [
    ("layers.py", "class Layer", "M F/t"),
    ("layers.py", "class Model", 'M"'),
    ("layers.py", "Act = ", 'M"'),
    ("layers.py", "def normed", 'M"'),
    ("model.py", "def mlp", 'M"'),
    ("model.py", "def back", 'M"'),
]


def test_it_covers_what_shares_the_name(tmp_path: Path) -> None:
    """From wherever it begins, in files that are open and others; references are of the same places."""

    async def script(editor: Editor) -> None:
        for opened, before, word in PLACES:
            at = _at(FILES[opened], before, word)
            if opened == "model.py" and before == "def mlp":
                editor.open(tmp_path / opened, MODEL)
            after = await _renamed(editor, tmp_path, FILES, opened, at, "width")
            assert after == RENAMED, (opened, before)
        document = lsp.TextDocumentIdentifier((tmp_path / "model.py").as_uri())
        context = lsp.ReferenceContext(include_declaration=True)
        at = _at(MODEL, "def back", 'M"')
        found = await editor.text_document_references_async(
            lsp.ReferenceParams(context, document, at)
        )
        assert found is not None
        places = [(Path(one.uri).name, one.range.start.line + 1) for one in found]
        assert places == [
            *(("layers.py", line) for line in (7, 8, 10, 10, 21, 31)),
            *(("model.py", line) for line in (5, 9)),
        ]

    _session(tmp_path, FILES, script)


def test_it_leaves_separate_scopes_alone(tmp_path: Path) -> None:
    """A static method, a class whose names are its own but where it is assigned to, a function that uses neither; the
    dimension of a stack."""
    own = {
        "def apart": [("layers.py", "def apart")],
        "class Own": [
            ("layers.py", "table"),
            ("layers.py", "def read"),
            ("model.py", "def put"),
        ],
        "def other": [("model.py", "def other")],
    }

    async def script(editor: Editor) -> None:
        editor.open(tmp_path / "model.py", MODEL)
        for before, changed in own.items():
            name = changed[0][0]
            at = _at(FILES[name], before, '"M N"')
            at.character += 1
            after = await _renamed(editor, tmp_path, FILES, name, at, "rows")
            expected = dict(FILES)
            for file, place in changed:
                lines = expected[file].splitlines(keepends=True)
                line = next(n for n, text in enumerate(lines) if place in text)
                lines[line] = lines[line].replace('"M N"', '"rows N"')
                expected[file] = "".join(lines)
            assert after == expected, before
        at = _at(LAYERS, "class Model", "depth")
        after = await _renamed(editor, tmp_path, FILES, "layers.py", at, "rows")
        assert after == {**FILES, "layers.py": LAYERS.replace("depth", "rows")}

    _session(tmp_path, FILES, script)


def test_it_follows_unsaved_text(tmp_path: Path) -> None:
    """A function that shares the name only in what is typed; a variable that is called so as well stays."""
    typed = (
        MODEL
        + """

def new(layer: Layer, x: f32["M"]):
    M = x.shape[0]
    return layer.up, M
"""
    )

    async def script(editor: Editor) -> None:
        editor.open(tmp_path / "model.py", MODEL)
        editor.change(tmp_path / "model.py", typed, 2)
        files = {**FILES, "model.py": typed}
        at = _at(LAYERS, "class Layer", "M F/t")
        after = await _renamed(editor, tmp_path, files, "layers.py", at, "width")
        expected = typed.replace(MODEL, RENAMED["model.py"])
        expected = expected.replace('x: f32["M"]', 'x: f32["width"]')
        assert after == {**RENAMED, "model.py": expected}

    _session(tmp_path, FILES, script)


@pytest.mark.parametrize("files", [FILES, WRONG], ids=["correct", "wrong"])
def test_the_linter_finds_the_same_afterwards(
    tmp_path: Path, files: Mapping[str, str]
) -> None:
    found: dict[str, str] = {}

    async def script(editor: Editor) -> None:
        at = _at(LAYERS, "class Layer", "M F/t")
        after = await _renamed(editor, tmp_path, files, "layers.py", at, "width")
        found.update(after)

    _session(tmp_path, files, script)
    before = _findings(tmp_path, files)
    assert bool(before) == (files is WRONG)
    expected = []
    for name, line, message in before:
        expected.append((name, line, re.sub(r"\bM\b", "width", message)))
    assert _findings(tmp_path, found) == expected


#: What a module that uses the layers adds, what the name would become, and what the error says.
REFUSED = {
    "taken by a function": (
        "\ndef f(x: f32['width'], layer: Layer): ...\n",
        "'M' cannot be called 'width': that is another dimension at use.py:5, and both would be one size; choose a "
        "name that is not used there, or rename the other one first",
    ),
    "taken by a class of the same function": (
        "\n@pytree_dataclass\nclass Head:\n    out: f32['width']\n\n"
        "def f(head: Head, layer: Layer): ...\n",
        "'M' cannot be called 'width': that is another dimension at use.py:7, and both would be one size; choose a "
        "name that is not used there, or rename the other one first",
    ),
    "a number": (
        "\nwidth = 4\n\ndef f(x: f32['M'], layer: Layer): ...\n",
        "'M' cannot be called 'width': that is a number at use.py:5, which would become its size; choose another name",
    ),
    "written in parts": (
        "\ndef f(x: f32['B ' 'M'], layer: Layer): ...\n",
        "'M' is also in the annotation at use.py:5, which is not one plain string on one line: write it as one there, "
        "then rename",
    ),
}


def test_it_is_refused_where_sizes_would_become_one(tmp_path: Path) -> None:
    """With the place and the remedy; what does not parse now is not changed in part."""
    head = "from layers import Layer\nfrom shardtypes import f32, pytree_dataclass\n\n"

    async def script(editor: Editor) -> None:
        document = lsp.TextDocumentIdentifier((tmp_path / "layers.py").as_uri())
        at = _at(LAYERS, "class Layer", "M F/t")
        asked = lsp.RenameParams(document, at, "width")
        path = tmp_path / "use.py"
        editor.open(path, head)
        for version, (text, message) in enumerate(REFUSED.values(), 2):
            editor.change(path, head + text, version)
            with pytest.raises(JsonRpcException) as refused:
                await editor.text_document_rename_async(asked)
            assert refused.value.message == message
            assert refused.value.code == lsp.LSPErrorCodes.RequestFailed
        good = head + "\ndef f(x: f32['M'], layer: Layer):\n    return x\n"
        editor.change(path, good, 10)
        editor.change(path, good.replace("return x", "return (x"), 11)
        with pytest.raises(JsonRpcException) as refused:
            await editor.text_document_rename_async(asked)
        assert refused.value.message == (
            "'M' is also in the annotation at use.py:5, in code that does not parse: repair it, then rename"
        )

    _session(tmp_path, {**FILES, "use.py": head}, script)
