"""The language server protocol: what editors say, and who answers."""

from __future__ import annotations

from typing import Any

from lsprotocol import types as lsp

from shardlint.server.features import register
from shardlint.server.serving import Server
from shardlint.server.shapes import register_shapes
from shardlint.server.symbols import register_symbols


def serve() -> None:
    """Answer one editor on standard input and output until it says exit."""
    server = Server()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.opened(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def typing(params: lsp.DidChangeTextDocumentParams) -> None:
        await server.changed(params.text_document.uri)

    async def others(_: Any) -> None:
        server.forget()

    for name in (
        lsp.TEXT_DOCUMENT_DID_SAVE,
        lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
        lsp.WORKSPACE_DID_CHANGE_CONFIGURATION,
    ):
        server.feature(name)(others)

    @server.feature(lsp.SHUTDOWN)
    def ending(_: None) -> None:
        server.end()

    register(server)
    register_shapes(server)
    register_symbols(server)
    server.start_io()
