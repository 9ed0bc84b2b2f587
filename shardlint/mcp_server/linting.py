"""``python -m shardlint.mcp_server.linting``: a process that answers one question to the linter, in JSON.

Each question has a process of its own: nothing of an earlier one is left, several run side by side, and one that nobody
waits for ends.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from shardlint import decoding, messages
from shardlint.api import check_paths, check_source
from shardlint.config import ConfigError
from shardlint.found import ShownType
from shardlint.mcp_server.answers import Checked, KnownName, Typed
from shardlint.rules import RuleError
from shardlint.server.checking import Request
from shardlint.server.checking import answer as found_in
from shardlint.server.device_arrays import ShownArray, bytes_of
from shardlint.server.documents import Document, Results, Snapshot
from shardlint.server.known_names import known_at, known_on
from shardtypes.lang import Size, format_shape

_PYTHON = (".py", ".pyi", ".pyw")


class CannotTell(Exception):
    """The question cannot be answered; the text says why."""


def main() -> None:
    """Answer the question on standard input."""
    question = json.load(sys.stdin)
    try:
        found: object = _ANSWERS[question["about"]](question)
    except (CannotTell, ConfigError, RuleError) as error:
        found = {"error": str(error)}
    json.dump(found, sys.stdout, default=_plain)


def _plain(value: object) -> object:
    """What JSON has for our classes."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _check(question: Mapping[str, Any]) -> Checked:
    settings, text, most = question["settings"], question["text"], question["most"]
    if text is None:
        result = check_paths(question["paths"], settings, jobs=0)
    else:
        result = check_source(text, question["path"], settings)
    return Checked(
        result.findings[:most],
        max(0, len(result.findings) - most),
        result.checked,
        result.problems,
        result.skipped,
    )


def _types(question: Mapping[str, Any]) -> Typed:
    path = Path(os.path.abspath(question["path"]))
    if path.suffix not in _PYTHON:
        raise CannotTell(messages.no_python(question["path"]))
    text = question["text"]
    document = Document(path, _text(path) if text is None else text, None)
    document.repair()
    snapshot = Snapshot.of(document.units)
    found = found_in(Request({path: snapshot.text}, evaluate=False))
    if found.problems:
        raise CannotTell("; ".join(found.problems))
    document.take(snapshot, Results((), found.types, found.uses))
    line, column = question["line"], question["column"]
    on_line = known_on(document, line - 1)
    shown = on_line
    if column is not None:
        one = known_at(document, line - 1, column - 1)
        shown = [] if one is None else [one]
    note = _note(document, on_line, shown)
    return Typed(tuple(_known(document, one) for one in _once(shown)), note)


def _text(path: Path) -> str:
    try:
        return decoding.decoded(path.read_bytes())
    except OSError as error:
        raise CannotTell(f"{path}: {error.strerror or error}") from None


def _once(shown: list[ShownType]) -> list[ShownType]:
    """An assigned name is used in its place as well."""
    found = {(one.place, one.name): one for one in reversed(shown)}
    return sorted(found.values(), key=lambda one: one.place)


def _note(
    document: Document, on_line: list[ShownType], shown: list[ShownType]
) -> str | None:
    notes = []
    for line, _, message in document.failures:
        notes.append(f"line {line} does not parse: {message}")
    if not shown:
        names = sorted({one.name for one in on_line})
        notes.append(messages.nothing_there(names))
    return "; ".join(notes) or None


def _known(document: Document, one: ShownType) -> KnownName:
    place = one.place
    array = ShownArray.read(one.text)
    if array is None:
        return KnownName(one.name, place.line, place.column, one.text, one.why)
    texts = []
    for dim in array.shape.dims:
        texts.append(format_shape([dim.size]))
    whole = array.sizes
    local = array.local(document)
    return KnownName(
        one.name,
        place.line,
        place.column,
        one.text,
        one.why,
        tuple(texts),
        tuple(dim.axes for dim in array.shape.dims),
        array.shape.pending,
        None if local is None else str(local),
        None if whole is None else _number(bytes_of(array.dtype, whole)),
        None if local is None else _number(bytes_of(local.dtype, local.sizes)),
    )


def _number(size: Size | None) -> int | str | None:
    if size is None:
        return None
    constant = size.constant
    return str(size) if constant is None else constant


_ANSWERS = {"check": _check, "types": _types}


if __name__ == "__main__":
    main()
