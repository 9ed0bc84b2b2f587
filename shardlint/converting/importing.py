"""The imports of a converted file, as changes of its text."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeGuard

from shardlint.converting.names import Imported, ImportStatement, dtype_of
from shardlint.converting.naming import Namer, Needed
from shardlint.converting.spelling import Span, comma_in
from shardlint.converting.texts import Spans, line_start

_FROM = re.compile(r"from\s+(?P<module>[\w.]+)")
_BLANK = re.compile(r"[ \t]*\r?\n")
_DIGITS = re.compile(r"(\d+)")
#: Longer imports are written with a name on each line.
_WIDTH = 88


@dataclass
class Imports:
    """Changes what a file imports."""

    text: str
    spans: Spans
    namer: Namer
    _holding: set[ast.stmt] = field(default_factory=set)

    def changes(self, unused: Collection[str]) -> list[Span]:
        """What to replace, so that the file has what it needs and not what is ``unused``."""
        found: list[Span] = []
        gone: dict[ImportStatement, list[Imported]] = {}
        needed = list(self.namer.needed.values())
        kept: set[ImportStatement] = set()
        for statement, aliases in self._by_statement().items():
            moved = [one for one in aliases if self._is_moved(one)]
            if moved and self._moves_whole(statement, aliases, moved):
                found.append(self._renamed(statement))
                continue
            removed = [one for one in aliases if one.name in unused]
            if moved or removed:
                gone[statement] = [*moved, *removed]
            needed += [self._moved(one) for one in moved]
            if len(aliases) > len(moved) + len(removed):
                kept.add(statement)
        self._hold(gone, kept)
        for statement, names in gone.items():
            found += self._without(statement, [one.alias for one in names])
        needed.sort(key=lambda one: _place(one.module, one.alias))
        found += self._with(needed, kept)
        return self._joined(found)

    def _hold(
        self,
        gone: Collection[ImportStatement],
        kept: Collection[ImportStatement],
    ) -> None:
        """A block from which everything goes needs a statement all the same."""
        whole = set(gone) - set(kept)
        for one in self.namer.names.imports:
            is_module = one.block is self.namer.tree.body
            if not is_module and whole.issuperset(one.block):
                self._holding.add(one.block[-1])

    def _joined(self, spans: Sequence[Span]) -> list[Span]:
        """What is put into one place together, in order, with the file's ends of lines."""
        newline = "\r\n" if "\r\n" in self.text else "\n"
        added: dict[int, str] = {}
        found = []
        for start, end, text in spans:
            written = text.replace("\n", newline)
            if start == end:
                added[start] = added.get(start, "") + written
            else:
                found.append((start, end, written))
        return _with_added(found, added)

    def _by_statement(self) -> dict[ImportStatement, list[Imported]]:
        found: dict[ImportStatement, list[Imported]] = {}
        for one in self.namer.names.imports:
            found.setdefault(one.statement, []).append(one)
        return found

    # --- moving -----------------------------------------------------------------------------------------------------

    def _is_moved(self, one: Imported) -> bool:
        is_from = isinstance(one.statement, ast.ImportFrom)
        return is_from and one.name in self.namer.moved and bool(dtype_of(one.means))

    def _moves_whole(
        self,
        statement: ImportStatement,
        aliases: Sequence[Imported],
        moved: Sequence[Imported],
    ) -> bool:
        """Whether another module's name is all that changes."""
        if len(moved) < len(aliases):
            return False
        block = moved[0].block
        return not any(
            one is not statement and _module(one) == self.namer.home for one in block
        )

    def _renamed(self, statement: ImportStatement) -> Span:
        start, end = self.spans.of(statement)
        found = _FROM.match(
            self.text,
            start,
            end,
        )
        assert found is not None
        first, last = found.span("module")
        return first, last, self.namer.home

    def _moved(self, one: Imported) -> Needed:
        alias = ast.unparse(one.alias)
        return Needed(
            self.namer.home,
            alias,
            one.statement,
            one.block,
        )

    # --- removing ---------------------------------------------------------------------------------------------------

    def _without(
        self, statement: ImportStatement, gone: Sequence[ast.alias]
    ) -> Iterator[Span]:
        names = statement.names
        if len(gone) == len(names):
            yield self._without_statement(statement)
            return
        places = [self.spans.of(one) for one in names]
        kept = [number for number, one in enumerate(names) if one not in gone]
        last_kept = kept[-1]
        for number, one in enumerate(names):
            if one not in gone:
                continue
            start, end = places[number]
            if number < last_kept:
                end = self._up_to(
                    end,
                    places[number + 1][0],
                )
            elif "#" not in self.text[places[number - 1][1] : start]:
                start = places[number - 1][1]
            else:
                _, last = self.spans.of(statement)
                comma = comma_in(self.text[end:last])
                end += comma + 1
            yield start, end, ""

    def _up_to(self, start: int, end: int) -> int:
        """Where to cut between two names: a comment between them stays."""
        if "#" not in self.text[start:end]:
            return end
        return start + comma_in(self.text[start:end]) + 1

    def _without_statement(self, statement: ImportStatement) -> Span:
        start, end = self.spans.of(statement)
        first, after = self._line(start, end)
        if not self._is_alone(start, end) or statement in self._holding:
            return start, end, "pass"
        blank = _BLANK.match(self.text, after)
        if blank is not None and not self._is_below_imports(statement):
            after = blank.end()
        return first, after, ""

    def _line(self, start: int, end: int) -> tuple[int, int]:
        """The lines of a statement."""
        first = line_start(self.text, start)
        after = self.text.find("\n", end) + 1
        return first, after or len(self.text)

    def _is_alone(self, start: int, end: int) -> bool:
        """Whether nothing but a comment shares the lines of a statement."""
        first, after = self._line(start, end)
        before = self.text[first:start].strip()
        behind = self.text[end:after].strip()
        return not before and (not behind or behind.startswith("#"))

    def _is_below_imports(self, statement: ImportStatement) -> bool:
        """Whether another import is on the line before."""
        line = statement.lineno - 1
        imports = self.namer.names.imports
        return any(one.statement.end_lineno == line for one in imports)

    # --- adding -----------------------------------------------------------------------------------------------------

    def _with(
        self, needed: Sequence[Needed], kept: Collection[ImportStatement]
    ) -> Iterator[Span]:
        groups: dict[tuple[int, str], list[Needed]] = {}
        for one in needed:
            block = self._block(one)
            groups.setdefault((id(block), one.module), []).append(one)
        for (_, module), ones in groups.items():
            first = ones[0]
            names = [one.alias for one in ones]
            statement = self._same(
                module,
                self._block(first),
                kept,
            )
            if statement is not None:
                yield from self._added(statement, names)
            else:
                yield self._new(first, names)

    def _block(self, needed: Needed) -> Sequence[ast.stmt]:
        is_standard = needed.module == "typing"
        return self.namer.tree.body if is_standard else needed.block

    def _same(
        self,
        module: str,
        block: Sequence[ast.stmt],
        kept: Collection[ImportStatement],
    ) -> ast.ImportFrom | None:
        for one in block:
            if isinstance(one, ast.ImportFrom) and one in kept and module:
                if _module(one) == module and one.names[0].name != "*":
                    return one
        return None

    def _added(
        self,
        statement: ast.ImportFrom,
        names: Sequence[str],
    ) -> Iterator[Span]:
        """Names in their order, if those that are there have one."""
        known = [one.name for one in statement.names]
        is_ordered = known == sorted(known, key=_order)
        behind = []
        for name in sorted(names, key=_order):
            later = [one for one in statement.names if _is_after(one, name)]
            if not is_ordered or not later:
                behind.append(name)
                continue
            start, _ = self.spans.of(later[0])
            yield start, start, f"{name},{self._blanks(start)}"
        if behind:
            start, end = self.spans.of(statement.names[-1])
            blanks = self._blanks(start)
            text = "".join(f",{blanks}{name}" for name in behind)
            yield end, end, text

    def _blanks(self, start: int) -> str:
        """What separates a name from that before it: a blank, or a line with its indentation."""
        first = line_start(self.text, start)
        before = self.text[first:start]
        is_joined = self.text[:first].rstrip("\r\n").endswith("\\")
        return " " if before.strip() or is_joined else f"\n{before}"

    def _new(
        self,
        needed: Needed,
        names: Sequence[str],
    ) -> Span:
        """A statement among those beside it."""
        key = _place(needed.module, needed.alias)
        is_standard = key[0] == 1
        beside = self._standard() if is_standard else self._paragraph(needed)
        block = self.namer.tree.body
        before = [one for one in beside if _place_of(one) > key]
        if before:
            start, _ = self.spans.of(before[0])
            return self._in_front(
                start,
                needed.module,
                names,
            )
        if beside:
            start, end = self.spans.of(beside[-1])
            if not self._is_alone(start, end):
                return end, end, f"; {_statement(needed.module, names, '', None)}"
            indent = self._indent(start)
            _, after = self._line(start, end)
            text = f"{indent}{_statement(needed.module, names, indent)}"
            if self.text[:after].endswith("\n"):
                return after, after, f"{text}\n"
            return after, after, f"\n{text}"
        first = next(one for one in block if not _is_before_imports(one))
        start, _ = self.spans.of(first)
        start = self._above_comments(start)
        text = _statement(
            needed.module,
            names,
            "",
        )
        return start, start, f"{text}\n\n"

    def _in_front(
        self,
        start: int,
        module: str,
        names: Sequence[str],
    ) -> Span:
        first = line_start(self.text, start)
        indent = self.text[first:start]
        if indent.strip():
            # behind another statement on the line
            return start, start, f"{_statement(module, names, '', width=None)}; "
        return first, first, f"{indent}{_statement(module, names, indent)}\n"

    def _above_comments(self, start: int) -> int:
        """The comments right above a statement belong to it."""
        while True:
            first = line_start(self.text, max(start - 1, 0))
            if first >= start or not self.text[first:start].startswith("#"):
                return start
            start = first

    def _indent(self, start: int) -> str:
        first = line_start(self.text, start)
        before = self.text[first:start]
        blanks = len(before) - len(before.lstrip())
        return before[:blanks]

    def _standard(self) -> list[ImportStatement]:
        """The imports of the standard library."""
        body = self.namer.tree.body
        imports = [one for one in body if _is_import(one) and not _is_future(one)]
        return [one for one in imports if _place_of(one)[0] == 1]

    def _paragraph(self, needed: Needed) -> list[ImportStatement]:
        """The imports around one, without blank lines between them."""
        found: list[ImportStatement] = []
        for one in needed.block:
            is_near = found and one.lineno - (found[-1].end_lineno or 0) <= 1
            if found and not is_near:
                if needed.beside in found:
                    break
                found = []
            if _is_import(one):
                found.append(one)
            elif needed.beside in found:
                break
            else:
                found = []
        return found


def _with_added(spans: Sequence[Span], added: Mapping[int, str]) -> list[Span]:
    """What is put into the midst of something that goes takes its place."""
    rest = dict(added)
    found: list[Span] = []
    for start, end, text in spans:
        for position in list(rest):
            if start < position < end:
                text += rest.pop(position)
        found.append((start, end, text))
    found += [(position, position, text) for position, text in rest.items()]
    return found


def _is_before_imports(node: ast.stmt) -> bool:
    """A docstring, and what has to stand before all imports."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or _is_future(node)


def _is_future(node: ast.stmt) -> bool:
    return _module(node) == "__future__"


def _is_import(node: ast.stmt) -> TypeGuard[ImportStatement]:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _module(node: ast.stmt) -> str:
    """What a statement imports from; '' for one that does not."""
    if isinstance(node, ast.ImportFrom):
        return "." * node.level + (node.module or "")
    if isinstance(node, ast.Import):
        return node.names[0].name
    return ""


Order: TypeAlias = tuple[int, bool, str]


def _is_after(alias: ast.alias, name: str) -> bool:
    return _order(alias.name) > _order(name)


def _place_of(node: ImportStatement) -> Order:
    module = _module(node)
    if isinstance(node, ast.ImportFrom):
        return _place(module, "")
    return _place("", module)


def _place(module: str, name: str) -> Order:
    """How imports are ordered: the standard library, then others; in each those without ``from`` come first."""
    whole = module or name
    is_standard = whole.partition(".")[0] in sys.stdlib_module_names
    return 1 if is_standard else 2, bool(module), whole.lower()


def _statement(
    module: str, names: Sequence[str], indent: str, width: int | None = _WIDTH
) -> str:
    if not module:
        return f"import {', '.join(names)}"
    ordered = sorted(names, key=_order)
    line = f"from {module} import {', '.join(ordered)}"
    if width is None or len(indent) + len(line) <= width:
        return line
    lines = "".join(f"{indent}    {name},\n" for name in ordered)
    return f"from {module} import (\n{lines}{indent})"


def _order(name: str) -> tuple[int, list[str | int], str]:
    """Constants, classes and others, each by the alphabet and by numbers, as sorters of imports have them."""
    plain = name.partition(" ")[0]
    rank = 2
    if plain.isupper() and len(plain) > 1:
        rank = 0
    elif plain[:1].isupper():
        rank = 1
    parts: list[str | int] = []
    for number, part in enumerate(_DIGITS.split(plain.lower())):
        parts.append(int(part) if number % 2 else part)
    return rank, parts, plain
