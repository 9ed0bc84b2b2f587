"""What an editor shows of calls: the signature, and the sizes that the arguments bind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from lsprotocol import types as lsp

from shardlint.server.device_arrays import ARRAY
from shardlint.server.documents import Document
from shardlint.server.serving import Server
from shardlint.server.units import source
from shardlint.syntax import UnparsableFile, parse

_CALLED = re.compile(r"([A-Za-z_][\w.]*)\s*$")
_WORD = re.compile(r"[A-Za-z_]\w*")
_KEYWORD = re.compile(r"(\w+)\s*=")
_SLASH = re.compile(r"(?<!/)/(?!/)")


def register_shapes(server: Server) -> None:
    """Answer what editors ask of calls."""

    @server.feature(
        lsp.TEXT_DOCUMENT_SIGNATURE_HELP,
        lsp.SignatureHelpOptions(trigger_characters=["(", ","]),
    )
    def signature(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = server.of(params.text_document.uri)
        if document is None:
            return None
        column = server.column(document.lines, params.position)
        call = _call_at(document, params.position.line, column)
        if call is None:
            return None
        node = _definition(document, call.name)
        if node is None:
            return None
        return _help(document, call, node)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call that is being typed: the function's name, and the arguments so far, the last one unfinished."""

    name: str
    arguments: tuple[str, ...]
    line: int


def _call_at(document: Document, line: int, column: int) -> _Call | None:
    """The innermost call around a position, read backwards to its bracket."""
    unit = document.unit_at(line)
    if unit is None:
        return None
    start = document.start(unit)
    above = document.lines[start:line]
    before = document.lines[line][:column]
    text = "".join(above) + before
    return _call_in(text, line)


def _call_in(text: str, line: int) -> _Call | None:
    """The call whose bracket is the last one open in a text."""
    depth = 0
    end = len(text)
    arguments: list[str] = []
    for index in range(end - 1, -1, -1):
        character = text[index]
        if character in ")]}":
            depth += 1
        elif depth:
            if character in "([{":
                depth -= 1
        elif character in "[{":
            return None
        elif character in "(,":
            arguments.append(text[index + 1 : end].strip())
            end = index
        if character == "(" and end == index:
            name = _called(text[:index])
            if name is None:
                return None
            arguments.reverse()
            return _Call(name, tuple(arguments), line)
    return None


def _called(text: str) -> str | None:
    """The name that a text ends with, if that is called rather than defined."""
    found = _CALLED.search(text)
    if found is None:
        return None
    before = text[: found.start()].rstrip()
    if before.endswith(("def", "class")):
        return None
    return found[1]


def _definition(document: Document, name: str) -> ast.FunctionDef | None:
    """The function of the document with a name, as it parsed last."""
    for unit in document.program:
        if unit.name == name:
            for node in _statements(unit.good):
                if isinstance(node, ast.FunctionDef) and node.name == name:
                    return node
    return None


@lru_cache(maxsize=256)
def _statements(lines: tuple[str, ...]) -> tuple[ast.stmt, ...]:
    try:
        tree = parse(source(lines), "")
    except UnparsableFile:
        return ()
    return tuple(tree.body) if isinstance(tree, ast.Module) else ()


def _help(document: Document, call: _Call, node: ast.FunctionDef) -> lsp.SignatureHelp:
    given = node.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    texts = [_written(one) for one in parameters]
    label = f"{node.name}({', '.join(texts)})"
    if node.returns is not None:
        label += f" -> {ast.unparse(node.returns)}"
    sizes = []
    for name, size in _bound(document, call, parameters).items():
        sizes.append(f"{name} = {size}")
    active = len(call.arguments) - 1
    keyword = _KEYWORD.match(call.arguments[-1])
    if keyword is not None:
        for index, one in enumerate(parameters):
            if one.arg == keyword[1]:
                active = index
    return lsp.SignatureHelp(
        [
            lsp.SignatureInformation(
                label,
                documentation=f"with {', '.join(sizes)}" if sizes else None,
                parameters=[lsp.ParameterInformation(text) for text in texts],
            )
        ],
        active_signature=0,
        active_parameter=active,
    )


def _written(one: ast.arg) -> str:
    if one.annotation is None:
        return one.arg
    return f"{one.arg}: {ast.unparse(one.annotation)}"


def _bound(
    document: Document, call: _Call, parameters: list[ast.arg]
) -> dict[str, str]:
    """What the names of dimensions stand for, by what is known of the arguments that are names."""
    found: dict[str, str] = {}
    unit = document.unit_at(call.line)
    if unit is None:
        return found
    types = dict(_known(document, document.start(unit), call.line))
    for parameter, given in zip(parameters, call.arguments, strict=False):
        wanted = _shape_of(parameter)
        known = ARRAY.match(types.get(given, ""))
        if wanted is None or known is None:
            continue
        names = _sizes(wanted)
        sizes = _sizes(known["shape"])
        if len(sizes) != len(names) or "..." in (*sizes, *names):
            continue
        for name, size in zip(names, sizes, strict=True):
            if _WORD.fullmatch(name):
                found.setdefault(name, size)
    return found


def _sizes(shape: str) -> list[str]:
    """The sizes in a shape string, without axes and partial sums."""
    found = []
    for part in shape.partition("{")[0].split():
        size, *_ = _SLASH.split(part)
        found.append(size)
    return found


def _shape_of(parameter: ast.arg) -> str | None:
    annotation = parameter.annotation
    if not isinstance(annotation, ast.Subscript):
        return None
    index = annotation.slice
    item = index.elts[-1] if isinstance(index, ast.Tuple) else index
    if isinstance(item, ast.Constant) and isinstance(item.value, str):
        return item.value
    return None


def _known(document: Document, first: int, last: int) -> Iterator[tuple[str, str]]:
    """What names of a function are, those that are assigned or used last winning."""
    shown = list(document.types(first, last))
    shown += document.uses(first, last)
    shown.sort(key=lambda one: one.place.line)
    for one in shown:
        if first < one.place.line <= last + 1:
            yield one.name, one.text
