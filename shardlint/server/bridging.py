"""What stands for code that does not parse: the same number of lines, with what of it is sure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from shardlint.syntax import UnparsableFile, parse

_HEAD = re.compile(r"(?:async[ \t]+)?(?:def|class)\b")
#: A body of which nothing is known.
_NOTHING = "..."


def bridged(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines that parse, as many: of a function its signature, if that parses; of a class its head and those members
    that do. Everything else is left out."""
    found = _statement(lines, "")
    return tuple(found)


def _statement(lines: Sequence[str], indent: str) -> list[str]:
    """A statement at this indentation, bridged."""
    end = _end_of_head(lines, indent)
    if end is None:
        return _filled([], lines, f"{indent}pass")
    head = list(lines[:end])
    body = lines[end:]
    if _is_class(head):
        return _class(head, body, indent)
    return _filled(head, body, f"{indent} {_NOTHING}")


def _end_of_head(lines: Sequence[str], indent: str) -> int | None:
    """How many lines the head of a function or class takes, decorators included; None where there is none that
    parses."""
    defined = False
    for end, line in enumerate(lines, 1):
        if _HEAD.match(line.lstrip()):
            defined = True
        if not defined:
            continue
        body = f"{indent} {_NOTHING}\n"
        if _parses([*lines[:end], body], indent):
            return end
    return None


def _is_class(head: Sequence[str]) -> bool:
    for line in head:
        found = _HEAD.match(line.lstrip())
        if found is not None:
            return found[0] == "class"
    return False


def _class(head: list[str], body: Sequence[str], indent: str) -> list[str]:
    """A class with those of its members that parse, and bridges for those that do not."""
    nothing = _filled(head, body, f"{indent} {_NOTHING}")
    own = _first_indent(body)
    if len(own) <= len(indent):
        return nothing
    starts = _members(body, own)
    ends = [*starts[1:], len(body)]
    blank = starts[0] if starts else len(body)
    found = [*head, *["\n"] * blank]
    for start, end in zip(starts, ends, strict=True):
        member = body[start:end]
        if _parses(member, own):
            found += member
        else:
            found += _statement(member, own)
    return found if _parses(found, indent) else nothing


def _first_indent(body: Sequence[str]) -> str:
    for line in body:
        if line.strip():
            return _indent(line)
    return ""


def _members(body: Sequence[str], indent: str) -> list[int]:
    """The lines in which the members of a class begin, rather than go on below a decorator."""
    found = []
    decorated = False
    for index, line in enumerate(body):
        text = line.strip()
        if not text or text[0] in "#)]}":
            continue
        if _indent(line) != indent:
            continue
        if not decorated:
            found.append(index)
        decorated = text.startswith("@")
    return found


def _filled(kept: Sequence[str], rest: Sequence[str], filler: str) -> list[str]:
    """What is kept, the filler, and empty lines."""
    if rest:
        blank = ["\n"] * (len(rest) - 1)
        return [*kept, f"{filler}\n", *blank]
    *before, last = kept
    text = last.rstrip("\r\n")
    return [*before, f"{text} {filler.strip()}\n"]


def _indent(line: str) -> str:
    text = line.lstrip()
    return line[: len(line) - len(text)] if text else ""


def _parses(lines: Sequence[str], indent: str) -> bool:
    """Whether lines are statements at this indentation."""
    opened = "if 1:\n" if indent else ""
    text = opened + "".join(lines)
    try:
        found = parse(text.encode("utf-8", "surrogatepass"), "")
    except UnparsableFile:
        return False
    return isinstance(found, ast.Module)
