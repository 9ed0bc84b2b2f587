"""What an editor asks of a document: types on hover and as hints, fixes, findings."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types as lsp

from shardlint.rules import rule
from shardlint.server.documents import Document
from shardlint.server.serving import Server
from shardlint.server.shapes import local_shape
from shardtypes.lang.diagnostics import Diagnostic


def register(server: Server) -> None:
    """Answer what editors ask."""

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        document = server.of(params.text_document.uri)
        if document is None:
            return None
        texts = list(_hovers(server, document, params.position))
        if not texts:
            return None
        content = lsp.MarkupContent(
            lsp.MarkupKind.Markdown, "\n\n---\n\n".join(text for _, text in texts)
        )
        return lsp.Hover(content, texts[0][0])

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        document = server.of(params.text_document.uri)
        if document is None:
            return []
        first, last = params.range.start.line, params.range.end.line
        found = []
        for shown in document.types(first, last):
            at = server.range(document.lines, shown.place).end
            if shown.is_array and first <= at.line <= last:
                hint = lsp.InlayHint(at, f": {shown.text}", lsp.InlayHintKind.Type)
                found.append(hint)
        return found

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        document = server.of(params.text_document.uri)
        if document is None:
            return []
        found: list[lsp.CodeAction] = []
        for diagnostic in document.findings():
            at = server.range(document.lines, diagnostic.place)
            below = at.end.line < params.range.start.line
            if not below and at.start.line <= params.range.end.line:
                found += _actions(
                    server, document, diagnostic, params.text_document.uri
                )
        return found

    @server.feature(
        lsp.TEXT_DOCUMENT_DIAGNOSTIC,
        lsp.DiagnosticOptions(
            inter_file_dependencies=True, workspace_diagnostics=False
        ),
    )
    def pulled(
        params: lsp.DocumentDiagnosticParams,
    ) -> lsp.RelatedFullDocumentDiagnosticReport:
        document = server.of(params.text_document.uri)
        items = server.diagnostics(document) if document is not None else []
        return lsp.RelatedFullDocumentDiagnosticReport(items)


def _hovers(
    server: Server, document: Document, at: lsp.Position
) -> Iterator[tuple[lsp.Range, str]]:
    """What is to be said of a position: what is known of the name there, then of each finding around it."""
    shown = (
        (server.range(document.lines, one.place), one)
        for known in (document.types, document.uses)
        for one in known(at.line, at.line)
    )
    around = [(place, one) for place, one in shown if _contains(place, at)]
    if around:
        place, one = min(around, key=lambda pair: _length(pair[0]))
        local = local_shape(document, one.text)
        more = "".join(f"\n\n{text}" for text in (one.why, local) if text)
        yield place, f"```python\n{one.name}: {one.text}\n```{more}"
    for found in document.findings():
        place = server.range(document.lines, found.place)
        about = rule(found.code)
        if about is not None and _contains(place, at):
            head = f"**{found.code} {found.name}**\n\n{found.message}"
            yield place, f"{head}\n\n---\n\n{about.text()}"


def _actions(
    server: Server, document: Document, diagnostic: Diagnostic, uri: str
) -> Iterator[lsp.CodeAction]:
    shown = [server.diagnostic(document, diagnostic)]
    if diagnostic.fix is not None:
        edits = [
            lsp.TextEdit(server.range(document.lines, e.place), e.replacement)
            for e in diagnostic.fix.edits
        ]
        preferred = diagnostic.fix.applicability == "safe"
        yield _action(diagnostic.fix.title, uri, edits, shown, preferred)
    comment = _comment(document, diagnostic)
    if comment is not None:
        title = f"Ignore {diagnostic.code} here"
        yield _action(title, uri, [comment], shown, preferred=False)


def _contains(outer: lsp.Range, at: lsp.Position) -> bool:
    return (
        (outer.start.line, outer.start.character)
        <= (at.line, at.character)
        <= (outer.end.line, outer.end.character)
    )


def _length(at: lsp.Range) -> tuple[int, int]:
    return at.end.line - at.start.line, at.end.character - at.start.character


def _comment(document: Document, diagnostic: Diagnostic) -> lsp.TextEdit | None:
    """A comment on a line of its own above the finding; None where no comment may stand."""
    index = diagnostic.place.line - 1
    lines = document.lines
    if index >= len(lines):
        return None
    above = lines[index - 1] if index else ""
    if above.rstrip().endswith("\\"):
        return None
    line = lines[index]
    text = line.lstrip()
    indent = line[: len(line) - len(text)]
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
