"""The text of a checker as it is written: lines, blocks, constants, and the sizes that names stand for."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from shardtypes.lang import Size
from shardtypes.sites import Site

# Lines, and among them places where some are put in later.
_Lines = list["str | _Lines"]

# What a checker calls its own variables and what it is given.
RESERVED = frozenset(
    (
        *dir(builtins),
        *"args kwargs known placed rules_in_force shape mesh sharding on sizes tables result compared".split(),
        *"unplaced arrays found error slowly check_result arguments_by_name".split(),
        *"is_plain INT NO_MESH_IN_TYPE mesh_here count_unplaced passes accepts".split(),
        *"stats record calls results function checked".split(),
        *"Array OneDevice Traced WITHOUT_MESH ShardTypeError".split(),
        *"arguments arguments_pass result_passes".split(),
    )
)


class Unusual(Exception):
    """There is something in a signature that only the general checks know."""


class Text:
    """The lines of a checker, and the constants that it mentions."""

    def __init__(self) -> None:
        self._lines: _Lines = []
        self._depth = 0
        self._names = set(RESERVED)
        self._blocks: list[object] = [object()]
        self.constants: dict[str, Any] = {}

    def line(self, text: str) -> None:
        """Add a line at the depth of the block around it."""
        self._lines.append("    " * self._depth + text)

    def comment(self, text: str) -> None:
        """Add a line that says what follows, with an empty one before it."""
        self._lines.append("")
        self.line(f"# {' '.join(text.split())}")

    @contextmanager
    def block(self, head: str, always: bool = False) -> Iterator[None]:
        """Add a line that ends in a colon, and indent what is added meanwhile. ``always`` where it runs in any case."""
        self.line(head)
        self._depth += 1
        block = self._blocks[-1] if always else object()
        self._blocks.append(block)
        yield
        self._blocks.pop()
        self._depth -= 1

    def place_for_lines(self) -> _Later:
        """A place here for lines that turn out to be needed further below."""
        lines: _Lines = []
        self._lines.append(lines)
        return _Later(lines, "    " * self._depth)

    def fresh(self, name: str) -> str:
        """A name for a variable or a constant that nothing else in the checker has."""
        word = "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "_"
        if not word.isidentifier():
            word = f"_{word}"
        found, number = word, 1
        while found in self._names or keyword.iskeyword(found):
            number += 1
            found = f"{word}_{number}"
        self._names.add(found)
        return found

    def constant(self, name: str, value: Any) -> str:
        """The name of a constant of the checker, one for each object."""
        for known, held in self.constants.items():
            if held is value:
                return known
        made = self.fresh(name)
        self.constants[made] = value
        return made

    @property
    def around(self) -> tuple[object, ...]:
        """The blocks around what is added next, outermost first."""
        return tuple(self._blocks)

    def __str__(self) -> str:
        return "\n".join(_flat(self._lines)) + "\n"


class _Later:
    """A place in the text for lines that are found out about further below."""

    def __init__(self, lines: _Lines, indent: str) -> None:
        self._lines = lines
        self._indent = indent

    def line(self, text: str) -> None:
        self._lines.append(self._indent + text)


@dataclass(frozen=True, slots=True)
class _Own:
    """The variable of a size that a value names by itself, and where it is compared or kept."""

    variable: str
    certain: bool
    fail: str
    place: _Later


def _flat(lines: _Lines) -> Iterator[str]:
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from _flat(line)


class Names:
    """The sizes that the names of one scope stand for, each in a variable of the checker.

    Where a name may have no size yet, as after a loop that may have run not once, its variable holds None.
    """

    def __init__(self, text: Text, prefix: str) -> None:
        self._text = text
        self._prefix = prefix
        self._opening = text.place_for_lines()
        self._certain: dict[str, object] = {}
        self.start = text.around
        self.variables: dict[str, str] = {}
        # Names that values have of their own, by what each of these values calls it: compared once there is one here.
        self._own: dict[str, list[_Own]] = {}
        # Where each got its size: the site and the dimension, or the variable that holds both.
        self.places: dict[str, tuple[Site, int] | str] = {}

    def open_again(self) -> None:
        """Begin another function that is given the sizes: names that it meets first begin there."""
        self._opening = self._text.place_for_lines()

    def is_bound(self, name: str) -> bool:
        """Whether a name has a size wherever what is added next runs."""
        return self._certain.get(name) in self._text.around

    def meet(self, name: str, got: str, site: Site, dim: str, fail: str) -> None:
        """Compare a size with that of a name, or give it to the name; ``name`` begins with ``*`` for several sizes."""
        if self.is_bound(name):
            with self._text.block(f"if {self.variables[name]} != {got}:"):
                self._text.line(fail)
            return
        if name not in self.variables and self._text.around == self.start:
            self._give(name, got, site, dim)
            return
        self._give_unless_given(name, got, site, dim, fail)

    def _variable(self, name: str) -> str:
        if name not in self.variables:
            kind = "sizes" if name.startswith("*") else "size"
            self.variables[name] = self._text.fresh(
                f"{self._prefix}{kind}_{name.removeprefix('*')}"
            )
        return self.variables[name]

    def _give(self, name: str, got: str, site: Site, dim: str) -> None:
        variable = self._variable(name)
        self._text.line(f"{variable} = {got}")
        self._certain[name] = self._text.around[-1]
        if dim.isdigit():
            self.places[name] = site, int(dim)
            return
        at = self._text.fresh(f"at_{variable}")
        self.places[name] = at
        where = self._text.constant(f"site_{variable}", site)
        self._text.line(f"{at} = {where}, {dim}")

    def _give_unless_given(
        self, name: str, got: str, site: Site, dim: str, fail: str
    ) -> None:
        variable = self._variable(name)
        if name not in self.places:
            self.places[name] = self._text.fresh(f"at_{variable}")
            self._opening.line(f"{variable} = {self.places[name]} = None")
        at = self.places[name]
        with self._text.block(f"if {variable} is None:"):
            where = self._text.constant(f"site_{variable}", site)
            self._text.line(f"{variable}, {at} = {got}, ({where}, {dim})")
        with self._text.block(f"elif {variable} != {got}:"):
            self._text.line(fail)
        self._certain[name] = self._text.around[-1]

    def meet_own(self, name: str, variable: str, certain: bool, fail: str) -> None:
        """Note a size that a value names by itself: where it is another one here, too, that is to be counted."""
        if self.is_bound(name):
            self._differ(variable, certain, self.variables[name], True, fail)
            return
        own = _Own(variable, certain, fail, self._text.place_for_lines())
        self._own.setdefault(name, []).append(own)

    def compare_own(self, fail: str) -> None:
        """Compare what values have named by themselves with what the same names stand for here by now."""
        for name in self._own.keys() & self.variables.keys():
            self._differ(self._kept(name), False, self.variables[name], False, fail)

    def end(self) -> None:
        """Keep such sizes where there turned out to be something to compare them with."""
        for name in sorted(self._own.keys() & self.variables.keys()):
            kept = self._kept(name)
            self._opening.line(f"{kept} = None")
            for own in self._own[name]:
                given = "" if own.certain else f" and {own.variable} is not None"
                own.place.line(f"if {kept} is None{given}:")
                own.place.line(f"    {kept} = {own.variable}")
                given = "" if own.certain else f"{own.variable} is not None and "
                own.place.line(f"elif {given}{kept} != {own.variable}:")
                own.place.line(f"    {own.fail}")

    def _kept(self, name: str) -> str:
        return f"{self.variables[name]}_of_values"

    def _differ(
        self, one: str, one_certain: bool, other: str, other_certain: bool, fail: str
    ) -> None:
        given = "" if one_certain else f"{one} is not None and "
        given += "" if other_certain else f"{other} is not None and "
        with self._text.block(f"if {given}{one} != {other}:"):
            self._text.line(fail)

    def value(self, size: Size) -> str:
        """A size as an expression over the variables. Raises ``Unusual`` where a name in it may have no size yet."""
        terms = [self._term(atoms, count) for atoms, count in size.terms]
        return " + ".join(terms) or "0"

    def _term(self, atoms: Any, count: int) -> str:
        factors = [self._factor(atom) for atom in atoms]
        if count != 1 or not factors:
            factors.insert(0, f"({count})" if count < 0 else str(count))
        return " * ".join(factors)

    def _factor(self, atom: Any) -> str:
        if not atom.op:
            if not self.is_bound(atom.name):
                raise Unusual(f"{atom.name} is not bound before it is computed with")
            return self.variables[atom.name]
        parts = [self.value(part) for part in atom.args]
        if atom.op != "//":
            return f"{atom.op}({', '.join(parts)})"
        if not atom.args[1].constant:  # it may divide by zero
            raise Unusual("a division by what is no constant")
        return f"(({parts[0]}) // ({parts[1]}))"
