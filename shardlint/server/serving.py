"""The language server: what is open, when it is checked, and what editors are told of it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument

from shardlint import messages
from shardlint.addresses import rule_page
from shardlint.config import ConfigError
from shardlint.discovery import Discovery
from shardlint.rules import RuleError
from shardlint.selection import UNPARSABLE, Selection
from shardlint.server.cells import Cell, Notebook, tags_of
from shardlint.server.checking import Answer, Request, settings_of
from shardlint.server.documents import Document, Results, Snapshot
from shardlint.server.named import Text
from shardlint.server.places import place_of
from shardlint.server.preferences import Preferences, read
from shardlint.server.quick import Fresh, Session
from shardlint.server.worker import Worker
from shardlint.syntax import UnparsableFile
from shardtypes.lang.diagnostics import Diagnostic, Place

#: Seconds of quiet before everything is checked anew, which a keystroke would end.
_QUIET = 0.3

T = TypeVar("T")


class _Placed(Protocol):
    @property
    def place(self) -> Place: ...


P = TypeVar("P", bound=_Placed)

#: What Neovim calls itself.
_NEOVIM = "Neovim"

#: Files that are of Python, whatever editors call their language.
_PYTHON = frozenset({".py", ".pyi", ".pyw"})

#: The documents that are cells.
_NOTEBOOKS = lsp.NotebookDocumentFilterWithNotebook(
    "jupyter-notebook", [lsp.NotebookCellLanguage("python")]
)

_log = logging.getLogger(__name__)


class Server(LanguageServer):
    """Tells at once what a change does to its own function, and after a pause what it does to everything else."""

    def __init__(self) -> None:
        super().__init__(
            "shardlint",
            version("shardtypes"),
            notebook_document_sync=lsp.NotebookDocumentSyncOptions(
                [_NOTEBOOKS], save=True
            ),
        )
        self.documents: dict[Path, Document] = {}
        self.notebooks: dict[Path, Notebook] = {}
        # by what editors call them: files and documents without a name, and cells
        self._texts: dict[str, Document] = {}
        self._cells: dict[str, Cell] = {}
        self.editor = ""
        self.preferences = Preferences()
        self._said: set[str] = set()
        self._worker = Worker()
        self._settling: asyncio.Task[None] | None = None
        self._sessions: dict[Path, Session] = {}
        # what those have lowered that do not hold any more
        self._ended: dict[Path, Session] = {}
        self._beginning: dict[Path, asyncio.Task[None]] = {}
        self._at_work = threading.Lock()
        self._following: list[Callable[[], None]] = []
        self._ending: list[Callable[[], None]] = []

    # --- changes --------------------------------------------------------------------------------------------------

    def of(self, uri: str) -> Document | None:
        """The open document with a name, if it is one of Python: a text, or a cell of a notebook."""
        known = self._cells.get(uri) or self._texts.get(uri)
        if known is not None:
            return known
        path = to_fs_path(uri)
        return self.documents.get(Path(path)) if path else None

    def opened(self, uri: str) -> None:
        """A document was opened: everything is checked."""
        text = self.workspace.get_text_document(uri)
        path = place_of(uri, self._folder())
        if path.suffix not in _PYTHON and text.language_id != "python":
            return
        if path.suffix == ".ipynb":
            self._open_as_text(path, text)
        else:
            document = Document(path, text.source, text.version, uri)
            self.documents[path] = self._texts[uri] = document
        self.settle()

    def _open_as_text(self, path: Path, text: TextDocument) -> None:
        """A notebook of which the editor has one text: it is a cell, alone."""
        notebook = self.notebooks.setdefault(path, Notebook(path))
        cell = Cell(notebook, text.uri, text.source, text.version)
        self._forget_cells(notebook.arrange([cell]))
        self._texts[text.uri] = cell

    def _folder(self) -> Path:
        """The first folder that the editor has open, or the one that the server was started in."""
        for uri in (*self.workspace.folders, self.workspace.root_uri):
            path = to_fs_path(uri) if uri else None
            if path:
                return Path(path)
        return Path.cwd()

    def closed(self, uri: str) -> None:
        """A document was closed: nothing is told of it any more."""
        document = self._texts.pop(uri, None)
        if document is None:
            return
        path = document.path
        if isinstance(document, Cell):
            self._put_away(path)
            return
        if self.documents.get(path) is document:
            del self.documents[path]
        self._sessions.pop(path, None)
        self._ended.pop(path, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
        self.settle()
        for do in self._following:
            do()

    def arranged(self, uri: str) -> None:
        """A notebook was opened, or it has other cells, or other text in them."""
        path = to_fs_path(uri)
        notebook = self.workspace.get_notebook_document(notebook_uri=uri)
        if notebook is None or path is None:
            return
        file = Path(path)
        if file.suffix != ".ipynb" or not file.is_absolute():
            return
        own = self.notebooks.setdefault(file, Notebook(file))
        cells = []
        for one in notebook.cells:
            cell = self._cell(own, one)
            if cell is not None:
                cells.append(cell)
        self._forget_cells(own.arrange(cells))
        self.settle(_QUIET if own.is_known else 0.0)
        own.is_known = True

    def _cell(self, notebook: Notebook, about: lsp.NotebookCell) -> Cell | None:
        """A cell as it is now, if it is one of Python."""
        uri = about.document
        text = self.workspace.get_text_document(uri)
        if about.kind != lsp.NotebookCellKind.Code or text.language_id != "python":
            return None
        cell = self._cells.get(uri)
        if cell is None:
            cell = Cell(notebook, uri, text.source, text.version)
            self._cells[uri] = cell
        elif cell.version != text.version:
            cell.change(text.source, text.version)
        cell.tags = tags_of(about)
        return cell

    def put_away(self, uri: str) -> None:
        """A notebook was closed: nothing is told of its cells any more."""
        self._put_away(Path(to_fs_path(uri) or ""))

    def _put_away(self, path: Path) -> None:
        notebook = self.notebooks.pop(path, None)
        if notebook is not None:
            self._forget_cells(notebook.cells)
            self.settle()
            for do in self._following:
                do()

    def _forget_cells(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            self._cells.pop(cell.uri, None)
            self._texts.pop(cell.uri, None)
            gone = lsp.PublishDiagnosticsParams(cell.uri, [])
            self.text_document_publish_diagnostics(gone)

    async def changed(self, uri: str) -> None:
        """A document has another text: its own function is checked at once, everything after a pause."""
        document = self.of(uri)
        if document is None:
            return
        text = self.workspace.get_text_document(uri)
        failures = document.failures
        version = text.version  # the next change gives the same object another one
        document.change(text.source, version)
        for path, session in [*self._sessions.items()]:
            if path != document.path and document.path in session.files:
                self._ended[path] = self._sessions.pop(path)
        self.settle(_QUIET)
        found = await self._at_once(document)
        if document.version != version:
            return
        if found or document.failures != failures:
            self.show(document)

    def follow(self, given: object) -> None:
        """Take over what the editor's user prefers."""
        self.preferences, problems = read(given, self.preferences)
        for problem in problems:
            self.say(problem)

    def when_files_change(self, do: Callable[[], None]) -> None:
        """Do this, too, whenever files or settings have changed."""
        self._following.append(do)

    def when_it_ends(self, do: Callable[[], None]) -> None:
        """Do this, too, when the server is told to end."""
        self._ending.append(do)

    def forget(self) -> None:
        """Files or settings have changed."""
        for do in self._following:
            do()
        self._sessions.clear()
        self._ended.clear()
        self.settle()

    def settle(self, quiet: float = 0.0) -> None:
        """Check everything after a while in which nothing changes."""
        if self._settling is not None:
            self._settling.cancel()
        self._settling = asyncio.get_running_loop().create_task(self._settle(quiet))

    def end(self) -> None:
        """Stop what runs."""
        if self._settling is not None:
            self._settling.cancel()
        self._worker.stop()
        for do in self._ending:
            do()

    # --- checking -------------------------------------------------------------------------------------------------

    async def _at_once(self, document: Document) -> bool:
        """Check the function that was changed, if it can be by itself."""
        session = self._sessions.get(document.path)
        if session is None:
            return False
        version, units = document.version, document.units

        def work() -> Fresh | None:
            with self._at_work:
                if document.version != version:
                    return None
                return session.check(units)

        try:
            fresh = await asyncio.to_thread(work)
        except Exception:  # noqa: BLE001 # a bug of ours: the run over everything tells
            _log.exception("checking a part of %s", document.path)
            fresh = None
        if fresh is None:
            current = self._sessions.get(document.path)
            if document.version == version and current is session:
                self._ended[document.path] = self._sessions.pop(document.path)
            return False
        document.take(fresh.snapshot, fresh.results, fresh.numbers)
        return bool(fresh.numbers)

    async def _settle(self, quiet: float) -> None:
        await asyncio.sleep(quiet)
        snapshots: dict[Document, Snapshot] = {}
        for document in self.all_documents():
            document.repair()
            snapshots[document] = Snapshot.of(document.units, document.cell)
        texts = self.unsaved()
        for evaluate in (False, True):
            request = Request(texts, evaluate)
            try:
                found = await self._worker.answer(request)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.say(messages.worker_died())
                return
            self._take(snapshots, found, evaluate)
            if found.failed:
                return
            for document, snapshot in snapshots.items():
                if not document.cell:
                    self._begin(document.path, snapshot, texts)

    def _take(
        self, snapshots: dict[Document, Snapshot], found: Answer, evaluated: bool
    ) -> None:
        for problem in found.problems:
            self.say(problem)
        if found.failed:
            return
        for document, snapshot in snapshots.items():
            if self.of(document.uri) is not document:
                continue
            own = document.shown, snapshot.cell
            before = self._diagnostics(document)
            results = Results(
                _placed(found.diagnostics, own),
                _placed(found.types, own),
                _placed(found.uses, own),
                _placed(found.proposals, own),
                evaluated,
            )
            document.take(snapshot, results)
            if not evaluated or self._diagnostics(document) != before:
                self.show(document)

    def _begin(self, path: Path, snapshot: Snapshot, texts: dict[Path, str]) -> None:
        """Make ready for what is typed next, where that is not so."""
        if path in self._sessions or path in self._beginning:
            return
        earlier = self._ended.pop(path, None)

        def work() -> Session | None:
            with self._at_work:
                return Session.begin(path, snapshot, texts, earlier)

        async def begin() -> None:
            try:
                session = await asyncio.to_thread(work)
            except (ConfigError, RuleError) as error:
                self.say(str(error))
                return
            except UnparsableFile:  # which the run over everything tells
                return
            finally:
                del self._beginning[path]
            if session is not None and path in self.documents:
                self._sessions[path] = session

        task = asyncio.get_running_loop().create_task(begin())
        self._beginning[path] = task

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do some work beside what editors ask, and one at a time."""

        def alone() -> T:
            with self._at_work:
                return work()

        return await asyncio.to_thread(alone)

    def texts(self, root: Path) -> dict[Path, list[Text]]:
        """The documents of a project as they are now."""
        found = {}
        for path in self.unsaved():
            if settings_of(path.parent).root == root:
                documents = self.documents_of(path)
                found[path] = [Text.of(document) for document in documents]
        return found

    def unsaved(self) -> dict[Path, str]:
        """What the files that are open are for the linter."""
        found = {}
        for path, document in self.documents.items():
            found[path] = Snapshot.of(document.units).text
        for path, notebook in self.notebooks.items():
            found[path] = notebook.source
        return found

    def documents_of(self, path: Path) -> Sequence[Document]:
        """The document that a file is open as, or the cells of a notebook, in order."""
        notebook = self.notebooks.get(path)
        if notebook is not None:
            return notebook.cells
        document = self.documents.get(path)
        return [] if document is None else [document]

    def all_documents(self) -> Iterator[Document]:
        """All that is open."""
        yield from self.documents.values()
        for notebook in self.notebooks.values():
            yield from notebook.cells

    # --- what is told ---------------------------------------------------------------------------------------------

    def show(self, document: Document) -> None:
        """Tell the editor what is wrong with a document now."""
        if self.pulls:
            self.workspace_diagnostic_refresh(None)
        else:
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(
                    document.uri,
                    self.diagnostics(document),
                    version=document.version,
                )
            )
        self.refresh_hints()

    def refresh_hints(self) -> None:
        """Let the editor ask for hints again, if it can."""
        workspace = self.client_capabilities.workspace
        hints = workspace.inlay_hint if workspace is not None else None
        if hints is not None and hints.refresh_support:
            self.workspace_inlay_hint_refresh(None)

    @property
    def pulls(self) -> bool:
        """Whether the editor asks for findings itself. One that cannot be told to ask again is told of them, and so is
        Neovim: it would have what was known when it asked beside that, or when told to ask again asks only for files
        that are not open."""
        text = self.client_capabilities.text_document
        workspace = self.client_capabilities.workspace
        refresh = workspace.diagnostics if workspace is not None else None
        return (
            self.editor != _NEOVIM
            and text is not None
            and text.diagnostic is not None
            and refresh is not None
            and bool(refresh.refresh_support)
        )

    def diagnostics(self, document: Document) -> list[lsp.Diagnostic]:
        """What is wrong with a document, as the protocol has it."""
        return [self.diagnostic(document, d) for d in self._diagnostics(document)]

    def _diagnostics(self, document: Document) -> list[Diagnostic]:
        found = list(document.findings())
        for line, column, message in document.failures:
            place = Place(document.shown, line, column, line, column + 1, document.cell)
            found.append(Diagnostic(UNPARSABLE, "unparsable-file", message, place))
        if not document.failures or not _reports_unparsable(document.path):
            found = [one for one in found if one.code != UNPARSABLE]
        return sorted(found, key=lambda one: (one.place, one.code))

    def diagnostic(self, document: Document, found: Diagnostic) -> lsp.Diagnostic:
        """A finding as the protocol has it."""
        related = []
        for other in found.related:
            place = self._location(other.place)
            related.append(lsp.DiagnosticRelatedInformation(place, other.message))
        return lsp.Diagnostic(
            range=self.range(document.lines, found.place),
            message=found.message,
            severity=lsp.DiagnosticSeverity.Error
            if found.severity == "error"
            else lsp.DiagnosticSeverity.Warning,
            code=found.code,
            code_description=lsp.CodeDescription(rule_page(found.code)),
            source="shardlint",
            related_information=related or None,
        )

    def _location(self, place: Place) -> lsp.Location:
        """A place of any file."""
        path = Path(place.path).absolute()
        for document in self.documents_of(path):
            if document.cell == place.cell:
                at = self.range(document.lines, place)
                return lsp.Location(document.uri, at)
        return lsp.Location(path.as_uri(), self.range([], place))

    def range(self, lines: list[str], place: Place) -> lsp.Range:
        """A place in the editor's units: lines from 0, columns in the code units that were agreed on."""
        return lsp.Range(
            self.position(lines, place.line, place.column),
            self.position(lines, place.end_line, place.end_column),
        )

    def position(self, lines: list[str], line: int, column: int) -> lsp.Position:
        """A line and a column (from 1) in the editor's units."""
        if line > len(lines):
            return lsp.Position(line - 1, column - 1)
        before = lines[line - 1][: column - 1]
        units = (
            len(before)
            if before.isascii()
            else self.workspace.position_codec.client_num_units(before)
        )
        return lsp.Position(line - 1, units)

    def column(self, lines: list[str], at: lsp.Position) -> int:
        """The column (from 0, in characters) of a position of the editor."""
        if at.line >= len(lines):
            return 0
        line = lines[at.line]
        if line.isascii():
            return min(at.character, len(line))
        codec = self.workspace.position_codec
        return codec.position_from_client_units(lines, at).character

    def say(self, problem: str) -> None:
        """Tell the user once; the log has every time."""
        _log.error(problem)
        if problem not in self._said:
            self._said.add(problem)
            self.window_show_message(
                lsp.ShowMessageParams(lsp.MessageType.Error, f"shardlint: {problem}")
            )


def _placed(found: Sequence[P], own: tuple[str, int]) -> list[P]:
    """What is in one document: a file, or a cell by its number."""
    kept = []
    for one in found:
        place = one.place
        if (place.path, place.cell) == own:
            kept.append(one)
    return kept


def _reports_unparsable(path: Path) -> bool:
    """Whether the settings want to hear of text that does not parse."""
    try:
        config = settings_of(path.parent)
    except ConfigError:  # which the run over everything tells
        return True
    admitted = Discovery(lambda folder: config).admits(path)
    return admitted and Selection.of(config).on(UNPARSABLE, path)
