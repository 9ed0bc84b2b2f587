"""An editor for tests of the language server: a real client, and the server in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from tests.support import Progress

T = TypeVar("T")


class Editor(LanguageClient):
    """An editor that remembers what the server last said of each document."""

    def __init__(self) -> None:
        super().__init__("editor", "1")
        self.findings: asyncio.Queue[lsp.PublishDiagnosticsParams] = asyncio.Queue()
        self.messages: asyncio.Queue[str] = asyncio.Queue()
        self.offered = lsp.ServerCapabilities()

        @self.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def published(params: lsp.PublishDiagnosticsParams) -> None:
            self.findings.put_nowait(params)

        @self.feature(lsp.WINDOW_SHOW_MESSAGE)
        def said(params: lsp.ShowMessageParams) -> None:
            self.messages.put_nowait(params.message)

    async def until(
        self, want: Callable[[lsp.PublishDiagnosticsParams], bool]
    ) -> lsp.PublishDiagnosticsParams:
        while True:
            found = await self.next(self.findings)
            if want(found):
                return found

    async def next(self, queue: asyncio.Queue[T]) -> T:
        """What comes next, as long as the server does something."""
        assert self._server is not None
        progress = Progress(self._server.pid)
        while True:
            try:
                return await asyncio.wait_for(queue.get(), 1)
            except TimeoutError:
                assert not progress.hangs(), "the server says nothing any more"

    @property
    def server(self) -> int:
        """The process of the server."""
        assert self._server is not None
        return self._server.pid

    def open(self, path: Path, text: str) -> None:
        item = lsp.TextDocumentItem(path.as_uri(), "python", 1, text)
        self.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def change(self, path: Path, text: str, version: int) -> None:
        whole = lsp.TextDocumentContentChangeWholeDocument(text)
        about = lsp.VersionedTextDocumentIdentifier(version, path.as_uri())
        self.text_document_did_change(lsp.DidChangeTextDocumentParams(about, [whole]))


def drive(
    folder: Path,
    script: Callable[[Editor], Awaitable[None]],
    capabilities: lsp.ClientCapabilities | None = None,
    arguments: Sequence[str] = (),
    preferences: object = None,
    name: str = "editor",
) -> None:
    """Start a server in a folder, with options, what the user of the editor prefers and what the editor calls itself,
    follow the script, and end it."""

    async def session() -> None:
        editor = Editor()
        await editor.start_io(
            sys.executable, "-m", "shardlint", "server", *arguments, cwd=str(folder)
        )
        try:
            answer = await editor.initialize_async(
                lsp.InitializeParams(
                    capabilities or lsp.ClientCapabilities(),
                    root_uri=folder.as_uri(),
                    initialization_options=preferences,
                    client_info=lsp.ClientInfo(name),
                )
            )
            editor.offered = answer.capabilities
            editor.initialized(lsp.InitializedParams())
            await script(editor)
        finally:
            await editor.shutdown_async(None)
            editor.exit(None)
            await editor.stop()

    asyncio.run(session())
