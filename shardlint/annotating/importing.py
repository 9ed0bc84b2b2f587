"""How a file names the dtypes of ``shardtypes``, and how it comes to import one more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shardlint import decoding, ir
from shardlint.edits import insertion
from shardlint.engine.conditions import bound_in
from shardlint.lower import lower
from shardlint.positions import Positions
from shardtypes.lang.diagnostics import Edit, Place

_HOME = "shardtypes"


class NameInUse(Exception):
    """A name of a dtype means something else in the file."""


@dataclass(frozen=True)
class Imports:
    """What a file imports at its top level: names of ``shardtypes``, by what they are called in it, with the ``last``
    statement that does, or the package, as ``module``; ``others`` are the names from elsewhere."""

    body: tuple[ir.Stmt, ...]
    bound: Mapping[str, str]
    last: ir.ImportFrom | None
    module: str | None
    others: frozenset[str]

    @classmethod
    def of(cls, body: tuple[ir.Stmt, ...]) -> Imports:
        """Those of a file."""
        bound: dict[str, str] = {}
        others: set[str] = set()
        last = None
        package = None
        for node in body:
            if isinstance(node, ir.Import):
                modules = dict(node.bindings)
                others |= modules.keys()
                for name, module in modules.items():
                    package = name if module == _HOME else package
            elif isinstance(node, ir.ImportFrom) and node.names:
                names = dict(node.names)
                if node.module == _HOME:
                    bound.update(names)
                    last = node
                else:
                    others |= set(names.values())
        return cls(
            body=body,
            bound=bound,
            last=last,
            module=package,
            others=frozenset(others),
        )

    def spelled(self, dtype: str) -> str:
        """How the file writes the name of a dtype.

        Raises:
            NameInUse: it means something else there.
        """
        if dtype in self.bound:
            return self.bound[dtype]
        if self._uses_package:
            return f"{self.module}.{dtype}"
        if dtype in self.others or dtype in bound_in(self.body):
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


def importing(text: str, path: str, dtypes: Iterable[str]) -> list[Edit]:
    """The changes with which a file imports these names of dtypes.

    Raises:
        UnparsableFile: the text is no Python.
    """
    lowered = lower(decoding.encoded(text), "", path, False, keep_nodes=True)
    imports = Imports.of(lowered.module.body)
    missing = imports.missing(sorted(dtypes))
    if not missing:
        return []
    places = Positions.of(lowered, path)
    if imports.last is not None:
        place = places.place(imports.last.at)
        lines = decoding.lines(text, keepends=True)
        edit = _added(lines, place, missing)
        return [edit]
    names = ", ".join(missing)
    line = f"from {_HOME} import {names}"
    before, after = _around(imports.body)
    if before is None:
        place = places.place(after.at)
        edit = insertion(path, place.line, place.column, f"{line}\n\n")
    else:
        place = places.place(before.at)
        edit = insertion(path, place.end_line, place.end_column, f"\n{line}")
    return [edit]


def _added(lines: Sequence[str], place: Place, missing: Sequence[str]) -> Edit:
    """Names at the end of an import, which may be in parentheses, with a name on each line."""
    names = ", ".join(missing)
    last = lines[place.end_line - 1]
    last = last[: place.end_column - 1]
    if not last.endswith(")"):
        return insertion(place.path, place.end_line, place.end_column, f", {names}")
    whole = [*lines[: place.end_line - 1], last[:-1]]
    joined = "".join(whole)
    before = joined.rstrip()
    line = before.count("\n") + 1
    _, _, behind = before.rpartition("\n")
    comma = "" if before.endswith(",") else ","
    if line == place.end_line:
        text = f"{comma} {names}"
    else:
        blanks = len(behind) - len(behind.lstrip())
        indent = behind[:blanks]
        text = comma
        for name in missing:
            text += f"\n{indent}{name},"
    return insertion(place.path, line, len(behind) + 1, text)


def _around(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt | None, ir.Stmt]:
    """The last of the imports that a file begins with, and what follows; without any, the first statement that is no
    docstring."""
    last: ir.Stmt | None = None
    for node in body:
        if isinstance(node, (ir.Import, ir.ImportFrom)):
            last = node
        elif not isinstance(node, ir.ExprStmt):
            return last, node
    return last, body[-1]
