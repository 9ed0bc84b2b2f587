"""What an editor asks of all files of its folders, whether they are open or not.

Editors ask again as soon as they have an answer. So a question waits until a file has changed on the disk: what is
typed is told of the documents themselves.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from shardlint import decoding, messages
from shardlint.cache import digest
from shardlint.server.checking import Answer, Request
from shardlint.server.documents import Document
from shardlint.server.serving import Server
from shardlint.server.worker import Worker
from shardtypes.lang.diagnostics import Diagnostic

#: Seconds in which other files may change, too.
_QUIET = 0.5


def register_workspace(server: Server) -> None:
    """Answer what editors ask of all files."""
    findings = WorkspaceFindings(server)
    server.when_files_change(findings.change)
    server.when_it_ends(findings.end)

    @server.feature(lsp.WORKSPACE_DIAGNOSTIC)
    async def pulled(
        params: lsp.WorkspaceDiagnosticParams,
    ) -> lsp.WorkspaceDiagnosticReport:
        known = {one.uri: one.value for one in params.previous_result_ids}
        return await findings.report(known, params.work_done_token)


class WorkspaceFindings:
    """The findings of all files of the editor's folders, of those that are not open."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._worker = Worker()
        self._asking = asyncio.Lock()
        self._changed = asyncio.Event()
        self._has_told = False
        self._found_any = False

    def change(self) -> None:
        """Files or settings have changed."""
        self._changed.set()

    def end(self) -> None:
        """Stop what runs."""
        self._worker.stop()

    async def report(
        self, known: dict[str, str], token: lsp.ProgressToken | None
    ) -> lsp.WorkspaceDiagnosticReport:
        """What has changed since the editor was told, by the documents that it knows and the ids of what it knows."""
        async with self._asking:
            if self._has_told and (known or not self._found_any):
                await self._next_change()
            while not self._server.preferences.workspace_findings and not known:
                await self._next_change()
            self._has_told = False
            if token is not None:
                begin = lsp.WorkDoneProgressBegin("shardlint", message="all files")
                self._server.work_done_progress.begin(token, begin)
            found = await self._found()
            if token is not None:
                end = lsp.WorkDoneProgressEnd()
                self._server.work_done_progress.end(token, end)
            items = list(self._items(found, known))
            self._has_told = True
            return lsp.WorkspaceDiagnosticReport(items)

    async def _next_change(self) -> None:
        await self._changed.wait()
        await asyncio.sleep(_QUIET)
        self._changed.clear()

    async def _found(self) -> dict[Path, list[Diagnostic]]:
        self._changed.clear()
        self._found_any = False
        if not self._server.preferences.workspace_findings:
            return {}
        texts = self._server.unsaved()
        try:
            request = Request(texts, evaluate=True, folders=self._folders())
            answer = await self._worker.answer(request)
        except (asyncio.IncompleteReadError, ConnectionError):
            answer = Answer(problems=[messages.worker_died()])
        for problem in answer.problems:
            self._server.say(problem)
        found: dict[Path, list[Diagnostic]] = defaultdict(list)
        for one in answer.diagnostics:
            path = Path(one.place.path).absolute()
            if path not in texts:
                found[path].append(one)
        self._found_any = bool(found)
        return found

    def _folders(self) -> tuple[str, ...]:
        workspace = self._server.workspace
        uris = [*workspace.folders] or [workspace.root_uri]
        paths = [to_fs_path(uri) for uri in uris if uri]
        return tuple(path for path in paths if path)

    def _items(
        self, found: dict[Path, list[Diagnostic]], known: dict[str, str]
    ) -> Iterable[lsp.WorkspaceDocumentDiagnosticReport]:
        told = set()
        for path, diagnostics in found.items():
            uri = path.as_uri()
            told.add(uri)
            name = digest(repr(diagnostics))
            if known.get(uri) == name:
                yield lsp.WorkspaceUnchangedDocumentDiagnosticReport(uri, name)
                continue
            try:
                text = decoding.decoded(path.read_bytes())
            except OSError:  # gone meanwhile
                continue
            document = Document(path, text, None)
            items = [self._server.diagnostic(document, one) for one in diagnostics]
            yield lsp.WorkspaceFullDocumentDiagnosticReport(uri, items, result_id=name)
        opened = {path.as_uri() for path in self._server.unsaved()}
        for uri in known.keys() - told - opened:
            yield lsp.WorkspaceFullDocumentDiagnosticReport(uri, [])
