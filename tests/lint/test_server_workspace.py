"""An editor that asks for the findings of all files of its folders."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcRequestCancelled

from tests.lint.editor import Editor, drive

pytestmark = pytest.mark.once

WRONG = """\
from shardtypes import f32


def first(x: f32["B M"], w: f32["F M"]) -> f32["B F"]:
    return x @ w
"""
RIGHT = WRONG.replace("x @ w", "x @ w.T")


def asked(
    editor: Editor, *known: lsp.PreviousResultId
) -> asyncio.Task[lsp.WorkspaceDiagnosticReport]:
    params = lsp.WorkspaceDiagnosticParams(list(known), work_done_token="all")

    async def ask() -> lsp.WorkspaceDiagnosticReport:
        return await editor.workspace_diagnostic_async(params)

    return asyncio.create_task(ask())


def told(report: lsp.WorkspaceDiagnosticReport) -> dict[str, list[object] | None]:
    """The codes that a report gives of each file, None where it says that nothing has changed."""
    found: dict[str, list[object] | None] = {}
    for one in report.items:
        full = isinstance(one, lsp.WorkspaceFullDocumentDiagnosticReport)
        name = one.uri.rpartition("/")[2]
        found[name] = [each.code for each in one.items] if full else None
    return found


def test_files_that_are_not_open_are_told_when_they_change(tmp_path: Path) -> None:
    """Those that are open are asked for by themselves. A question waits for a change, unless it is given up."""
    for name in ("one.py", "other.py", "open.py"):
        (tmp_path / name).write_text(WRONG)

    async def script(editor: Editor) -> None:
        steps: asyncio.Queue[str] = asyncio.Queue()

        @editor.feature(lsp.PROGRESS)
        def progress(params: lsp.ProgressParams) -> None:
            steps.put_nowait(params.value["kind"])

        editor.open(tmp_path / "open.py", WRONG)
        await editor.until(lambda p: bool(p.diagnostics))
        report = await asked(editor)
        assert told(report) == {
            "one.py": ["ST204"],
            "other.py": ["ST204"],
        }
        assert [await editor.next(steps), await editor.next(steps)] == ["begin", "end"]
        known = [
            lsp.PreviousResultId(one.uri, one.result_id)
            for one in report.items
            if one.result_id is not None
        ]

        given_up = editor.protocol.send_request(
            lsp.WORKSPACE_DIAGNOSTIC,
            lsp.WorkspaceDiagnosticParams(known),
            msg_id="given up",
        )
        await asyncio.sleep(0.5)
        assert not given_up.done()
        editor.protocol.notify(lsp.CANCEL_REQUEST, lsp.CancelParams("given up"))
        with pytest.raises(JsonRpcRequestCancelled):
            await asyncio.wrap_future(given_up)

        waiting = asked(editor, *known)
        await asyncio.sleep(0.5)
        assert not waiting.done()
        (tmp_path / "one.py").write_text(RIGHT)
        change = lsp.FileEvent(
            (tmp_path / "one.py").as_uri(), lsp.FileChangeType.Changed
        )
        editor.workspace_did_change_watched_files(
            lsp.DidChangeWatchedFilesParams([change])
        )
        assert told(await waiting) == {"other.py": None, "one.py": []}

    drive(tmp_path, script, preferences={"workspaceFindings": True})


def test_nothing_is_told_of_them_unless_the_user_prefers_it(tmp_path: Path) -> None:
    """A change of that is followed; where it is switched off, the editor forgets what it knows."""
    (tmp_path / "one.py").write_text(WRONG)

    def prefer(editor: Editor, told_of_all: bool) -> None:
        settings = {"shardlint": {"workspaceFindings": told_of_all}}
        editor.workspace_did_change_configuration(
            lsp.DidChangeConfigurationParams(settings)
        )

    async def script(editor: Editor) -> None:
        waiting = asked(editor)
        await asyncio.sleep(0.5)
        assert not waiting.done()
        prefer(editor, True)
        report = await waiting
        assert told(report) == {"one.py": ["ST204"]}
        waiting = asked(editor, lsp.PreviousResultId(report.items[0].uri, "1"))
        prefer(editor, False)
        assert told(await waiting) == {"one.py": []}

    drive(tmp_path, script)
