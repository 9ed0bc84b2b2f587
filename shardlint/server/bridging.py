"""What stands for code that does not parse: the same number of lines, with what of it is sure."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from shardlint.syntax import UnparsableFile, parse

_HEAD = re.compile(r"(?:async[ \t]+)?(?:def|class)\b")
_CLASS = re.compile(r"class\b")


def bridged(lines: Sequence[str]) -> tuple[str, ...]:
    """Lines that parse, as many: of a function its signature, if that parses; of a class its head and those members
    that do. Everything else is left out."""
    found = _statement(lines, "")
    return tuple(found)


def _statement(lines: Sequence[str], indent: str) -> list[str]:
    head = next((i for i, line in enumerate(lines) if _HEAD.match(line.lstrip())), None)
    if head is not None:
        for end in range(head + 1, len(lines) + 1):
            kept = [*lines[:end]]
            if _parses([*kept, f"{indent} ...\n"], indent):
                if _CLASS.match(lines[head].lstrip()):
                    return _class(kept, lines[end:], indent)
                return _filled(kept, lines[end:], f"{indent} ...")
    return _filled([], lines, f"{indent}pass")


def _class(head: list[str], body: Sequence[str], indent: str) -> list[str]:
    """A class with those of its members that parse, and bridges for those that do not."""
    own = next((_indent(line) for line in body if line.strip()), "")
    if len(own) <= len(indent):
        return _filled(head, body, f"{indent} ...")
    starts = [
        i for i, line in enumerate(body) if _indent(line) == own and _begins(body, i)
    ]
    ends = [*starts[1:], len(body)]
    found = [*head, *["\n"] * (starts[0] if starts else len(body))]
    for start, end in zip(starts, ends, strict=True):
        member = body[start:end]
        found += member if _parses(member, own) else _statement(member, own)
    return found if _parses(found, indent) else _filled(head, body, f"{indent} ...")


def _begins(body: Sequence[str], index: int) -> bool:
    """Whether a member begins in a line, rather than goes on below its decorator."""
    text = body[index].strip()
    below = index > 0 and body[index - 1].lstrip().startswith("@")
    return bool(text) and not below and text[0] not in "#)]}"


def _filled(kept: Sequence[str], rest: Sequence[str], filler: str) -> list[str]:
    """What is kept, the filler, and empty lines."""
    if not rest:
        last = kept[-1].rstrip("\r\n") if kept else ""
        return [*kept[:-1], f"{last} {filler.strip()}\n"]
    return [*kept, f"{filler}\n", *["\n"] * (len(rest) - 1)]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())] if line.strip() else ""


def _parses(lines: Sequence[str], indent: str) -> bool:
    opened = "if 1:\n" if indent else ""
    try:
        text = (opened + "".join(lines)).encode("utf-8", "surrogatepass")
        return isinstance(parse(text, ""), ast.Module)
    except UnparsableFile:
        return False
