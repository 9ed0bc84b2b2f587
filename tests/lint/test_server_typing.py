"""Typing in an open document, over the protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.lint.editor import Editor, drive

pytestmark = pytest.mark.once

TEXT = """\
import jax.numpy as jnp
from shardtypes import f32


def first(x: f32["B M"], w: f32["F M"]) -> f32["B F"]:
    return x @ w


def second(x: f32["B M"]) -> f32["B"]:
    y = jnp.sum(x, axis=1)
    return y


def third(x: f32["B M"]) -> f32["M"]:
    return second(x)
"""


def test_half_typed_code_costs_its_own_function(tmp_path: Path) -> None:
    """One finding says what does not parse; the findings, hover and hints of the other functions go on."""
    path = tmp_path / "model.py"

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT)
        found = await editor.until(lambda p: len(p.diagnostics) == 2)
        assert _told(found) == [("ST204", 5), ("ST201", 14)]
        typed = "    return y\n    z = jnp.sum("
        for version in range(2, len(typed)):
            editor.change(path, TEXT.replace("    return y", typed[:version]), version)
        last = len(typed)
        editor.change(path, TEXT.replace("    return y", typed), last)
        found = await editor.until(lambda p: p.version == last)
        assert _told(found) == [("ST204", 5), ("ST902", 11), ("ST201", 15)]
        assert "was never closed" in found.diagnostics[1].message

        document = lsp.TextDocumentIdentifier(path.as_uri())
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(20, 0))
        hints = await editor.text_document_inlay_hint_async(
            lsp.InlayHintParams(document, whole)
        )
        assert hints is not None
        assert [(hint.position.line, hint.label) for hint in hints] == [
            (9, ": float32['B']")
        ]
        hover = await editor.text_document_hover_async(
            lsp.HoverParams(document, lsp.Position(15, 18))
        )
        assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
        assert "x: float32['B M']" in hover.contents.value

        editor.change(path, TEXT.replace("    return y", f"{typed}y)"), last + 1)
        found = await editor.until(
            lambda p: p.version == last + 1 and len(p.diagnostics) == 2
        )
        assert _told(found) == [("ST204", 5), ("ST201", 15)]

    drive(tmp_path, script)


def test_a_document_that_is_opened_half_typed_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "model.py"

    async def script(editor: Editor) -> None:
        editor.open(path, TEXT.replace("jnp.sum(x, axis=1)", "jnp.sum("))
        found = await editor.until(lambda p: len(p.diagnostics) == 3)
        assert _told(found) == [("ST204", 5), ("ST902", 9), ("ST201", 14)]

    drive(tmp_path, script)


PROGRAM = """\
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


def unused(x):
    return x + 1


def mean_square(x):
    return lax.psum(jnp.sum(x * x), 'd') / x.size


def main():
    mesh = jax.make_mesh((4,), ('d',))
    apply = jax.shard_map(mean_square, mesh=mesh, in_specs=P('d'), out_specs=P())
    return apply(jnp.ones((8, 16)))


if __name__ == '__main__':
    print(main())
"""


def test_what_running_finds_stays_where_its_function_is_the_same(
    tmp_path: Path,
) -> None:
    path = tmp_path / "program.py"

    async def script(editor: Editor) -> None:
        editor.open(path, PROGRAM)
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert _told(found) == [("ST316", 11)]
        # with another line above
        editor.change(path, PROGRAM.replace("return x + 1", "y = x\n    return y"), 2)
        found = await editor.until(lambda p: p.version == 2)
        assert _told(found) == [("ST316", 12)]
        editor.change(path, PROGRAM.replace("x * x)", "x * x * x)"), 3)
        found = await editor.until(lambda p: p.version == 3)
        assert _told(found) == []
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert found.version == 3 and _told(found) == [("ST316", 11)]

    drive(tmp_path, script)


def asking(refresh: bool) -> lsp.ClientCapabilities:
    """What an editor can do that asks for findings, and may be told to ask again."""
    return lsp.ClientCapabilities(
        workspace=lsp.WorkspaceClientCapabilities(
            diagnostics=lsp.DiagnosticWorkspaceClientCapabilities(
                refresh_support=refresh
            )
        ),
        text_document=lsp.TextDocumentClientCapabilities(
            diagnostic=lsp.DiagnosticClientCapabilities()
        ),
    )


def test_an_editor_may_ask_for_findings_itself(tmp_path: Path) -> None:
    path = tmp_path / "model.py"

    async def script(editor: Editor) -> None:
        refreshed: asyncio.Queue[None] = asyncio.Queue()

        @editor.feature(lsp.WORKSPACE_DIAGNOSTIC_REFRESH)
        def refresh(_: None) -> None:
            refreshed.put_nowait(None)

        offered = editor.offered.diagnostic_provider
        assert offered is not None
        assert offered.workspace_diagnostics
        editor.open(path, TEXT)
        await editor.next(refreshed)
        report = await editor.text_document_diagnostic_async(
            lsp.DocumentDiagnosticParams(lsp.TextDocumentIdentifier(path.as_uri()))
        )
        assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
        assert [one.code for one in report.items] == ["ST204", "ST201"]
        assert editor.findings.empty()

    drive(tmp_path, script, asking(refresh=True))


@pytest.mark.parametrize(
    ("name", "refresh"), [("Neovim", True), ("Neovim", False), ("editor", False)]
)
def test_who_cannot_be_told_to_ask_again_is_told(
    tmp_path: Path, name: str, refresh: bool
) -> None:
    """And is not offered to ask: it would have findings twice. Neovim asks again, but not for what is open."""
    path = tmp_path / "model.py"

    async def script(editor: Editor) -> None:
        assert editor.offered.diagnostic_provider is None
        editor.open(path, TEXT)
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert [one.code for one in found.diagnostics] == ["ST204", "ST201"]

    drive(tmp_path, script, asking(refresh), name=name)


def test_an_editor_is_asked_to_watch_files(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    helper = tmp_path / "helper.py"
    helper.write_text("AXIS = 0\n")
    able = lsp.ClientCapabilities(
        workspace=lsp.WorkspaceClientCapabilities(
            did_change_watched_files=lsp.DidChangeWatchedFilesClientCapabilities(
                dynamic_registration=True
            )
        )
    )

    async def script(editor: Editor) -> None:
        asked: asyncio.Queue[list[str]] = asyncio.Queue()

        @editor.feature(lsp.CLIENT_REGISTER_CAPABILITY)
        def register(params: lsp.RegistrationParams) -> None:
            asked.put_nowait([one.method for one in params.registrations])

        assert await editor.next(asked) == [lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES]
        text = TEXT.replace("axis=1", "axis=AXIS")
        editor.open(
            path, text.replace("import jax", "from helper import AXIS\nimport jax", 1)
        )
        found = await editor.until(lambda p: bool(p.diagnostics))
        assert _told(found) == [("ST204", 6), ("ST201", 11)]
        helper.write_text("AXIS = 1\n")
        change = lsp.FileEvent(helper.as_uri(), lsp.FileChangeType.Changed)
        editor.workspace_did_change_watched_files(
            lsp.DidChangeWatchedFilesParams([change])
        )
        found = await editor.until(lambda p: _told(p)[-1:] == [("ST201", 15)])
        assert _told(found) == [("ST204", 6), ("ST201", 15)]

    drive(tmp_path, script, able)


def test_each_folder_has_its_own_settings(tmp_path: Path) -> None:
    """And those of a file that is changed are read again."""
    for name, text in (("one", '["ST204"]'), ("two", "[]")):
        (tmp_path / name).mkdir()
        settings = f"[tool.shardlint]\nignore = {text}\n"
        (tmp_path / name / "pyproject.toml").write_text(settings)
    one, two = tmp_path / "one" / "model.py", tmp_path / "two" / "model.py"

    async def script(editor: Editor) -> None:
        editor.open(one, TEXT)
        editor.open(two, TEXT)
        found = await editor.until(lambda p: p.uri == two.as_uri())
        assert _told(found) == [("ST204", 5), ("ST201", 14)]
        (tmp_path / "one" / "pyproject.toml").write_text(
            '[tool.shardlint]\nignore = ["ST201"]\n'
        )
        editor.workspace_did_change_configuration(
            lsp.DidChangeConfigurationParams(settings=None)
        )
        found = await editor.until(
            lambda p: p.uri == one.as_uri() and _told(p) != [("ST201", 14)]
        )
        assert _told(found) == [("ST204", 5)]

    drive(tmp_path, script)


def _told(found: lsp.PublishDiagnosticsParams) -> list[tuple[object, int]]:
    return [(one.code, one.range.start.line) for one in found.diagnostics]
