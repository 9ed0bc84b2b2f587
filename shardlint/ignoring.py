"""Writing the comments that silence findings into a file, which otherwise stays as it is."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Sequence
from functools import partial

from shardlint import decoding, ir, messages
from shardlint.rewriting import Change
from shardlint.run import Report
from shardlint.selection import is_own
from shardlint.suppress import suppressions
from shardtypes.lang.diagnostics import Diagnostic
from shardtypes.lang.frozen import frozen

_CODES = re.compile(r"ignore\[[^\]]*\]")


@frozen
class _Lines:
    """Where a file has room. A line that is not in ``ends`` goes on in the next one, in a string or after a backslash;
    one in ``commented`` has a comment already."""

    ends: frozenset[int]
    commented: frozenset[int]

    def takes_comment(self, line: int) -> bool:
        """Whether a comment can be put after the code of a line."""
        return line in self.ends and line not in self.commented

    def takes_line_before(self, line: int) -> bool:
        """Whether a line with a comment can be put before a line."""
        return line == 1 or line - 1 in self.ends


@frozen
class _Spot:
    """Where a code is written: into the comment of a ``line``, after its code, or above it."""

    line: int
    comment: ir.Suppression | None = None
    is_above: bool = False


def ignoring(reason: str) -> Change[Diagnostic]:
    """Adds comments for findings, each with this reason ('' for none)."""
    return partial(_with_comments, reason)


def left(report: Report) -> list[str]:
    """What there is to do about the findings that stay, for which no comment was written: a line for each reason."""
    places: dict[str, list[str]] = {}
    for one in report.diagnostics:
        places.setdefault(_why_left(one, report), []).append(str(one.place))
    return [messages.not_ignored(found, why) for why, found in places.items()]


def _why_left(found: Diagnostic, report: Report) -> str:
    if is_own(found.code):
        return messages.NOT_IGNORED[found.code]
    if found.place.cell:
        return messages.NOT_IN_NOTEBOOKS
    if found.place.path not in report.judged:
        return messages.NOT_ASKED_FOR
    return messages.NO_ROOM


def _with_comments(
    reason: str, text: str, found: Sequence[Diagnostic], report: Report
) -> tuple[str, int]:
    """Raises nothing: a finding for which there is no room stays."""
    room = _room(text)
    comments = suppressions(text)
    wanted: dict[_Spot, list[str]] = {}
    count = 0
    for one in found:
        anchors = report.anchors.get(one, ())
        if is_own(one.code) or not anchors:
            continue
        spot = _spot(one, anchors, comments, room)
        if spot is None:
            continue
        if spot.comment is not None and one.code in spot.comment.codes:
            continue
        codes = wanted.setdefault(spot, [])
        if one.code not in codes:
            codes.append(one.code)
        count += 1
    lines = decoding.lines(text, keepends=True)
    # from the end, so that lines above keep their numbers
    for spot in sorted(wanted, key=lambda spot: spot.line, reverse=True):
        _write(lines, spot, sorted(wanted[spot]), reason)
    return "".join(lines), count


def _spot(
    found: Diagnostic,
    anchors: Iterable[int],
    comments: Iterable[ir.Suppression],
    room: _Lines | None,
) -> _Spot | None:
    """Where the comment for a finding goes: to the line where it begins, if that has room."""
    others = [line for line in anchors if line != found.place.line]
    candidates = [found.place.line, *others]
    for comment in comments:
        if comment.codes and comment.covers in candidates:
            return _Spot(comment.line, comment)
    for line in candidates if room is not None else ():
        assert room is not None
        if room.takes_comment(line):
            return _Spot(line)
        if room.takes_line_before(line):
            return _Spot(line, is_above=True)
    return None


def _write(lines: list[str], spot: _Spot, codes: Sequence[str], reason: str) -> None:
    index = spot.line - 1
    line = lines[index]
    text = f"# shardlint: ignore[{','.join(codes)}]" + (f" {reason}" if reason else "")
    code = line.rstrip("\r\n")
    ending = line[len(code) :]
    if spot.comment is not None:
        start = spot.comment.column - 1
        every = ",".join([*spot.comment.codes, *codes])
        comment = _CODES.sub(lambda _: f"ignore[{every}]", line[start:], count=1)
        lines[index] = line[:start] + comment
    elif spot.is_above:
        indent = code[: len(code) - len(code.lstrip())]
        lines.insert(index, f"{indent}{text}{ending or _ending(lines)}")
    else:
        lines[index] = f"{code}  {text}{ending}"


def _ending(lines: Sequence[str]) -> str:
    """How the lines of a file end whose last line has no end."""
    first = lines[0]
    return first[len(first.rstrip("\r\n")) :] or "\n"


def _room(text: str) -> _Lines | None:
    """None for syntax that this Python does not know."""
    ends: set[int] = set()
    commented: set[int] = set()
    open_strings = 0
    try:
        for token in decoding.tokens(text):
            name = tokenize.tok_name[token.type]
            # A comment in the braces of a string is syntax of Python 3.12.
            if name.endswith("STRING_START"):
                open_strings += 1
            elif name.endswith("STRING_END"):
                open_strings -= 1
            elif name in ("NEWLINE", "NL") and not open_strings:
                ends.add(token.start[0])
            elif name == "COMMENT":
                commented.add(token.start[0])
    except (tokenize.TokenError, SyntaxError):
        return None
    return _Lines(frozenset(ends), frozenset(commented))
