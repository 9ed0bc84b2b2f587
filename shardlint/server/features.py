"""What an editor asks of a document: types on hover and as hints, fixes, findings."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator

from lsprotocol import types as lsp

from shardlint.annotating.importing import importing
from shardlint.edits import line_starts, span_of
from shardlint.fixing import chosen
from shardlint.rules import rule
from shardlint.server.device_arrays import picture, sizes
from shardlint.server.documents import Document
from shardlint.server.hints import hint_text
from shardlint.server.known_names import expression_at, known_at
from shardlint.server.serving import Server
from shardlint.syntax import UnparsableFile
from shardtypes.lang.diagnostics import Diagnostic

#: All fixes of a file at once, which editors may run when it is saved.
FIX_ALL = "source.fixAll.shardlint"

#: The annotations that a function lacks.
ANNOTATE = "refactor.rewrite.annotate"

#: Of a page's sections, which would be larger than anything else that an editor shows.
_HEADING = re.compile(r"^## ", re.MULTILINE)


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
        if document is None or not server.preferences.inlay_hints:
            return []
        first, last = params.range.start.line, params.range.end.line
        found = []
        for shown in document.types(first, last):
            at = server.range(document.lines, shown.place).end
            if not shown.is_array or not first <= at.line <= last:
                continue
            text = hint_text(shown.text, server.preferences)
            if text is not None:
                hint = lsp.InlayHint(at, f": {text}", lsp.InlayHintKind.Type)
                found.append(hint)
        return found

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(
            code_action_kinds=[lsp.CodeActionKind.QuickFix, FIX_ALL, ANNOTATE]
        ),
    )
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        document = server.of(uri)
        if document is None:
            return []
        found: list[lsp.CodeAction] = []
        if _wanted(lsp.CodeActionKind.QuickFix, params.context):
            for diagnostic in document.findings():
                at = server.range(document.lines, diagnostic.place)
                below = at.end.line < params.range.start.line
                if not below and at.start.line <= params.range.end.line:
                    found += _actions(server, document, diagnostic, uri)
        if _wanted(FIX_ALL, params.context):
            found += _fix_all(server, document, uri)
        if _wanted(ANNOTATE, params.context):
            found += _annotations(server, document, uri, params.range)
        return found


def register_findings(server: Server) -> None:
    """Answer editors that ask for findings."""

    @server.feature(
        lsp.TEXT_DOCUMENT_DIAGNOSTIC,
        lsp.DiagnosticOptions(
            inter_file_dependencies=True,
            workspace_diagnostics=True,
            work_done_progress=True,
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
    column = server.column(document.lines, at)
    one = known_at(document, at.line, column)
    if one is None:
        one = expression_at(document, at.line, column)
    if one is not None:
        local = sizes(document, one.text)
        drawn = None
        if server.preferences.hover_pictures:
            drawn = picture(document, one.text)
        more = "".join(f"\n\n{text}" for text in (one.why, local, drawn) if text)
        place = server.range(document.lines, one.place)
        yield place, f"```python\n{one.name}: {one.text}\n```{more}"
    for found in document.findings():
        place = server.range(document.lines, found.place)
        about = rule(found.code)
        if about is not None and _contains(place, at):
            # Editors show the message of the finding themselves, beside this.
            page = _HEADING.sub("#### ", about.text())
            yield place, f"**{found.code} {found.name}**\n\n{page}"


def _wanted(kind: str, context: lsp.CodeActionContext) -> bool:
    """Whether the editor asks for actions of this kind. A kind includes those whose names go on behind it; the empty
    one includes all."""
    if not context.only or "" in context.only:
        return True
    return any(kind == one or kind.startswith(one + ".") for one in context.only)


def _actions(
    server: Server, document: Document, diagnostic: Diagnostic, uri: str
) -> Iterator[lsp.CodeAction]:
    shown = [server.diagnostic(document, diagnostic)]
    quick = lsp.CodeActionKind.QuickFix
    fix = diagnostic.fix
    if fix is not None:
        edits, _ = _edits(server, document, [diagnostic], unsafe=True)
        preferred = fix.applicability == "safe"
        yield _action(fix.title, quick, uri, edits, shown, preferred)
    comment = _comment(document, diagnostic)
    if comment is not None:
        title = f"Ignore {diagnostic.code} here"
        yield _action(title, quick, uri, [comment], shown, preferred=False)


def _fix_all(server: Server, document: Document, uri: str) -> Iterator[lsp.CodeAction]:
    """What ``shardlint --fix`` does in one pass, if that is anything."""
    found = sorted(document.findings(), key=lambda one: one.place)
    edits, count = _edits(server, document, found, unsafe=False)
    if count:
        noun = "fix" if count == 1 else "fixes"
        title = f"shardlint: apply {count} safe {noun}"
        yield _action(title, FIX_ALL, uri, edits, None, preferred=False)


def _annotations(
    server: Server, document: Document, uri: str, within: lsp.Range
) -> Iterator[lsp.CodeAction]:
    """What ``shardlint annotate`` writes into the functions whose heads are in a range."""
    first = within.start.line
    last = within.end.line
    text = "".join(document.lines)
    starts = line_starts(text)
    for one in document.proposals(first, last):
        at = server.range(document.lines, one.place)
        if not first <= at.start.line <= last:
            continue
        try:
            imports = importing(text, one.place.path, one.dtypes)
        except UnparsableFile:  # of which the parser says so
            continue
        spans = sorted(span_of(edit, starts) for edit in (*one.edits, *imports))
        edits = _text_edits(server, document, text, spans)
        title = f"Annotate {one.name} with what is inferred"
        yield _action(title, ANNOTATE, uri, edits, None, preferred=False)


def _edits(
    server: Server, document: Document, found: Iterable[Diagnostic], unsafe: bool
) -> tuple[list[lsp.TextEdit], int]:
    """What the fixes of findings change, and how many are applied."""
    text = "".join(document.lines)
    replacements, count = chosen(text, found, unsafe)
    return _text_edits(server, document, text, replacements), count


def _text_edits(
    server: Server,
    document: Document,
    text: str,
    replacements: Iterable[tuple[int, int, str]],
) -> list[lsp.TextEdit]:
    """Changes of the text, from where to where in characters, as the editor counts."""
    starts = line_starts(text)
    if not text.endswith(("\n", "\r")):
        starts.pop()  # no line begins behind the last one

    def position(offset: int) -> lsp.Position:
        line = bisect_right(starts, offset) or 1
        start = starts[line - 1]
        column = offset - start + 1
        return server.position(document.lines, line, column)

    edits = []
    for start, end, replacement in replacements:
        between = lsp.Range(position(start), position(end))
        edit = lsp.TextEdit(between, replacement)
        edits.append(edit)
    return edits


def _contains(outer: lsp.Range, at: lsp.Position) -> bool:
    return (
        (outer.start.line, outer.start.character)
        <= (at.line, at.character)
        <= (outer.end.line, outer.end.character)
    )


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
    kind: str,
    uri: str,
    edits: list[lsp.TextEdit],
    fixes: list[lsp.Diagnostic] | None,
    preferred: bool,
) -> lsp.CodeAction:
    return lsp.CodeAction(
        title,
        kind,
        diagnostics=fixes,
        is_preferred=preferred or None,
        edit=lsp.WorkspaceEdit(changes={uri: edits}),
    )
