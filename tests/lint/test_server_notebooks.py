"""Notebooks in an editor: their cells are one module, and each has what is its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from tests.lint.editor import Editor, drive
from tests.lint.test_notebooks import notebook

pytestmark = pytest.mark.once

IMPORTS = """\
%matplotlib inline
!pip install shardtypes
import jax.numpy as jnp
from shardtypes import f32, pytree_dataclass"""
LAYER = """\
@pytree_dataclass
class Layer:
    up: f32["M F/t"]
    down: f32["F/t M"]"""
MLP = """\
%%time
def mlp(x: f32["B/d M"], layer: Layer) -> f32["B/d M"]:
    hidden = x @ layer.up
    return hidden"""
NORM = """\
def norm(x: f32["B M"], scale: f32["M"]):
    mean = jnp.mean(x, axis=-1)
    return x / mean * scale"""
CELLS = {"imports": IMPORTS, "layer": LAYER, "mlp": MLP, "norm": NORM}
NOTEBOOKS = lsp.ClientCapabilities(
    notebook_document=lsp.NotebookDocumentClientCapabilities(
        lsp.NotebookDocumentSyncClientCapabilities()
    )
)
Ask = Callable[["Cells"], Awaitable[None]]


class Cells:
    """A notebook in an editor, that remembers what was last said of each cell."""

    def __init__(self, editor: Editor, path: Path) -> None:
        self.editor = editor
        self.path = path
        self.version = 1
        self.said: dict[str, Sequence[lsp.Diagnostic]] = {}
        self.versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        """As Visual Studio Code calls cells."""
        return f"vscode-notebook-cell:{self.path}#{name}"

    def document(self, name: str) -> lsp.TextDocumentIdentifier:
        return lsp.TextDocumentIdentifier(self.uri(name))

    def open(self, cells: Mapping[str, str], **metadata: Any) -> None:
        about = [self._cell(name, **metadata) for name in cells]
        opened = lsp.NotebookDocument(
            self.path.as_uri(), "jupyter-notebook", self.version, about
        )
        texts = [self._text(name, text) for name, text in cells.items()]
        self.editor.notebook_document_did_open(
            lsp.DidOpenNotebookDocumentParams(opened, texts)
        )

    def close(self, names: Sequence[str]) -> None:
        about = lsp.NotebookDocumentIdentifier(self.path.as_uri())
        closed = [self.document(name) for name in names]
        self.editor.notebook_document_did_close(
            lsp.DidCloseNotebookDocumentParams(about, closed)
        )

    def save(self) -> None:
        about = lsp.NotebookDocumentIdentifier(self.path.as_uri())
        self.editor.notebook_document_did_save(lsp.DidSaveNotebookDocumentParams(about))

    def edit(self, name: str, text: str) -> None:
        self.versions[name] += 1
        about = lsp.VersionedTextDocumentIdentifier(self.versions[name], self.uri(name))
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        content = lsp.NotebookDocumentCellContentChanges(about, [whole])
        self._change(lsp.NotebookDocumentCellChanges(text_content=[content]))

    def splice(
        self,
        start: int,
        count: int,
        names: Sequence[str] = (),
        opened: Mapping[str, str] | None = None,
        closed: Sequence[str] = (),
    ) -> None:
        """Put cells in the place of others."""
        array = lsp.NotebookCellArrayChange(
            start, count, [self._cell(name) for name in names]
        )
        texts = [self._text(name, text) for name, text in (opened or {}).items()]
        gone = [self.document(name) for name in closed]
        structure = lsp.NotebookDocumentCellChangeStructure(array, texts, gone)
        self._change(lsp.NotebookDocumentCellChanges(structure))

    async def until(self, wanted: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Wait until just these cells have findings: code and line (from 0)."""
        while self.findings != wanted:
            found = await self.editor.next(self.editor.findings)
            self.said[found.uri.partition("#")[2]] = found.diagnostics

    @property
    def findings(self) -> dict[str, list[tuple[str, int]]]:
        found = {}
        for name, diagnostics in self.said.items():
            if diagnostics:
                found[name] = [
                    (str(one.code), one.range.start.line) for one in diagnostics
                ]
        return found

    def _change(self, cells: lsp.NotebookDocumentCellChanges) -> None:
        self.version += 1
        about = lsp.VersionedNotebookDocumentIdentifier(
            self.version, self.path.as_uri()
        )
        change = lsp.NotebookDocumentChangeEvent(cells=cells)
        self.editor.notebook_document_did_change(
            lsp.DidChangeNotebookDocumentParams(about, change)
        )

    def _cell(self, name: str, **metadata: Any) -> lsp.NotebookCell:
        kind = lsp.NotebookCellKind.Code
        return lsp.NotebookCell(kind, self.uri(name), metadata.get(name))

    def _text(self, name: str, text: str) -> lsp.TextDocumentItem:
        self.versions[name] = 1
        return lsp.TextDocumentItem(self.uri(name), "python", 1, text)


def _session(
    folder: Path,
    script: Ask,
    capabilities: lsp.ClientCapabilities = NOTEBOOKS,
) -> None:
    (folder / "pyproject.toml").write_text(
        "[tool.shardlint]\nmesh = { d = 2, t = 4 }\n"
    )

    async def opened(editor: Editor) -> None:
        await script(Cells(editor, folder / "a.ipynb"))

    drive(folder, opened, capabilities)


WRONG = {"mlp": [("ST201", 3)], "norm": [("ST204", 2)]}


def test_findings_are_those_of_cells(tmp_path: Path) -> None:
    """Of what is not saved, while cells are edited, added, moved and removed; magics are bridged."""

    async def script(cells: Cells) -> None:
        cells.open(CELLS)
        await cells.until(WRONG)
        (mlp,) = cells.said["mlp"]
        related = mlp.related_information
        assert related is not None
        assert related[0].location.uri == cells.uri("mlp")

        cells.edit("mlp", MLP.replace("return hidden", "return hidden @ layer.down"))
        await cells.until({"norm": WRONG["norm"]})
        # half-typed code costs its own statement
        cells.edit("norm", NORM + "\n\ny = (")
        await cells.until({"norm": [("ST204", 2), ("ST902", 4)]})
        cells.edit("norm", "\n" + NORM)
        await cells.until({"norm": [("ST204", 3)]})

        more = {"made": "y = jnp.ones((2, 3))", "used": "y @ y"}
        cells.splice(4, 0, ["made", "used"], more)
        await cells.until({"norm": [("ST204", 3)], "used": [("ST204", 0)]})
        # in front of what makes it
        cells.splice(3, 3, ["used", "norm", "made"])
        await cells.until({"norm": [("ST204", 3)]})
        cells.splice(3, 3, closed=["used", "norm", "made"])
        await cells.until({})
        cells.edit("mlp", MLP)
        await cells.until({"mlp": [("ST201", 3)]})
        cells.close(["imports", "layer", "mlp"])
        await cells.until({})

    _session(tmp_path, script)


def test_saving_reads_settings_anew(tmp_path: Path) -> None:
    async def script(cells: Cells) -> None:
        cells.open(CELLS)
        await cells.until(WRONG)
        (tmp_path / "pyproject.toml").write_text(
            "[tool.shardlint]\nignore = ['ST201']\n"
        )
        cells.save()
        await cells.until({"norm": WRONG["norm"]})

    _session(tmp_path, script)


def test_an_open_module_that_cells_import(tmp_path: Path) -> None:
    """Both as they are now; lines may end as on Windows."""
    path = tmp_path / "layers.py"
    module = "from shardtypes import f32\n\n\ndef read(x: f32['B M']) -> f32['B M']:\n    return x\n"
    path.write_text(module)
    imports = "import jax.numpy as jnp\r\nfrom layers import read"
    use = "x = 1\r\nread(jnp.ones((2, 3)))"

    async def script(cells: Cells) -> None:
        cells.editor.open(path, module)
        cells.open({"imports": imports, "use": use})
        await cells.until({})
        cells.editor.change(path, module.replace("'B M'", "'B M N'"), 2)
        await cells.until({"use": [("ST202", 1)]})
        cells.editor.change(path, module, 3)
        await cells.until({})

    _session(tmp_path, script)


def test_a_cell_that_is_meant_to_fail(tmp_path: Path) -> None:
    """By its tag, wherever the editor has it."""
    fails = "jnp.ones((2, 3)) @ jnp.ones((2, 3))"

    async def script(cells: Cells) -> None:
        cells.open(
            {"imports": IMPORTS, "first": fails, "second": fails, "norm": NORM},
            first={"tags": ["raises-exception"]},
            second={"metadata": {"tags": ["raises-exception"]}},
        )
        await cells.until({"norm": WRONG["norm"]})

    _session(tmp_path, script)


def test_what_editors_ask_of_a_cell(tmp_path: Path) -> None:
    async def script(cells: Cells) -> None:
        editor = cells.editor
        cells.open(CELLS)
        await cells.until(WRONG)
        cells.splice(0, 0, ["empty"], {"empty": ""})
        cells.edit("mlp", "\n" + MLP.partition("\n")[2])
        await cells.until(WRONG)
        mlp = cells.document("mlp")

        hover = await editor.text_document_hover_async(
            lsp.HoverParams(mlp, lsp.Position(2, 6))
        )
        assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
        assert hover.contents.value == (
            "```python\nhidden: float32['B/d F/t']\n```\n\n"
            "on each device of d=2, t=4: float32['B//2 F//4']"
        )
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0))
        hints = await editor.text_document_inlay_hint_async(
            lsp.InlayHintParams(mlp, whole)
        )
        assert hints is not None
        assert [(one.label, one.position) for one in hints] == [
            (": float32['B/d F/t']", lsp.Position(2, 10))
        ]
        tokens = await editor.text_document_semantic_tokens_full_async(
            lsp.SemanticTokensParams(cells.document("layer"))
        )
        assert tokens is not None
        assert list(tokens.data)[:10] == [2, 13, 1, 0, 0, 0, 2, 1, 0, 0]

        # the dimensions of the function, then those of other cells; what other cells import
        cases = {
            "    z: f32['": ["B", "M", "F", "x"],
            "    z: ": ["f32"],
        }
        for typed, expected in cases.items():
            text = MLP.replace("    return hidden", typed)
            cells.edit("mlp", text)
            found = await editor.text_document_completion_async(
                lsp.CompletionParams(mlp, lsp.Position(3, len(typed)))
            )
            assert isinstance(found, (list, tuple))
            labels = [one.label for one in found]
            assert labels[:2] == expected[:2], typed

        cells.edit("mlp", MLP)
        asked = lsp.SignatureHelpParams(cells.document("more"), lsp.Position(0, 9))
        cells.splice(5, 0, ["more"], {"more": "z = norm("})
        help_ = await editor.text_document_signature_help_async(asked)
        assert help_ is not None
        assert help_.signatures[0].label.startswith("norm(x: f32['B M']")

    _session(tmp_path, script)


async def _actions(
    cells: Cells, name: str, finding: lsp.Diagnostic
) -> list[lsp.CodeAction]:
    context = lsp.CodeActionContext([finding])
    asked = lsp.CodeActionParams(cells.document(name), finding.range, context)
    found = await cells.editor.text_document_code_action_async(asked)
    actions = []
    for one in found or ():
        assert isinstance(one, lsp.CodeAction)
        actions.append(one)
    return actions


def _edit(action: lsp.CodeAction, uri: str) -> lsp.TextEdit:
    """The only one, of that document."""
    assert action.edit is not None and action.edit.changes is not None
    (edit,) = action.edit.changes[uri]
    return edit


def test_actions_of_a_cell(tmp_path: Path) -> None:
    """The fix, and the comment that silences; both of the cell."""

    async def script(cells: Cells) -> None:
        cells.open(CELLS)
        await cells.until(WRONG)
        norm = cells.document("norm")
        (finding,) = cells.said["norm"]
        mends, ignore = await _actions(cells, "norm", finding)
        edit = _edit(mends, norm.uri)
        assert edit.new_text == "mean[..., None]"
        assert ignore.title == "Ignore ST204 here"
        lines = NORM.splitlines(keepends=True)
        lines.insert(2, _edit(ignore, norm.uri).new_text)
        cells.edit("norm", "".join(lines))
        await cells.until({"mlp": WRONG["mlp"]})

        cells.edit("mlp", "# one\nw = 1  # shardlint: ignore[ST201]")
        await cells.until({"mlp": [("ST901", 1)]})
        (finding,) = cells.said["mlp"]
        fix, _, every = await _actions(cells, "mlp", finding)
        for one in (fix, every):
            edit = _edit(one, cells.uri("mlp"))
            assert (edit.range.start, edit.new_text) == (lsp.Position(1, 5), "")

    _session(tmp_path, script)


def test_pulled_findings_of_a_cell(tmp_path: Path) -> None:
    capabilities = lsp.ClientCapabilities(
        notebook_document=NOTEBOOKS.notebook_document,
        text_document=lsp.TextDocumentClientCapabilities(
            diagnostic=lsp.DiagnosticClientCapabilities()
        ),
        workspace=lsp.WorkspaceClientCapabilities(
            diagnostics=lsp.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
        ),
    )

    async def script(cells: Cells) -> None:
        editor = cells.editor
        refreshed = lsp.WORKSPACE_DIAGNOSTIC_REFRESH
        editor.feature(refreshed)(lambda _: editor.messages.put_nowait(refreshed))
        cells.open(CELLS)
        found: dict[str, list[tuple[str, int]]] = {}
        while found != WRONG:
            await editor.next(editor.messages)
            found = {}
            for name in CELLS:
                report = await editor.text_document_diagnostic_async(
                    lsp.DocumentDiagnosticParams(cells.document(name))
                )
                assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
                if report.items:
                    found[name] = [
                        (str(one.code), one.range.start.line) for one in report.items
                    ]

    _session(tmp_path, script, capabilities)


def _start(uri: str, within: lsp.Range) -> tuple[str, int, int]:
    return uri, within.start.line, within.start.character


def test_definition_references_and_rename_across_cells(tmp_path: Path) -> None:
    """In cells, in the module that they import, and not in a notebook that is not open, of which the editor is told."""
    (tmp_path / "layers.py").write_text(
        "from shardtypes import f32, pytree_dataclass\n\n\n"
        "@pytree_dataclass\nclass Layer:\n    up: f32['M F']\n"
    )
    imports = "%time 1\nfrom shardtypes import f32\nfrom layers import Layer"
    use = "\n\ndef mlp(x: f32['B M'], layer: Layer):\n    return x @ layer.up"
    prompted = ">>> def f(x: f32['M B'],\n... layer: Layer): ..."

    async def script(cells: Cells) -> None:
        editor = cells.editor
        cells.open({"imports": imports, "use": use, "prompted": prompted})
        await cells.editor.until(lambda one: one.uri == cells.uri("use"))
        at = lsp.Position(2, 18)
        context = lsp.ReferenceContext(include_declaration=True)
        document = cells.document("use")
        found = await editor.text_document_references_async(
            lsp.ReferenceParams(context, document, at)
        )
        places = {
            (cells.uri("use"), 2, 18),
            (cells.uri("prompted"), 0, 18),
            ((tmp_path / "layers.py").as_uri(), 5, 13),
        }
        assert found is not None
        assert {_start(one.uri, one.range) for one in found} == places
        renamed = await editor.text_document_rename_async(
            lsp.RenameParams(document, at, "width")
        )
        assert renamed is not None and renamed.changes is not None
        assert {
            _start(uri, edit.range)
            for uri, edits in renamed.changes.items()
            for edit in edits
        } == places

        (tmp_path / "b.ipynb").write_text(
            notebook([("markdown", "# Title"), ("code", imports + use)])
        )
        with pytest.raises(JsonRpcException) as refused:
            await editor.text_document_rename_async(
                lsp.RenameParams(document, at, "width")
            )
        assert refused.value.message == (
            "'M' is also in a notebook, at b.ipynb:cell 2:5: open that in the editor, then rename"
        )

    _session(tmp_path, script)
