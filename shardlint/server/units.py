"""The text of a document in units: its top-level statements, each with what stands for it while it does not parse.

Whole units parse by themselves exactly where the text parses that they make together, so half-typed code costs the unit
that it is in: the lines that parsed last are analysed in its place, or, where there are none, a signature without a
body.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

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
    units: list[Unit] = []
    starts = _starts(lines)
    if starts is not None:
        for part in _parts(lines, starts):
            units.append(Unit(part, part))
        return _kept_numbers(units, earlier)
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
    more = len(lines) - len(before)
    inserted = first == last
    if inserted and not more:
        return list(units)
    starts = _first_lines(units)
    begin = _unit_of(starts, first)
    end = _unit_of(starts, max(first, last - 1))
    if begin > 0 and first == starts[begin]:
        # what is put between two units may belong to the one above
        goes_on = first < len(lines) and _CONTINUES.match(lines[first])
        if inserted or goes_on:
            begin -= 1
    after = len(before)
    if end + 1 < len(starts):
        after = starts[end + 1]
    middle = lines[starts[begin] : after + more]
    touched = units[begin : end + 1]
    found = list(units[:begin])
    found += split(middle, touched)
    found += units[end + 1 :]
    return numbered(found)


def numbered(units: Sequence[Unit]) -> list[Unit]:
    """The units with a number each, that grow; all are numbered anew where there is no room between two."""
    found: list[Unit] = []
    below = 0
    for index, unit in enumerate(units):
        if unit.number <= below:
            above = _next_number(units[index:], below)
            if above - below < 2:
                return _numbered_anew(units)
            step = min(_GAP, (above - below) // 2)
            unit = replace(unit, number=below + step)  # the same one
        found.append(unit)
        below = unit.number
    return found


def _next_number(units: Sequence[Unit], below: int) -> int:
    """The next number that is taken above one, or one far above."""
    for unit in units:
        if unit.number > below:
            return unit.number
    return below + 2 * _GAP


def _numbered_anew(units: Sequence[Unit]) -> list[Unit]:
    found = []
    for index, unit in enumerate(units, 1):
        found.append(replace(unit, number=index * _GAP))
    return found


def repaired(units: Sequence[Unit]) -> list[Unit]:
    """The same units, or others where the text as a whole parses though some unit does not: a string that was opened in
    one and closed in another."""
    damaged = any(unit.failure is not None for unit in units)
    if not damaged:
        return list(units)
    lines = [line for unit in units for line in unit.lines]
    if _starts(lines) is None:
        return list(units)
    return numbered(split(lines, units))


def changed_lines(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """The first line of ``before`` that ``after`` does not begin with, and the one behind the last that it does not end
    with."""
    most = min(len(before), len(after))
    first = 0
    while first < most and before[first] == after[first]:
        first += 1
    most -= first
    same = 0
    for one, other in zip(reversed(before), reversed(after), strict=False):
        if same == most or one != other:
            break
        same += 1
    return first, len(before) - same


def _first_lines(units: Sequence[Unit]) -> list[int]:
    starts = []
    line = 0
    for unit in units:
        starts.append(line)
        line += len(unit.lines)
    return starts


def _unit_of(starts: Sequence[int], line: int) -> int:
    after = bisect_right(starts, line)
    return max(0, after - 1)


def _parts(lines: Sequence[str], starts: Sequence[int]) -> list[Lines]:
    ends = [*starts[1:], len(lines)]
    found = []
    for start, end in zip(starts, ends, strict=True):
        part = tuple(lines[start:end])
        found.append(part)
    return found


def _name(lines: Lines) -> str:
    for line in lines:
        if not line.strip() or line[0] in "#@":
            continue
        if _CONTINUES.match(line):
            continue
        found = _DEFINES.match(line)
        if found is not None:
            return found[1]
        return ""
    return ""


def _failure(lines: Lines) -> UnparsableFile | None:
    try:
        found = parse(source(lines), "")
    except UnparsableFile as error:
        line = max(1, error.line - AHEAD)
        return UnparsableFile("", line, error.column, error.message)
    if isinstance(found, ast.Module):
        return None
    line = (found.lineno or 1) - AHEAD
    line = min(max(1, line), len(lines))
    column = max(1, found.offset or 1)
    message = messages.syntax(found.msg)
    return UnparsableFile("", line, column, message)


def _starts(lines: Sequence[str]) -> list[int] | None:
    """The first line of each top-level statement, with the comments right above it; None where they do not parse."""
    try:
        tree = parse(source(lines), "")
    except UnparsableFile:
        return None
    if not isinstance(tree, ast.Module):
        return None
    starts: list[int] = []
    end = 0
    for node in tree.body:
        first = _first_line(node)
        if not starts:
            starts.append(0)
        elif first > end:
            start = _with_comments(lines, first, end + 1)
            starts.append(start)
        end = _last_line(node)
    return starts or [0]


def _first_line(node: ast.stmt) -> int:
    """Of a statement with its decorators, from 0."""
    first = node.lineno
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            for decorator in node.decorator_list:
                first = min(first, decorator.lineno)
        case _:
            pass
    return first - 1 - AHEAD


def _last_line(node: ast.stmt) -> int:
    last = node.end_lineno
    assert last is not None
    return last - 1 - AHEAD


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
            least = starts[-1] + 1
            start = _with_comments(lines, index, least)
            starts.append(start)
        decorated = line.startswith("@")
    return starts or [0]


def _within_strings(lines: Sequence[str]) -> set[int]:
    """The lines that begin in a string of several lines."""
    found: set[int] = set()
    line = 0
    for token in _TOKEN.finditer("".join(lines)):
        ends = token[0].count("\n")
        if token[1] is not None:
            first = line + 1
            found.update(range(first, first + ends))
        line += ends
    return found


def _whole(parts: Sequence[Lines]) -> tuple[Lines, list[Lines]]:
    """The first part, with those that an unfinished string or bracket in it takes in if that makes it parse; and the
    rest."""
    first, *rest = parts
    if not _is_unfinished(first):
        return first, rest
    taken = first
    most = len(first) + _MOST_LINES
    for index, part in enumerate(rest, 1):
        taken = (*taken, *part)
        if len(taken) > most:
            break
        if _failure(taken) is None:
            return taken, rest[index:]
    return first, rest


def _is_unfinished(lines: Lines) -> bool:
    """Whether a string or a bracket is open at the end."""
    failure = _failure(lines)
    if failure is None:
        return False
    return any(text in failure.message for text in _UNFINISHED)


def _kept_numbers(units: list[Unit], earlier: Sequence[Unit]) -> list[Unit]:
    """With the number of the earlier unit of the same name, or place; their order stays."""
    found = []
    if len(units) == len(earlier):
        for unit, old in zip(units, earlier, strict=True):
            found.append(replace(unit, number=old.number))
        return found
    known = {old.name: old.number for old in earlier}
    last = -1
    known.pop("", None)
    for unit in units:
        number = known.get(unit.name, -1)
        if number <= last:
            found.append(unit)
            continue
        found.append(replace(unit, number=number))
        last = number
    return found


def _with_last_good(units: list[Unit], earlier: Sequence[Unit]) -> list[Unit]:
    """What parsed last, or a bridge, in place of what does not."""
    whole = [unit for unit in units if unit.failure is None]
    present = {unit.name for unit in whole if unit.name}
    left = [old for old in earlier if old.name not in present]
    alone = len(units) - len(whole) == 1
    found = []
    for unit in units:
        if unit.failure is None:
            found.append(unit)
            continue
        old = _counterpart(unit, left, alone)
        if old is None:
            good = bridged(unit.lines)
        else:
            left.remove(old)
            good = old.good
        found.append(replace(unit, good=good))
    return found


def _counterpart(unit: Unit, left: Sequence[Unit], alone: bool) -> Unit | None:
    """The unit of this name; where just one does not parse, and just one is gone, that one, whatever its name."""
    name = _name(unit.lines)
    for old in left:
        if old.name == name:
            return old
    if alone and len(left) == 1:
        return left[0]
    return None
