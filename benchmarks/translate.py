"""The same program in jaxtyping's annotations, for the peers; new lines are counted, so that places can be compared.

``f32['B/d L']`` becomes ``Float32[Array, 'B_d L']``: jaxtyping has no axes, and a shard's size is not the whole's.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Form = Literal["pyrefly", "jaxtyc", "runtime"]

_DTYPES = {
    "f32": "Float32",
    "f16": "Float16",
    "bf16": "BFloat16",
    "i32": "Int32",
    "u32": "UInt32",
    "bool_": "Bool",
    "floating": "Float",
    "integer": "Int",
}


#: Pyrefly's dimensions are names, numbers, and a name plus or minus 1; others it rejects, so they are left open.
_UNSUPPORTED = re.compile(
    r"""(?<=[" ])(?:\w+\*\w[\w+*]*|\w+//\w+|\w+\+[A-Za-z]\w*|\w+[+-](?:[2-9]|\d\d))(?=[" ])"""
)


@dataclass(frozen=True)
class Translated:
    """``lines[i]`` is the original's line for line i + 1."""

    text: str
    lines: tuple[int, ...]

    def original(self, line: int) -> int:
        """The line in the original program."""
        return self.lines[min(line, len(self.lines)) - 1]


Transform = Callable[[bytes], Translated]


def translate(source: bytes, form: Form) -> Translated:
    """The program in jaxtyping's dialect, with what the peer's documentation asks for around it."""
    text = source.decode()
    text = _edited(text, list(_annotations(text)))
    if form == "pyrefly":
        text = _UNSUPPORTED.sub("_", text)
    inserted: dict[int, list[str]] = defaultdict(list)
    for number, new in _decorators(text, form):
        inserted[number] += new
    lines, numbers = [], []
    for number, line in enumerate(text.splitlines(), 1):
        for each in (*inserted[number], line):
            lines.append(each)
            numbers.append(number)
    return Translated("\n".join(lines) + "\n", tuple(numbers))


@dataclass(frozen=True)
class _Edit:
    line: int
    start: int
    end_line: int
    end: int
    text: str


def _edited(text: str, edits: list[_Edit]) -> str:
    """Columns are those of ``ast``: bytes of a line."""
    starts = [0]
    data = text.encode()
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for edit in sorted(edits, key=lambda e: (e.line, e.start), reverse=True):
        begin, stop = (
            starts[edit.line - 1] + edit.start,
            starts[edit.end_line - 1] + edit.end,
        )
        lost = data.count(b"\n", begin, stop)
        data = data[:begin] + edit.text.encode() + b"\n" * lost + data[stop:]
    return data.decode()


def _annotations(text: str) -> Iterator[_Edit]:
    tree = ast.parse(text)
    ours: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "shardtypes":
            ours |= {alias.name for alias in node.names}
            yield _span(node, _imports(ours))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Name)
            and node.value.id in ours
        ):
            yield from _subscript(node, node.value.id)
        elif isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Name) and decorator.id in ours:
                    known = {"pytree_dataclass": "dataclasses.dataclass"}
                    yield _span(decorator, known.get(decorator.id, "_plain"))


def _imports(ours: set[str]) -> str:
    names = ", ".join(sorted({_DTYPES[n] for n in ours if n in _DTYPES}))
    lines = [
        "import dataclasses",
        "import typing",
        "import jax",
        "from jax import Array",
    ]
    if names:
        lines.append(f"from jaxtyping import {names}")
    if "typechecked" in ours:
        lines.append("_plain = lambda f: f")
    return "; ".join(lines)


def _subscript(node: ast.Subscript, name: str) -> Iterator[_Edit]:
    if name == "Array":
        yield _span(node, "typing.Any")
    elif (
        name in _DTYPES
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ):
        yield _span(
            node,
            f"{_DTYPES[name]}[Array, {_shape(node.slice.value)!r}]".replace("'", '"'),
        )


def _shape(text: str) -> str:
    return " ".join(
        word.replace("/", "_") if "//" not in word else word
        for word in text.split()
        if "{" not in word
    )


def _span(node: ast.stmt | ast.expr, text: str) -> _Edit:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return _Edit(
        node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text
    )


def _decorators(text: str, form: Form) -> Iterator[tuple[int, list[str]]]:
    tree = ast.parse(text)
    imports = {
        "pyrefly": ["from shape_extensions import static_jaxtyping"],
        "runtime": ["import beartype; import jaxtyping"],
        "jaxtyc": [],
    }[form]
    first = next(s for s in tree.body if not _docstring(s) and not _future(s))
    yield first.lineno, imports
    for node, outer in _definitions(tree, ()):
        line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        indent = " " * node.col_offset
        added = []
        if any(ast.unparse(d) == "dataclasses.dataclass" for d in node.decorator_list):
            added.append(f"{indent}@jax.tree_util.register_dataclass")
        names = [n for n in _names(node) if n not in outer]
        if form == "pyrefly" and names:
            added.append(f'{indent}@static_jaxtyping("{" ".join(names)}")')
        yield line, added
        if (
            form == "runtime"
            and _names(node)
            and isinstance(node, ast.FunctionDef)
            and not _checked(node)
        ):
            yield (
                node.lineno,
                [f"{indent}@jaxtyping.jaxtyped(typechecker=beartype.beartype)"],
            )


def _definitions(
    node: ast.AST, outer: tuple[str, ...]
) -> Iterator[tuple[ast.FunctionDef | ast.ClassDef, tuple[str, ...]]]:
    """Every definition, with the dimension names that those around it declare."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield child, outer
            yield from _definitions(child, (*outer, *_names(child)))
        else:
            yield from _definitions(child, outer)


def _checked(node: ast.FunctionDef) -> bool:
    return any("jaxtyped" in ast.unparse(d) for d in node.decorator_list)


def _docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _names(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """The dimension names that the definition's own annotations use, nested definitions left out."""
    found: dict[str, None] = {}
    for annotation in _own_annotations(node):
        for part in ast.walk(annotation):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                for word in part.value.split():
                    for name in (
                        [word]
                        if word.startswith("*")
                        else re.findall(r"[A-Za-z]\w*", word)
                    ):
                        found[name] = None
    return list(found)


def _own_annotations(node: ast.FunctionDef | ast.ClassDef) -> Iterator[ast.expr]:
    if isinstance(node, ast.FunctionDef):
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        yield from (a.annotation for a in arguments if a.annotation is not None)
        if node.returns is not None:
            yield node.returns
    pending: list[ast.AST] = list(node.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.AnnAssign):
            yield statement.annotation
        if not isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(statement)
