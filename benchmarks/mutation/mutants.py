"""Mutants: one small edit of one file each, that keeps every line where it was."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper, PositionProvider

# registers its operators, as the next one does
from benchmarks.mutation import shape_operators as shape_operators
from benchmarks.mutation import sharding_operators as sharding_operators
from benchmarks.mutation.edits import Edit, Scope, edits_at


@dataclass(frozen=True)
class Mutant:
    """``lines`` are those of the statement (or of the signature or class) that was changed, from 1, both included."""

    name: str
    module: str
    function: str
    family: str
    operator: str
    what: str
    edit: Edit
    lines: tuple[int, int]

    def apply(self, source: bytes) -> bytes:
        """The mutated file; it has as many lines as the original."""
        start, end = self.edit.start, self.edit.end
        new = self.edit.text.encode()
        missing = source.count(b"\n", start, end) - new.count(b"\n")
        return source[:start] + new + b"\n" * max(0, missing) + source[end:]


@dataclass(frozen=True)
class Program:
    """Modules that belong together: one script, or a package. ``root`` is the folder that imports start from."""

    name: str
    root: Path
    files: dict[str, Path]

    @property
    def sources(self) -> dict[str, bytes]:
        return {module: path.read_bytes() for module, path in self.files.items()}


def programs(paths: Iterable[str]) -> list[Program]:
    """A file is a program; a folder with a package in it is one; any other folder holds one a file."""
    found = []
    for path in map(Path, paths):
        if path.is_file():
            found.append(Program(path.stem, path.parent, {path.stem: path}))
            continue
        packages = sorted(
            p.parent for p in path.glob("*/__init__.py") if p.parent.name != "tests"
        )
        for package in packages:
            files = {
                ".".join(p.relative_to(path).with_suffix("").parts).removesuffix(
                    ".__init__"
                ): p
                for p in sorted(package.rglob("*.py"))
            }
            found.append(Program(package.name, path, files))
        if not packages:
            found += [
                Program(p.stem, path, {p.stem: p}) for p in sorted(path.glob("*.py"))
            ]
    return found


def mutants(
    program: Program, families: Sequence[str], seed: int, each: int
) -> list[Mutant]:
    """At most ``each`` mutants of every operator in every function; the same seed gives the same ones."""
    chosen = []
    for module, source in program.sources.items():
        sites: dict[tuple[str, str], list[Mutant]] = defaultdict(list)
        for mutant in _all_mutants(module, source, families):
            sites[mutant.function, mutant.operator].append(mutant)
        for (function, operator), group in sites.items():
            drawn = random.Random(
                f"{seed} {program.name} {module} {function} {operator}"
            )
            chosen += drawn.sample(group, min(each, len(group)))
    return sorted(chosen, key=lambda m: (m.module, m.lines, m.operator, m.what))


def _all_mutants(module: str, source: bytes, families: Sequence[str]) -> list[Mutant]:
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    finder = _Sites(source, families)
    wrapper.visit(finder)
    found = []
    seen = set()
    for family, edit, function, lines in finder.found:
        mutant = Mutant(
            f"{module}:{edit.start}:{edit.end}:{edit.operator}:{edit.text}",
            module,
            function,
            family,
            edit.operator,
            f"{source[edit.start : edit.end].decode()} -> {edit.text}",
            edit,
            lines,
        )
        text = mutant.apply(source)
        if text in seen or text == source or text.count(b"\n") != source.count(b"\n"):
            continue
        seen.add(text)
        try:
            ast.parse(text)
        except SyntaxError:
            continue
        found.append(mutant)
    return found


class _Sites(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ByteSpanPositionProvider, PositionProvider)

    def __init__(self, source: bytes, families: Sequence[str]) -> None:
        super().__init__()
        self.source = source
        self.families = families
        self.scopes = [Scope("", ())]
        self.annotations = 0
        self.statements: list[cst.CSTNode] = []
        self.found: list[tuple[str, Edit, str, tuple[int, int]]] = []
        self.functions: frozenset[str] = frozenset()

    def text(self, node: cst.CSTNode) -> str:
        start, end = self.span(node)
        return self.source[start:end].decode()

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        about = self.get_metadata(ByteSpanPositionProvider, node)
        return about.start, about.start + about.length

    def visit_Module(self, node: cst.Module) -> None:
        names = {
            s.name.value
            for s in node.body
            if isinstance(s, (cst.FunctionDef, cst.ClassDef))
        }
        self.functions = frozenset(names)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self.scopes.append(Scope.of(node, self.scopes[-1]))
        if isinstance(node, (cst.BaseStatement, cst.SimpleStatementLine)):
            self.statements.append(node)
        scope = self.scopes[-1]
        if isinstance(node, cst.Annotation):
            self.annotations += 1
        for family in self.families if scope.annotated else ():
            if not scope.name and family != "sharding":
                # outside functions and classes there are lists of rules, and no shapes
                continue
            # An annotation's subscripts are no indexing, and its strings no calls: only operators of annotations apply.
            if (
                self.annotations == 0
                or family == "sharding"
                or isinstance(node, cst.Annotation)
            ):
                self.found += [
                    (family, e, scope.name, self._lines())
                    for e in edits_at(node, self, scope, family)
                ]
        return super().on_visit(node)

    def on_leave(self, original_node: cst.CSTNode) -> None:
        super().on_leave(original_node)
        if isinstance(original_node, cst.Annotation):
            self.annotations -= 1
        if isinstance(original_node, (cst.FunctionDef, cst.ClassDef)):
            self.scopes.pop()
        if isinstance(original_node, (cst.BaseStatement, cst.SimpleStatementLine)):
            self.statements.pop()

    def _lines(self) -> tuple[int, int]:
        """The innermost statement. Of a signature that is its whole function, of a field its class."""
        where = self.statements[-1]
        if isinstance(where, cst.SimpleStatementLine) and len(self.statements) > 1:
            if isinstance(self.statements[-2], cst.ClassDef):
                where = self.statements[-2]
        about = self.get_metadata(PositionProvider, where)
        return about.start.line, about.end.line
