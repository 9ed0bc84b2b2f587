"""The language server protocol: what editors say, and who answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lsprotocol import types as lsp

from shardlint.server.checking import start_with
from shardlint.server.features import register, register_findings
from shardlint.server.lenses import register_lenses
from shardlint.server.preferences import section
from shardlint.server.serving import Server
from shardlint.server.shapes import register_shapes
from shardlint.server.symbols import register_symbols
from shardlint.server.workspace import register_workspace
from shardtypes.lang.kept_verdicts import FOLDER, NAME

#: Files whose changes outside of the editor matter.
_WATCHED = (
    *("**/*.py", "**/*.ipynb", "**/pyproject.toml", "**/shardlint.toml"),
    f"**/{(FOLDER / NAME).as_posix()}",
)


async def watch(server: Server) -> None:
    """Ask the editor to tell of changed files, if it can."""
    workspace = server.client_capabilities.workspace
    if workspace is None or workspace.did_change_watched_files is None:
        return
    if not workspace.did_change_watched_files.dynamic_registration:
        return
    watchers = [lsp.FileSystemWatcher(pattern) for pattern in _WATCHED]
    registration = lsp.Registration(
        "files",
        lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
        lsp.DidChangeWatchedFilesRegistrationOptions(watchers),
    )
    await server.client_register_capability_async(
        lsp.RegistrationParams([registration])
    )


def serve(arguments: Sequence[str]) -> None:
    """Answer one editor on standard input and output until it says exit; ``arguments`` are options that go before the
    settings.

    Raises:
        ConfigError: an option that cannot be used.
    """
    start_with(arguments)
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

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    async def notebook_opened(params: lsp.DidOpenNotebookDocumentParams) -> None:
        server.arranged(params.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    async def notebook_changed(params: lsp.DidChangeNotebookDocumentParams) -> None:
        server.arranged(params.notebook_document.uri)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    async def notebook_closed(params: lsp.DidCloseNotebookDocumentParams) -> None:
        server.put_away(params.notebook_document.uri)

    @server.feature(lsp.INITIALIZED)
    async def ready(_: lsp.InitializedParams) -> None:
        await watch(server)

    @server.feature(lsp.INITIALIZE)
    def starting(params: lsp.InitializeParams) -> None:
        server.follow(params.initialization_options)
        if params.client_info is not None:
            server.editor = params.client_info.name
        if server.pulls:
            register_findings(server)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def set_otherwise(params: lsp.DidChangeConfigurationParams) -> None:
        server.follow(section(params.settings))
        server.refresh_hints()
        server.forget()

    async def others(_: Any) -> None:
        server.forget()

    for name in (
        lsp.TEXT_DOCUMENT_DID_SAVE,
        lsp.NOTEBOOK_DOCUMENT_DID_SAVE,
        lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
    ):
        server.feature(name)(others)

    @server.feature(lsp.SHUTDOWN)
    def ending(_: None) -> None:
        server.end()

    register(server)
    register_shapes(server)
    register_symbols(server)
    register_lenses(server)
    register_workspace(server)
    server.start_io()
