"""What a finding is known by from one version of a file to the next: its words, and the text it is about.

Neither the path nor a line number is part of it, so a finding keeps its fingerprint while code moves around it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Sequence

from shardtypes.lang.diagnostics import Diagnostic, Place
from shardtypes.lang.frozen import frozen
from shardtypes.lang.messages import fails_for

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@frozen
class Identity:
    """``scope`` is the function or class around a finding, by its dotted name in the file ('' at the top level);
    ``message`` is its sentence without the sizes for which it fails."""

    fingerprint: str
    scope: str
    message: str


class Identities:
    """The identities of the findings of one run. ``lines`` gives the lines that a place counts."""

    def __init__(self, lines: Callable[[Place], Sequence[str]]) -> None:
        self._read = lines
        self._known: dict[tuple[str, int], tuple[Sequence[str], _Scopes]] = {}

    def of(self, found: Diagnostic) -> Identity:
        """Equal for findings with the same code and words about the same text in the same function."""
        place = found.place
        file = (place.path, place.cell)
        if file not in self._known:
            read = self._read(place)
            self._known[file] = read, _scopes(read)
        lines, scopes = self._known[file]
        scope = _around(scopes, place.line)
        text = lines[place.line - 1] if place.line <= len(lines) else ""
        message = _one_line(found.message.removesuffix(fails_for(dict(found.witness))))
        fingerprint = fingerprint_of(found.code, scope, _one_line(text), message)
        return Identity(fingerprint, scope, message)


def fingerprint_of(*parts: str) -> str:
    """Of several texts: equal where all of them are."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(part.encode("utf-8", "surrogatepass"))
        state.update(b"\0")
    return state.hexdigest()


def unique(
    diagnostics: Iterable[Diagnostic], identities: Identities
) -> list[tuple[Diagnostic, str]]:
    """Each finding with a fingerprint that no other finding of the run has: of its path too, and of how many equal ones
    came before it."""
    seen: dict[str, int] = {}
    found = []
    for one in diagnostics:
        key = f"{one.place.path}\0{identities.of(one).fingerprint}"
        number = seen[key] = seen.get(key, 0) + 1
        whole = hashlib.blake2b(f"{key}\0{number}".encode("utf-8", "surrogatepass"))
        found.append((one, whole.hexdigest()[:32]))
    return found


_Scopes = list[tuple[int, int, str]]
"""The first and the last line of each function and class, with its name; those inside others come later."""


def _scopes(lines: Sequence[str]) -> _Scopes:
    try:
        tree = ast.parse("\n".join(lines))
    # Syntax of a newer Python, or a cell with magics: its lines are told apart by their text alone.
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found: _Scopes = []
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, outer = waiting.pop()
        for child in ast.iter_child_nodes(node):
            name = outer
            if isinstance(child, _SCOPES):
                name = f"{outer}.{child.name}" if outer else child.name
                found.append((child.lineno, child.end_lineno or child.lineno, name))
            waiting.append((child, name))
    return found


def _around(scopes: _Scopes, line: int) -> str:
    """The innermost function or class that holds a line."""
    inside = [
        (start, -end, name) for start, end, name in scopes if start <= line <= end
    ]
    return max(inside)[2] if inside else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())
