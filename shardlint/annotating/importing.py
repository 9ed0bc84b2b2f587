"""How a file names the dtypes of ``shardtypes``, and how it comes to import one more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardlint import decoding, ir
from shardlint.lower import lower
from shardlint.positions import Positions
from shardtypes.lang.diagnostics import Edit, Place

_HOME = "shardtypes"


class NameInUse(Exception):
    """A name of a dtype means something else in the file."""


@dataclass(frozen=True)
class Imports:
    """What a file imports of ``shardtypes``: names, by what they are called in it, with the ``last`` statement that
    does; or the package, as ``module``."""

    body: tuple[ir.Stmt, ...]
    bound: Mapping[str, str]
    last: ir.ImportFrom | None
    module: str | None

    @classmethod
    def of(cls, body: tuple[ir.Stmt, ...]) -> Imports:
        """Those at the top level of a file."""
        bound: dict[str, str] = {}
        last = None
        package = None
        for node in body:
            if isinstance(node, ir.ImportFrom) and node.module == _HOME and node.names:
                bound.update(node.names)
                last = node
            if isinstance(node, ir.Import):
                homes = [own for own, target in node.bindings if target == _HOME]
                package = homes[-1] if homes else package
        return cls(body, bound, last, package)

    def spelled(self, dtype: str) -> str:
        """How the file writes the name of a dtype.

        Raises:
            NameInUse: it means something else there.
        """
        if dtype in self.bound:
            return self.bound[dtype]
        if self._uses_package:
            return f"{self.module}.{dtype}"
        if dtype in self._others():
            raise NameInUse(dtype)
        return dtype

    def missing(self, dtypes: Iterable[str]) -> list[str]:
        """Those that have to be imported."""
        if self._uses_package:
            return []
        return [one for one in dtypes if one not in self.bound]

    @property
    def _uses_package(self) -> bool:
        return self.module is not None and self.last is None

    def _others(self) -> Iterator[str]:
        """What the file binds at its top level."""
        for node in ir.statements(self.body):
            match node:
                case ir.Function(name=name) | ir.Class(name=name):
                    yield name
                case ir.Import(bindings=pairs):
                    yield from (own for own, _ in pairs)
                case ir.ImportFrom(names=names):
                    yield from (own for _, own in names or ())
                case ir.Assign(targets=targets):
                    yield from (one.id for one in targets if isinstance(one, ir.Name))
                case _:
                    pass


def importing(text: bytes, path: str, dtypes: Iterable[str]) -> list[Edit]:
    """The changes with which a file imports these names of dtypes.

    Raises:
        UnparsableFile: the text is no Python.
    """
    lowered = lower(text, "", path, False, keep_nodes=True)
    imports = Imports.of(lowered.module.body)
    missing = imports.missing(sorted(dtypes))
    if not missing:
        return []
    places = Positions.of(lowered, path)
    if imports.last is not None:
        lines = decoding.lines(decoding.decoded(text), keepends=True)
        return [_added(lines, places.place(imports.last.at), missing)]
    line = f"from {_HOME} import {', '.join(missing)}"
    before, after = _around(imports.body)
    if before is None:
        place = places.place(after.at)
        return [Edit(_at(path, place.line, place.column), f"{line}\n\n")]
    place = places.place(before.at)
    return [Edit(_at(path, place.end_line, place.end_column), f"\n{line}")]


def _added(lines: Sequence[str], place: Place, missing: Sequence[str]) -> Edit:
    """Names at the end of an import, which may be in parentheses, with a name on each line."""
    names = ", ".join(missing)
    last = lines[place.end_line - 1][: place.end_column - 1]
    if not last.endswith(")"):
        end = _at(place.path, place.end_line, place.end_column)
        return Edit(end, f", {names}")
    whole = "".join([*lines[: place.end_line - 1], last[:-1]])
    before = whole.rstrip()
    name_line = before.count("\n")
    name_text = before.rpartition("\n")[2]
    end = _at(place.path, name_line + 1, len(name_text) + 1)
    comma = "" if before.endswith(",") else ","
    if name_line + 1 == place.end_line:
        return Edit(end, f"{comma} {names}")
    indent = name_text[: len(name_text) - len(name_text.lstrip())]
    each = "".join(f"\n{indent}{name}," for name in missing)
    return Edit(end, f"{comma}{each}")


def _around(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt | None, ir.Stmt]:
    """The last of the imports that a file begins with, and what follows; without any, the first statement that is no
    docstring."""
    last: ir.Stmt | None = None
    for node in body:
        if isinstance(node, (ir.Import, ir.ImportFrom)):
            last = node
            continue
        if isinstance(node, ir.ExprStmt) and isinstance(node.value, ir.Const):
            continue
        return last, node
    return last, body[-1]


def _at(path: str, line: int, column: int) -> Place:
    return Place(path, line, column, line, column)
