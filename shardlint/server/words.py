"""The words of a document's strings that shapes and specs are made of: dimensions, mesh axes, partial sums."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from shardlint.decoding import characters
from shardlint.engine.annotations import array_form
from shardlint.project import canonical
from shardlint.server.units import AHEAD, Lines, Unit, source
from shardlint.syntax import UnparsableFile, parse
from shardtypes.lang.array_names import SHARDTYPES_DTYPES

#: Where annotations, and functions of shape strings, are from.
_OURS = frozenset({"shardtypes", "shardlib"})
Kind: TypeAlias = Literal["dimension", "axis", "pending"]

#: Characters of a literal beside its text: prefix and quotes.
_MOST_QUOTES = 8
_NAME = re.compile(r"[^\W\d]\w*")
_PENDING = re.compile(r"\{U:([^}]*)\}?")
_PART = re.compile(r"\S+")
#: What parts a size and its axes; two of them divide.
_SLASH = re.compile(r"(?<!/)/(?!/)")
#: Functions whose strings, anywhere in an argument, are names of axes.
_SPECS = frozenset({"PartitionSpec", "logical_to_mesh_axes", "with_logical_constraint"})
_MESHES = frozenset({"Mesh", "AbstractMesh", "make_mesh"})
#: Functions of ``jax.lax`` that take the names of axes, by the position of that argument.
_COLLECTIVES = {
    **dict.fromkeys(
        """psum pmean pmax pmin psum_scatter all_gather all_to_all ppermute pshuffle pswapaxes pcast pvary
        all_gather_invariant""".split(),
        1,
    ),
    **dict.fromkeys(("axis_index", "axis_size"), 0),
}
#: Arguments that name axes, whatever the function.
_KEYWORDS = frozenset({"axis_name", "axis_names", "spmd_axis_name"})
#: Where those functions are from.
_LIBRARIES = frozenset({"jax", "flax"})


@dataclass(frozen=True, slots=True)
class Word:
    """A name in a string: line and column (from 0) in its unit, as characters. One that is ``made`` is the name of an
    axis where a mesh is made."""

    line: int
    column: int
    name: str
    kind: Kind
    made: bool = False

    @property
    def end(self) -> int:
        """The column behind it."""
        return self.column + len(self.name)

    @property
    def is_axis(self) -> bool:
        """Of a mesh, or a logical one."""
        return self.kind != "dimension"

    def is_dimension(self, name: str) -> bool:
        """Whether it is the dimension of that name."""
        return self.name == name and not self.is_axis


def words_of(
    units: Sequence[Unit], program: Sequence[Unit]
) -> Iterator[tuple[Unit, Word]]:
    """All words of a document, with the units that they are in; of damaged units none. What its names stand for is what
    the ``program`` imports that it is a part of."""
    names = tuple(sorted(_imported(program).items()))
    for unit in units:
        if unit.failure is None:
            for word in _words(unit.lines, names):
                yield unit, word


def is_stack(qualname: str) -> bool:
    """Whether a name is that of ``Array``, which has dimensions in front of a type: ``Array["layers", T]``."""
    home, _, last = qualname.partition(".")
    return home in _OURS and last.rpartition(".")[2] == "Array"


def dtypes_in(units: Sequence[Unit], module: str) -> list[str]:
    """The dtypes of annotations that a file has names for, or those of a ``module`` that goes by that name there."""
    imported = _imported(units)
    if module:
        home = imported.get(module, "").partition(".")[0]
        return sorted(SHARDTYPES_DTYPES) if home in _OURS else []
    found = []
    for name, full in imported.items():
        if array_form(full) is not None:
            found.append(name)
    return found


def names_axes(units: Sequence[Unit], called: str) -> bool:
    """Whether a function that goes by this name in a file takes the names of axes."""
    qualname = _resolved(called, _imported(units))
    name = _library_name(qualname)
    return name in _SPECS or name in _MESHES or name in _COLLECTIVES


def _imported(units: Sequence[Unit]) -> dict[str, str]:
    """What the names of a file stand for that it imports anywhere."""
    imported: dict[str, str] = {}
    for unit in units:
        imported.update(_imports(unit.good))
    return imported


def words_in(text: str, axes: bool = False) -> Iterator[tuple[int, str, Kind]]:
    """The names in a shape string, or those of ``axes``, with their offsets."""
    if axes:
        yield from _names(text, 0, "axis")
        return
    pending = _PENDING.search(text)
    if pending is not None:
        yield from _names(pending[1], pending.start(1), "pending")
        text = text[: pending.start()]
    for part in _PART.finditer(text):
        offset = part.start()
        kind: Kind = "dimension"
        for piece in _SLASH.split(part[0]):
            yield from _names(piece, offset, kind)
            offset += len(piece) + 1
            kind = "axis"


def _names(text: str, offset: int, kind: Kind) -> Iterator[tuple[int, str, Kind]]:
    for found in _NAME.finditer(text):
        name = found[0]
        if name.strip("_"):
            yield offset + found.start(), name, kind


@lru_cache(maxsize=2048)
def _imports(lines: Lines) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if not any("import" in line for line in lines):
        return found
    for node in ast.walk(_tree(lines)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                if alias.asname is None:
                    found[first] = first
                else:
                    found[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                bound = alias.asname or alias.name
                found[bound] = f"{node.module}.{alias.name}"
    return found


def _tree(lines: Lines) -> ast.AST:
    nothing = ast.Module([], [])
    try:
        found = parse(source(lines), "")
    except UnparsableFile:
        return nothing
    if isinstance(found, SyntaxError):
        return nothing
    return found


@lru_cache(maxsize=2048)
def _words(lines: Lines, imported: tuple[tuple[str, str], ...]) -> tuple[Word, ...]:
    reading = _Reading(lines, dict(imported))
    reading.visit(_tree(lines))
    words = list(reading.words)
    words.sort(key=lambda word: (word.line, word.column))
    return tuple(words)


class _Reading(ast.NodeVisitor):
    def __init__(self, lines: Lines, imported: Mapping[str, str]) -> None:
        self.words: set[Word] = set()
        self._lines = lines
        self._imported = imported

    def visit_Subscript(self, node: ast.Subscript) -> None:
        written = _dotted(node.value)
        qualname = _resolved(written, self._imported)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if array_form(qualname) is not None and items:
            self._read(items[-1])
        if is_stack(qualname) and items:
            self._read(items[0])
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._function(node.func)
        made = name in _MESHES
        named: list[ast.expr] = []
        if name in _SPECS:
            named = node.args
        elif made:
            named = node.args[1:]
        elif name in _COLLECTIVES:
            index = _COLLECTIVES[name]
            named = node.args[index : index + 1]
        for arg in named:
            self._axes(arg, made)
        if not name:
            self._equation(node)
        for keyword in node.keywords:
            if keyword.arg in _KEYWORDS:
                self._axes(keyword.value, made)
        self.generic_visit(node)

    def _function(self, node: ast.expr) -> str:
        """The last part of a library's function; empty for others."""
        qualname = _resolved(_dotted(node), self._imported)
        return _library_name(qualname)

    def _equation(self, node: ast.Call) -> None:
        """Shapes before and after, in the first argument: ``'B M/d -> B M'``."""
        qualname = _resolved(_dotted(node.func), self._imported)
        if qualname.partition(".")[0] not in _OURS:
            return
        for arg in node.args[:1]:
            if "->" in _text(arg):
                self._read(arg)

    def _axes(self, node: ast.expr, made: bool = False) -> None:
        for part in ast.walk(node):
            if isinstance(part, ast.Constant):
                self._read(part, axes=True, made=made)

    def _read(self, node: ast.expr, axes: bool = False, made: bool = False) -> None:
        """The words of a string that is written as it reads: on one line, without escapes."""
        text = _text(node)
        if not text or node.lineno != node.end_lineno:
            return
        line = node.lineno - 1 - AHEAD
        whole = self._lines[line].encode("utf-8", "surrogatepass")
        begin = characters(whole[: node.col_offset])
        end = characters(whole[: node.end_col_offset])
        written = self._lines[line][begin:end]
        offset = written.find(text)
        if offset < 0 or len(written) - len(text) > _MOST_QUOTES:
            return
        for shift, part in _shapes(text):
            for at, name, kind in words_in(part, axes):
                column = begin + offset + shift + at
                self.words.add(Word(line, column, name, kind, made))


def _dotted(node: ast.expr) -> str:
    """A name with the attributes behind it, as it is written; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    parts.append(node.id)
    parts.reverse()
    return ".".join(parts)


def _resolved(written: str, imported: Mapping[str, str]) -> str:
    """The name of what a dotted name stands for, by the imports of the file."""
    head, dot, rest = written.partition(".")
    whole = imported.get(head, head)
    return canonical(f"{whole}{dot}{rest}")


def _library_name(qualname: str) -> str:
    home, _, rest = qualname.partition(".")
    return rest.rpartition(".")[2] if home in _LIBRARIES else ""


def _shapes(text: str) -> Iterator[tuple[int, str]]:
    """The shapes in a string, with their offsets: one, or those around the arrow and commas of an equation."""
    if "->" not in text:
        yield 0, text
        return
    for part in re.finditer(r"[^,>]+", text):
        yield part.start(), part[0].rstrip("-")


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ""
