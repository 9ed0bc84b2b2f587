"""Which files of the chosen packages may hold functions to trace. Reads them, and imports none."""

from __future__ import annotations

import ast
import importlib.machinery
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardtypes.lang.array_names import SHARDTYPES_DTYPES

NOT_THE_PROJECT = frozenset(
    {"test", "tests", "testing", "docs", "doc", "examples", "benchmarks"}
)

_NAMES = "|".join(SHARDTYPES_DTYPES)
#: jaxtyping's ``Float[Array, 'b']`` is none of ours.
_BRACKETED_TEXT = re.compile(rf"\[\s*b?['\"]|\b(?:{_NAMES})\s*\[[\w\s.]+,\s*b?['\"]")
_BRACKETED = re.compile(_BRACKETED_TEXT.pattern.encode() + rb"|\bshardtypes\b")


@dataclass(frozen=True)
class Candidate:
    """A file with an annotation that looks like an array's, and the module that it is."""

    path: Path
    module: str

    @property
    def folder(self) -> Path:
        """The folder from which the module is imported by its name."""
        own = self.path.parent if self.path.stem == "__init__" else self.path
        return own.parents[self.module.count(".")]


def candidates(packages: Sequence[str], root: Path) -> Iterator[Candidate]:
    """The files of the packages that are worth importing, in a fixed order; none of a package that never mentions
    shardtypes."""
    for package in packages:
        whole = [_source(path) for path, _ in _modules(package.partition(".")[0], root)]
        if not any(b"shardtypes" in source for source in whole):
            continue
        for path, module in _modules(package, root):
            if _has_shape_strings(_source(path)):
                yield Candidate(path, module)


def _modules(package: str, root: Path) -> Iterator[tuple[Path, str]]:
    place = _place(package, root)
    if place is None:
        return
    if place.is_file():
        yield place, package
        return
    for path in sorted(place.rglob("*.py")):
        inside = path.relative_to(place)
        parts = [
            *inside.parts[:-1],
            *([] if inside.stem == "__init__" else [inside.stem]),
        ]
        if _is_code(inside) and all(part.isidentifier() for part in parts):
            yield path, ".".join([package, *parts])


def _is_code(inside: Path) -> bool:
    name = inside.stem
    if (
        name in ("__main__", "conftest")
        or name.startswith("test_")
        or name.endswith("_test")
    ):
        return False
    return not NOT_THE_PROJECT & set(inside.parts[:-1])


def _place(package: str, root: Path) -> Path | None:
    """The folder of a package or the file of a module: the project's own, else the one on the path."""
    parts = package.split(".")
    for folder in (root, root / "src"):
        found = folder.joinpath(*parts)
        if found.is_dir():
            return found
        if found.with_suffix(".py").is_file():
            return found.with_suffix(".py")
    spec = importlib.machinery.PathFinder.find_spec(parts[0])
    if spec is None:
        return None
    if spec.submodule_search_locations is None:
        return Path(spec.origin) if spec.origin and len(parts) == 1 else None
    for location in spec.submodule_search_locations:
        found = Path(location).joinpath(*parts[1:])
        if found.is_dir():
            return found
        if len(parts) > 1 and found.with_suffix(".py").is_file():
            return found.with_suffix(".py")
    return None


def _source(path: Path) -> bytes:
    """The text of a file; nothing for one that cannot be read: importing it will say why, to those who do."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _has_shape_strings(source: bytes) -> bool:
    """Whether a parameter's or a field's annotation holds a string in brackets, as in ``f32['B M']``.

    In a file that is no Python it may: importing it will say what is wrong.
    """
    if not _BRACKETED.search(source):
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return True
    return any(
        (isinstance(part, ast.Subscript) and _has_string(part.slice))
        or (
            isinstance(part, ast.Constant)
            and isinstance(part.value, str)
            and _BRACKETED_TEXT.search(part.value)
        )
        for node in ast.walk(tree)
        for annotation in _annotations(node)
        for part in ast.walk(annotation)
    )


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.arg) and node.annotation is not None:
        yield node.annotation
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation


def _has_string(node: ast.expr) -> bool:
    items = node.elts if isinstance(node, ast.Tuple) else [node]
    return any(
        isinstance(item, ast.Constant) and isinstance(item.value, (str, bytes))
        for item in items
    )
