"""How a converted file writes the dtypes, ``Array`` and ``Annotated``, and what it has to import for that."""

from __future__ import annotations

import ast
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from shardlint import messages
from shardlint.converting.finding import Annotation
from shardlint.converting.names import (
    ANNOTATED,
    ANNOTATED_HOME,
    ARRAYS,
    HOME,
    Imported,
    ImportStatement,
    Names,
    bindings,
)
from shardlint.converting.texts import Refused


@dataclass(frozen=True)
class Needed:
    """A name to import from a module, '' for a module itself, beside a statement of a block."""

    module: str
    alias: str
    beside: ImportStatement
    block: Sequence[ast.stmt]


@dataclass
class Namer:
    """Spells names for one form. ``moved`` are the names of dtypes that have to come from another module, ``needed``
    what has to be imported besides, ``spelled`` the names that were written."""

    tree: ast.Module
    form: str
    names: Names
    moved: set[str] = field(default_factory=set)
    needed: dict[tuple[str, str], Needed] = field(default_factory=dict)
    spelled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._bound = {name for name, _ in bindings(self.tree)}

    @property
    def home(self) -> str:
        """The module whose dtypes have the form."""
        return ANNOTATED_HOME if self.form == "array" else HOME

    def dtype(self, found: Annotation) -> str:
        """The dtype of an annotation."""
        text = ast.unparse(found.dtype)
        home, _, name = found.means.rpartition(".")
        is_right = (home == ANNOTATED_HOME) == (self.form == "array")
        if isinstance(found.dtype, ast.Name):
            if not is_right:
                self.moved.add(found.dtype.id)
        elif not is_right:
            text = f"{self._module(found)}.{name}"
        self.spelled.add(text.partition(".")[0])
        return text

    def _module(self, found: Annotation) -> str:
        known = self._imported((self.home,), found)
        if known is not None:
            return known
        if self.form == "array":
            return self._need(HOME, "annotated", found)
        return self._need("", HOME, found)

    def array(self, found: Annotation) -> str:
        """``Array``, or ``jax.Array`` where the file imports ``jax``."""
        name = self._imported(ARRAYS, found)
        if name is not None:
            return name
        package = self._imported(("jax",), found)
        if package is None and self._is_needed_or_free("jax", "Array"):
            return self._need("jax", "Array", found)
        if package is None:
            package = self._need("", "jax", found)
        return f"{package}.Array"

    def annotated(self, found: Annotation) -> str:
        """``Annotated``, or ``typing.Annotated`` where the file imports ``typing``."""
        name = self._imported(ANNOTATED, found)
        if name is not None:
            return name
        package = self._imported(("typing",), found)
        if package is not None:
            return f"{package}.Annotated"
        return self._need("typing", "Annotated", found)

    def _imported(self, meanings: Container[str], found: Annotation) -> str | None:
        """What the file calls something, wherever it has the dtype."""
        block = self._source(found).block
        for one in self.names.imports:
            is_there = one.block is self.tree.body or one.block is block
            if is_there and one.means in meanings and one.name not in self._bound:
                self.spelled.add(one.name)
                return one.name
        return None

    def _source(self, found: Annotation) -> Imported:
        """The import of the dtype."""
        first = ast.unparse(found.dtype).partition(".")[0]
        return next(one for one in self.names.imports if one.name == first)

    def _is_needed_or_free(self, module: str, name: str) -> bool:
        if (module, name) in self.needed:
            return True
        taken = self._bound | self.names.meanings.keys()
        return name not in taken

    def _need(self, module: str, name: str, found: Annotation) -> str:
        """A name to import. Raises Refused where it means something else in the file."""
        if not self._is_needed_or_free(module, name):
            start, _ = found.spans.of(found.node)
            raise Refused(start, messages.needed_name_in_use(name, module))
        if (module, name) not in self.needed:
            source = self._source(found)
            self.needed[module, name] = Needed(
                module, name, source.statement, source.block
            )
        self.spelled.add(name)
        return name
