"""The text of a document in units: its top-level statements, each with what stands for it while it does not parse.

Whole units parse by themselves exactly where the text parses that they make together, so half-typed code costs the unit
that it is in: the lines that parsed last are analysed in its place, or, where there are none, a signature without a
body.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from shardlint import messages
from shardlint.server.bridging import bridged
from shardlint.syntax import UnparsableFile, parse

#: Numbers between those of two neighbours, for units that come between them.
_GAP = 1 << 10
#: Lines that an unfinished string or bracket may take in, where nothing of the text is known yet.
_MOST_LINES = 400
#: Lines before a unit in what is parsed: an encoding that a comment declares is that of the file.
AHEAD = 2

_UNFINISHED = ("unterminated triple-quoted", "was never closed", "unexpected EOF")
_DEFINES = re.compile(r"(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)")
#: A comment, a string of several lines to its end or that of the text, another string, or anything else.
_TOKEN = re.compile(
    r"#[^\n]*"
    r"|(\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|'{3}(?:\\.|[^\\])*?(?:'{3}|\Z))"
    r"|\"(?:\\.|[^\\\"\n])*\"?|'(?:\\.|[^\\'\n])*'?|.",
    re.DOTALL,
)
_CONTINUES = re.compile(r"[ \t\f]+\S|(?:else|elif|except|finally)\b|[)\]}]")

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """``lines`` are those of the document, ``good`` those that are analysed: the same where they parse. ``failure``
    says why not, in a line of this unit. ``number`` stays the same while it is edited, and grows along the text."""

    lines: Lines
    good: Lines
    failure: UnparsableFile | None = None
    number: int = -1

    @property
    def name(self) -> str:
        """The function or class that it defines; empty for other statements."""
        return _name(self.lines) or _name(self.good)


def source(lines: Iterable[str]) -> bytes:
    """A unit as it is parsed, below ``AHEAD`` empty lines."""
    text = "".join(lines).removeprefix("\ufeff")
    return ("\n" * AHEAD + text).encode("utf-8", "surrogatepass")


def split(lines: Sequence[str], earlier: Sequence[Unit] = ()) -> list[Unit]:
    """The units of a text. What does not parse is matched with the ``earlier`` units that stood in its place."""
    starts = _starts(lines)
    if starts is not None:
        return _kept_numbers(
            [Unit(part, part) for part in _parts(lines, starts)], earlier
        )
    units: list[Unit] = []
    # What was one unit may have come to an end in a string that is not closed yet, a whole text hardly.
    within = _within_strings(lines) if earlier else set()
    rest = _parts(lines, _likely_starts(lines, within))
    while rest:
        part, rest = _whole(rest)
        failure = _failure(part)
        units.append(Unit(part, part, failure))
    return _with_last_good(_kept_numbers(units, earlier), earlier)


def edited(units: Sequence[Unit], lines: Sequence[str]) -> list[Unit]:
    """The units after an edit: those that it does not touch are the same objects."""
    before = [line for unit in units for line in unit.lines]
    first, last = changed_lines(before, lines)
    new_last = last + len(lines) - len(before)
    if first == last == new_last:
        return list(units)
    starts = _first_lines(units)
    begin = _unit_of(starts, first)
    end = _unit_of(starts, max(first, last - 1))
    at_border = begin > 0 and first == starts[begin]
    goes_on = first < len(lines) and _CONTINUES.match(lines[first]) is not None
    if at_border and (first == last or goes_on):
        begin -= 1
    after = starts[end + 1] if end + 1 < len(starts) else len(before)
    middle = lines[starts[begin] : after + len(lines) - len(before)]
    fresh = split(middle, units[begin : end + 1])
    return numbered([*units[:begin], *fresh, *units[end + 1 :]])


def numbered(units: Sequence[Unit]) -> list[Unit]:
    """The units with a number each, that grow; all are numbered anew where there is no room between two."""
    found: list[Unit] = []
    for index, unit in enumerate(units):
        below = found[-1].number if found else 0
        if unit.number > below:
            found.append(unit)
            continue
        later = (one.number for one in units[index:] if one.number > below)
        above = next(later, below + 2 * _GAP)
        if above - below < 2:
            numbers = count(_GAP, _GAP)
            return [
                replace(one, number=number)
                for one, number in zip(units, numbers, strict=False)
            ]
        found.append(replace(unit, number=below + min(_GAP, (above - below) // 2)))
    return found


def repaired(units: Sequence[Unit]) -> list[Unit]:
    """The same units, or others where the text as a whole parses though some unit does not: a string that was opened in
    one and closed in another."""
    if all(unit.failure is None for unit in units):
        return list(units)
    lines = [line for unit in units for line in unit.lines]
    return list(units) if _starts(lines) is None else numbered(split(lines, units))


def changed_lines(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """The first line of ``before`` that ``after`` does not begin with, and the one behind the last that it does not end
    with."""
    most = min(len(before), len(after))
    first = 0
    while first < most and before[first] == after[first]:
        first += 1
    same = 0
    while same < most - first and before[-1 - same] == after[-1 - same]:
        same += 1
    return first, len(before) - same


def _first_lines(units: Sequence[Unit]) -> list[int]:
    starts, line = [], 0
    for unit in units:
        starts.append(line)
        line += len(unit.lines)
    return starts


def _unit_of(starts: Sequence[int], line: int) -> int:
    found = 0
    for index, start in enumerate(starts):
        if start <= line:
            found = index
    return found


def _parts(lines: Sequence[str], starts: Sequence[int]) -> list[Lines]:
    ends = [*starts[1:], len(lines)]
    return [tuple(lines[a:b]) for a, b in zip(starts, ends, strict=True)]


def _name(lines: Lines) -> str:
    for line in lines:
        if not line.strip() or line[0] in "#@" or _CONTINUES.match(line):
            continue
        found = _DEFINES.match(line)
        return found[1] if found is not None else ""
    return ""


def _failure(lines: Lines) -> UnparsableFile | None:
    try:
        found = parse(source(lines), "")
    except UnparsableFile as error:
        return UnparsableFile(
            "", max(1, error.line - AHEAD), error.column, error.message
        )
    if isinstance(found, ast.Module):
        return None
    line = min(max(1, (found.lineno or 1) - AHEAD), len(lines))
    column = max(1, found.offset or 1)
    return UnparsableFile("", line, column, messages.syntax(found.msg))


def _starts(lines: Sequence[str]) -> list[int] | None:
    """The first line of each top-level statement, with the comments right above it; None where they do not parse."""
    try:
        tree = parse(source(lines), "")
    except UnparsableFile:
        return None
    if not isinstance(tree, ast.Module):
        return None
    starts, end = [0], -1
    for node in tree.body:
        above = [one.lineno for one in getattr(node, "decorator_list", ())]
        first = min([node.lineno, *above]) - 1 - AHEAD
        if end >= 0 and first > end:
            starts.append(_with_comments(lines, first, end + 1))
        end = (node.end_lineno or node.lineno) - 1 - AHEAD
    return starts


def _with_comments(lines: Sequence[str], first: int, least: int) -> int:
    while first > least and lines[first - 1].startswith("#"):
        first -= 1
    return first


def _likely_starts(lines: Sequence[str], within: Collection[int]) -> list[int]:
    """Where statements seem to begin: what stands at the left margin and goes on with nothing, ``within`` no string."""
    starts: list[int] = []
    decorated = False
    for index, line in enumerate(lines):
        blank = not line.strip() or line.startswith("#")
        if blank or _CONTINUES.match(line) or index in within:
            continue
        if not starts:
            starts.append(0)
        elif not decorated:
            starts.append(_with_comments(lines, index, starts[-1] + 1))
        decorated = line.startswith("@")
    return starts or [0]


def _within_strings(lines: Sequence[str]) -> set[int]:
    """The lines that begin in a string of several lines."""
    found: set[int] = set()
    line = 0
    for token in _TOKEN.finditer("".join(lines)):
        ends = token[0].count("\n")
        if token[1] is not None:
            found.update(range(line + 1, line + ends + 1))
        line += ends
    return found


def _whole(parts: Sequence[Lines]) -> tuple[Lines, list[Lines]]:
    """The first part, with those that an unfinished string or bracket in it takes in if that makes it parse; and the
    rest."""
    first = parts[0]
    failure = _failure(first)
    if failure is None or not any(text in failure.message for text in _UNFINISHED):
        return first, list(parts[1:])
    taken = first
    for index, part in enumerate(parts[1:], 1):
        taken = (*taken, *part)
        if len(taken) > len(first) + _MOST_LINES:
            break
        if _failure(taken) is None:
            return taken, list(parts[index + 1 :])
    return first, list(parts[1:])


def _kept_numbers(units: list[Unit], earlier: Sequence[Unit]) -> list[Unit]:
    """With the number of the earlier unit of the same name, or place; their order stays."""
    if len(units) == len(earlier):
        return [
            replace(unit, number=old.number)
            for unit, old in zip(units, earlier, strict=True)
        ]
    known = {unit.name: unit.number for unit in earlier if unit.name}
    found, last = [], -1
    for unit in units:
        number = known.get(unit.name, -1) if unit.name else -1
        if number > last:
            found.append(replace(unit, number=number))
            last = number
        else:
            found.append(unit)
    return found


def _with_last_good(units: list[Unit], earlier: Sequence[Unit]) -> list[Unit]:
    """What parsed last, or a bridge, in place of what does not."""
    present = {unit.name for unit in units if unit.failure is None and unit.name}
    left = [unit for unit in earlier if unit.name not in present]
    damaged = [unit for unit in units if unit.failure is not None]
    found = []
    for unit in units:
        if unit.failure is None:
            found.append(unit)
            continue
        same = [old for old in left if old.name == _name(unit.lines)]
        if not same and len(damaged) == 1 and len(left) == 1:
            same = left
        if same:
            left = [old for old in left if old is not same[0]]
        good = same[0].good if same else bridged(unit.lines)
        found.append(replace(unit, good=good))
    return found
