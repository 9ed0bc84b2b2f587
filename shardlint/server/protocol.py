"""The language server protocol: findings, types on hover and as hints, and fixes."""

from __future__ import annotations

import asyncio
import logging
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import PositionCodec

from shardlint.config import ConfigError
from shardlint.rules import RuleError, rule
from shardlint.server.documents import Checked, check_documents
from shardtypes.lang.diagnostics import Diagnostic, Place

#: Seconds of quiet before a change is checked, so that typing a word is one run.
_QUIET = 0.15

_CHANGES = (
    lsp.INITIALIZED,
    lsp.TEXT_DOCUMENT_DID_OPEN,
    lsp.TEXT_DOCUMENT_DID_CLOSE,
    lsp.TEXT_DOCUMENT_DID_SAVE,
    lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES,
)

_log = logging.getLogger(__name__)


class Server(LanguageServer):
    """Checks all open Python documents after each change, off the thread that answers the editor."""

    def __init__(self) -> None:
        super().__init__("shardlint", version("shardtypes"))
        self.checked: dict[Path, Checked] = {}
        self.shown_problems: set[str] = set()
        self._running = asyncio.Lock()
        self._latest = 0

    async def refresh(self, quiet: float = 0.0) -> None:
        """Check what is open and publish it; a newer request makes an older one stop."""
        self._latest += 1
        mine = self._latest
        await asyncio.sleep(quiet)
        async with self._running:
            if mine != self._latest:
                return
            texts, versions = self._open()
            try:
                found, problems = await asyncio.to_thread(check_documents, texts)
            except (ConfigError, RuleError) as error:
                self._say(str(error))
                return
            for problem in problems:
                self._say(problem)
            for gone in self.checked.keys() - found.keys():
                self._publish(gone, Checked(), None)
            self.checked = found
            for path, result in found.items():
                self._publish(path, result, versions[path])

    def of(self, uri: str) -> Checked:
        """What is known of a document."""
        path = to_fs_path(uri)
        return self.checked.get(Path(path), Checked()) if path else Checked()

    def range(self, checked: Checked, place: Place) -> lsp.Range:
        """A place in the editor's units: lines from 0, columns in the code units that were agreed on."""
        codec: PositionCodec = self.workspace.position_codec
        found = lsp.Range(
            lsp.Position(place.line - 1, place.column - 1),
            lsp.Position(place.end_line - 1, place.end_column - 1),
        )
        return (
            codec.range_to_client_units(list(checked.lines), found)
            if checked.lines
            else found
        )

    def _open(self) -> tuple[dict[Path, str], dict[Path, int | None]]:
        texts, versions = {}, {}
        for document in self.workspace.text_documents.values():
            path = to_fs_path(document.uri)
            if path is not None and path.endswith((".py", ".pyi", ".pyw")):
                texts[Path(path)] = document.source
                versions[Path(path)] = document.version
        return texts, versions

    def _publish(self, path: Path, checked: Checked, version: int | None) -> None:
        diagnostics = [self.diagnostic(checked, d) for d in checked.diagnostics]
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(_uri(path), diagnostics, version=version)
        )

    def diagnostic(self, checked: Checked, found: Diagnostic) -> lsp.Diagnostic:
        """A finding as the protocol has it."""
        related = []
        for other in found.related:
            path = Path(other.place.path).absolute()
            at = self.range(self.checked.get(path, Checked()), other.place)
            related.append(
                lsp.DiagnosticRelatedInformation(
                    lsp.Location(_uri(path), at), other.message
                )
            )
        return lsp.Diagnostic(
            range=self.range(checked, found.place),
            message=found.message,
            severity=lsp.DiagnosticSeverity.Error
            if found.severity == "error"
            else lsp.DiagnosticSeverity.Warning,
            code=found.code,
            source="shardlint",
            related_information=related or None,
        )

    def _say(self, problem: str) -> None:
        """Tell the user once; the log has every time."""
        _log.error(problem)
        if problem not in self.shown_problems:
            self.shown_problems.add(problem)
            self.window_show_message(
                lsp.ShowMessageParams(lsp.MessageType.Error, f"shardlint: {problem}")
            )


def _uri(path: Path) -> str:
    return path.as_uri()


def _contains(outer: lsp.Range, at: lsp.Position) -> bool:
    return (
        (outer.start.line, outer.start.character)
        <= (at.line, at.character)
        <= (outer.end.line, outer.end.character)
    )


def _length(at: lsp.Range) -> tuple[int, int]:
    return at.end.line - at.start.line, at.end.character - at.start.character


def serve() -> None:
    """Answer one editor on standard input and output until it says exit."""
    server = Server()

    async def changed(_: Any) -> None:
        await server.refresh()

    for name in _CHANGES:
        server.feature(name)(changed)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def typing(_: lsp.DidChangeTextDocumentParams) -> None:
        await server.refresh(_QUIET)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        checked = server.of(params.text_document.uri)
        texts: list[tuple[lsp.Range, str]] = []
        known = (
            (server.range(checked, shown.place), shown)
            for shown in (*checked.types, *checked.uses)
        )
        around = [(at, shown) for at, shown in known if _contains(at, params.position)]
        if around:
            at, shown = min(around, key=lambda pair: _length(pair[0]))
            why = f"\n\n{shown.why}" if shown.why else ""
            texts.append((at, f"```python\n{shown.name}: {shown.text}\n```{why}"))
        for found in checked.diagnostics:
            at = server.range(checked, found.place)
            about = rule(found.code)
            if about is not None and _contains(at, params.position):
                texts.append(
                    (
                        at,
                        f"**{found.code} {found.name}**\n\n{found.message}\n\n---\n\n{about.text()}",
                    )
                )
        if not texts:
            return None
        content = lsp.MarkupContent(
            lsp.MarkupKind.Markdown, "\n\n---\n\n".join(text for _, text in texts)
        )
        return lsp.Hover(content, texts[0][0])

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        checked = server.of(params.text_document.uri)
        found = []
        for shown in checked.types:
            at = server.range(checked, shown.place)
            if (
                shown.is_array
                and params.range.start.line <= at.end.line <= params.range.end.line
            ):
                found.append(
                    lsp.InlayHint(at.end, f": {shown.text}", lsp.InlayHintKind.Type)
                )
        return found

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        checked = server.of(params.text_document.uri)
        uri = params.text_document.uri
        found = []
        for diagnostic in checked.diagnostics:
            at = server.range(checked, diagnostic.place)
            if (
                at.end.line < params.range.start.line
                or at.start.line > params.range.end.line
            ):
                continue
            shown = [server.diagnostic(checked, diagnostic)]
            if diagnostic.fix is not None:
                edits = [
                    lsp.TextEdit(server.range(checked, e.place), e.replacement)
                    for e in diagnostic.fix.edits
                ]
                found.append(
                    _action(
                        diagnostic.fix.title,
                        uri,
                        edits,
                        shown,
                        diagnostic.fix.applicability == "safe",
                    )
                )
            comment = _comment(checked, diagnostic)
            if comment is not None:
                found.append(
                    _action(
                        f"Ignore {diagnostic.code} here",
                        uri,
                        [comment],
                        shown,
                        preferred=False,
                    )
                )
        return found

    server.start_io()


def _comment(checked: Checked, diagnostic: Diagnostic) -> lsp.TextEdit | None:
    """A comment on a line of its own above the finding; None where no comment may stand."""
    index = diagnostic.place.line - 1
    if index >= len(checked.lines) or (
        index and checked.lines[index - 1].rstrip().endswith("\\")
    ):
        return None
    line = checked.lines[index]
    indent = line[: len(line) - len(line.lstrip())]
    at = lsp.Position(index, 0)
    return lsp.TextEdit(
        lsp.Range(at, at), f"{indent}# shardlint: ignore[{diagnostic.code}]\n"
    )


def _action(
    title: str,
    uri: str,
    edits: list[lsp.TextEdit],
    fixes: list[lsp.Diagnostic],
    preferred: bool,
) -> lsp.CodeAction:
    return lsp.CodeAction(
        title,
        lsp.CodeActionKind.QuickFix,
        diagnostics=fixes,
        is_preferred=preferred or None,
        edit=lsp.WorkspaceEdit(changes={uri: edits}),
    )
