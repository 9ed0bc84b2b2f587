"""Dimensions and mesh axes as an editor's symbols: where they are, what they are called, how they are coloured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcContentModified, JsonRpcException

from shardlint import decoding
from shardlint.config import ConfigError
from shardlint.discovery import MAX_FILES, Discovery
from shardlint.made_axes import made_axes
from shardlint.server.checking import settings_of
from shardlint.server.documents import Document
from shardlint.server.named import At, words_at
from shardlint.server.serving import Server
from shardlint.server.sharing import Refused, Sharing
from shardlint.server.units import Unit
from shardlint.server.words import dtypes_in, names_axes, words_of

#: The types of tokens, as editors know them: a dimension, a mesh axis, an axis that a partial sum is over.
TOKENS = ("typeParameter", "enumMember", "event")
_KINDS = ("dimension", "axis", "pending")
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
#: An unfinished string at the end of what stands before the cursor, and what stands before that.
_OPEN = re.compile(
    r"""^(?P<before>(?:[^'"#]|'[^']*'|"[^"]*")*)(?P<quote>['"])(?P<text>[^'"]*)$"""
)
#: What is typed of an annotation, outside of strings.
_ANNOTATING = re.compile(r"^[^'\"#]*(?::|->)\s*(?:(?P<module>\w+)\.)?\w*$")
_ANNOTATION = re.compile(r"\w\[(?:[^\[\]]*,)?\s*[rbRB]?$")
#: A call, or an argument, that may take the names of axes.
_CALL = re.compile(r"([\w.]+)\(")
_KEYWORD = re.compile(r"\b(?:spmd_)?axis_names?\s*=")


def register_symbols(server: Server) -> None:
    """Answer what editors ask of dimensions and axes."""

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION,
        lsp.CompletionOptions(trigger_characters=["'", '"', " ", "/", ":"]),
    )
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        document = server.of(params.text_document.uri)
        if document is None:
            return []
        return list(_completions(server, document, params.position))

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> lsp.Location | None:
        found = _word_at(server, params.text_document.uri, params.position)
        if found is None:
            return None
        same = list(_same(server, found))
        made = [one for one in same if one.word.made]
        return _location(server, (made or same)[0])

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    async def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        found = _word_at(server, params.text_document.uri, params.position)
        if found is None:
            return []
        words = await _shared(server, found)
        return [_location(server, one) for one in words]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        found = _word_at(server, params.text_document.uri, params.position)
        new = params.new_name
        if found is None or _IDENTIFIER.fullmatch(new) is None:
            return None
        if new == found.word.name:
            return lsp.WorkspaceEdit(changes={})
        edits: dict[str, list[lsp.TextEdit]] = {}
        for one in await _shared(server, found, new):
            place = _location(server, one)
            edit = lsp.TextEdit(place.range, new)
            own = edits.setdefault(place.uri, [])
            own.append(edit)
        return lsp.WorkspaceEdit(changes=edits)

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        found = _word_at(server, params.text_document.uri, params.position)
        return None if found is None else _location(server, found).range

    @server.feature(
        lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        lsp.SemanticTokensLegend(list(TOKENS), []),
    )
    def tokens(params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
        document = server.of(params.text_document.uri)
        if document is None:
            return lsp.SemanticTokens([])
        return lsp.SemanticTokens(list(_tokens(server, document)))


def _word_at(server: Server, uri: str, position: lsp.Position) -> At | None:
    document = server.of(uri)
    if document is None:
        return None
    column = server.column(document.lines, position)
    for one in words_at(document):
        if one.line == position.line and one.column <= column <= one.end:
            return one
    return None


def _same(server: Server, found: At) -> Iterator[At]:
    """Every word that means the same: of a dimension in its function or class, of an axis in the project."""
    wanted = found.word
    if not wanted.is_axis:
        for one in _named(found.document, wanted.name, is_axis=False):
            if one.unit is found.unit:
                yield one
        return
    for document in _project(server, found):
        yield from _named(document, wanted.name, is_axis=True)


async def _shared(server: Server, found: At, new: str | None = None) -> Sequence[At]:
    """Every word that means the same, in all scopes that share its name; those that become ``new`` with it."""
    if found.word.is_axis:
        return list(_same(server, found))
    path = found.document.path
    try:
        config = settings_of(path.parent)
        texts = server.texts(config.root)
    except ConfigError:  # which the server tells
        return list(_same(server, found))
    unsaved = server.unsaved()
    overlay = {path: decoding.encoded(unsaved[path]) for path in texts}

    def work() -> Sequence[At]:
        sharing = Sharing(path, config, texts, overlay)
        if new is None:
            return sharing.words(found)
        return sharing.renamed(found, new)

    try:
        words = await server.in_thread(work)
    except Refused as error:
        raise JsonRpcException(str(error), lsp.LSPErrorCodes.RequestFailed) from None
    for each in texts.values():
        if not all(text.is_current for text in each):
            raise JsonRpcContentModified
    # the linter does not analyse every file
    return words or list(_same(server, found))


def _named(document: Document, name: str, is_axis: bool) -> Iterator[At]:
    for one in words_at(document):
        word = one.word
        if word.name == name and word.is_axis == is_axis:
            yield one


def _project(server: Server, found: At) -> Iterator[Document]:
    """The document, then the other files of its project that have the name in them."""
    own = found.document.path
    yield from server.documents_of(own)
    for path in islice(_files(own), MAX_FILES):
        if path == own:
            continue
        opened = server.documents_of(path)
        yield from opened
        document = None if opened else _read(path, found.word.name)
        if document is not None:
            yield document


def _files(path: Path) -> Iterator[Path]:
    try:
        config = settings_of(path.parent)
    except ConfigError:  # which the server tells
        return
    if config.project or config.source is not None:
        yield from Discovery(lambda folder: config).walk(config.root)


def _read(path: Path, name: str) -> Document | None:
    try:
        data = path.read_bytes()
    except OSError:  # gone meanwhile
        return None
    if path.suffix == ".ipynb" or name.encode() not in data:
        return None
    return Document(path, decoding.decoded(data), None)


def _location(server: Server, one: At) -> lsp.Location:
    lines = one.document.lines
    line = one.line + 1
    start = server.position(lines, line, one.column + 1)
    end = server.position(lines, line, one.end + 1)
    return lsp.Location(one.document.uri, lsp.Range(start, end))


def _tokens(server: Server, document: Document) -> Iterator[int]:
    """Five numbers a token: lines and characters after the one before, length, type, modifiers."""
    line = character = 0
    for one in words_at(document):
        place = _location(server, one).range
        start, end = place.start, place.end
        if start.line != line:
            character = 0
        yield start.line - line
        yield start.character - character
        yield end.character - start.character
        yield _KINDS.index(one.word.kind)
        yield 0
        line, character = start.line, start.character


def _completions(
    server: Server, document: Document, at: lsp.Position
) -> Iterator[lsp.CompletionItem]:
    """In an unfinished shape string dimensions, behind a slash and in specs axes; in an annotation outside of a string
    the dtypes."""
    if at.line >= len(document.lines):
        return
    column = server.column(document.lines, at)
    line = document.lines[at.line][:column]
    typed = _ANNOTATING.search(line)
    if typed is not None:
        for name in dtypes_in(document.program, typed["module"] or ""):
            yield lsp.CompletionItem(name, kind=lsp.CompletionItemKind.Class)
        return
    found = _OPEN.match(line)
    if found is None:
        return
    text, before = found["text"], found["before"]
    last = re.split(r"[\s,]", text)[-1]
    if _ANNOTATION.search(before) is None:
        if _takes_axes(document, before):
            yield from _axes(document)
        return
    if "/" in last or "{" in text:
        yield from _axes(document)
        return
    for name in _dimensions(document, at.line):
        yield lsp.CompletionItem(name, kind=lsp.CompletionItemKind.TypeParameter)


def _takes_axes(document: Document, before: str) -> bool:
    """Whether what stands before a string has begun a call that names axes."""
    if _KEYWORD.search(before) is not None:
        return True
    called = _CALL.findall(before)
    return any(names_axes(document.program, name) for name in called)


def _dimensions(document: Document, line: int) -> list[str]:
    """The dimensions of the function or class around, then those of the file."""
    program = list(document.program)
    own = document.unit_at(line)
    if own is not None:
        program.insert(0, own)
    # of what does not parse now that which parsed last
    units = []
    for one in program:
        parsed = Unit(one.good, one.good, None, one.number)
        units.append(parsed)
    names: dict[str, None] = {}
    for _, word in words_of(units, units):
        if not word.is_axis:
            names[word.name] = None
    return list(names)


def _axes(document: Document) -> Iterator[lsp.CompletionItem]:
    """Mesh axes with their sizes, then logical names."""
    try:
        config = settings_of(document.path.parent)
    except ConfigError:  # which the server tells
        return
    mesh = dict(config.mesh)
    made = made_axes(config)
    for other in made.meshes:
        for name, size in other.items():
            mesh.setdefault(name, size)
    for _, word in words_of(document.program, document.program):
        if word.is_axis:
            mesh.setdefault(word.name, None)
    for name, size in mesh.items():
        detail = "axis" if size is None else f"axis of size {size}"
        kind = lsp.CompletionItemKind.EnumMember
        yield lsp.CompletionItem(name, kind=kind, detail=detail)
    logical: set[str] = set()
    for rules in config.logical_rules:
        logical |= rules.names
    for name in sorted(logical - mesh.keys()):
        kind = lsp.CompletionItemKind.Value
        yield lsp.CompletionItem(name, kind=kind, detail="logical axis")
