"""Mesh axes that the code of a project makes: those of its meshes, and what ``pmap`` and ``vmap`` name. Read from the
texts of its files, so that the linter and the mypy plugin know the same ones."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from math import prod
from pathlib import Path
from typing import TypeAlias

from shardlint.config import Config
from shardlint.discovery import MAX_FILES, Discovery
from shardlint.notebooks import OtherLanguage, read
from shardlint.syntax import UnparsableFile

_MESHES = frozenset({"Mesh", "AbstractMesh", "make_mesh"})
_MAKERS = _MESHES | {"pmap", "filter_pmap", "vmap", "filter_vmap"}
_MAKING = re.compile(rb"\b(?:" + "|".join(sorted(_MAKERS)).encode() + rb")\b")
#: What they are called in full, in the releases of JAX that there are.
_QUALIFIED = frozenset(
    """jax.make_mesh jax.sharding.Mesh jax.sharding.AbstractMesh jax.experimental.maps.Mesh jax.interpreters.pxla.Mesh
    jax.experimental.mesh_utils.make_mesh""".split()
)

MeshAxes: TypeAlias = Mapping[str, int | None]
"""The axes of one mesh with their sizes, None where a size is not written out."""


@dataclass(frozen=True, slots=True)
class MadeAxes:
    """``names`` is every text that may name an axis. ``meshes`` are those that are written out; ``closed`` says that
    the project makes no others, so that what they have not is nowhere."""

    names: frozenset[str] = frozenset()
    meshes: tuple[MeshAxes, ...] = ()
    closed: bool = False

    @property
    def key(self) -> str:
        """Equal for what is the same."""
        return repr(
            (
                sorted(self.names),
                [sorted(mesh.items()) for mesh in self.meshes],
                self.closed,
            )
        )

    @property
    def only(self) -> frozenset[str]:
        """The axes of all meshes that there are, and other names for axes; empty where they are not all known."""
        return self.names if self.closed and self.meshes else frozenset()

    def sizes(self, axes: tuple[str, ...]) -> frozenset[int]:
        """Into how many parts these axes together split a dimension, on each mesh that has them; empty where that is
        not known of one of them."""
        if not self.closed:
            return frozenset()
        found = set()
        for mesh in self.meshes:
            if all(axis in mesh for axis in axes):
                counts = [mesh[axis] for axis in axes]
                known = [count for count in counts if count is not None]
                if len(known) < len(counts):
                    return frozenset()
                found.add(prod(known))
        return frozenset(found)


def made_axes(config: Config) -> MadeAxes:
    """The axes that the files of the project of ``config`` make."""
    names: set[str] = set()
    meshes: list[MeshAxes] = []
    closed = config.project
    for number, path in enumerate(
        islice(Discovery(lambda _: config).walk(config.root), MAX_FILES + 1)
    ):
        if number == MAX_FILES:
            closed = False
            break
        source = _program(path)
        if source is None:  # a run over the file says so
            closed = False
        elif _MAKING.search(source):
            found = _in_source(source)
            names |= found.names
            meshes += found.meshes
            closed = closed and found.closed
    return MadeAxes(frozenset(names), tuple(meshes), closed)


def _program(path: Path) -> bytes | None:
    try:
        source = path.read_bytes()
        return (
            source
            if path.suffix != ".ipynb"
            else read(source, path.name).text.encode("utf-8", "replace")
        )
    except OtherLanguage:
        return b""
    except (OSError, UnparsableFile):
        return None


@lru_cache(maxsize=1024)
def _in_source(source: bytes) -> MadeAxes:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return MadeAxes()
    return _File(tree).axes()


@dataclass(slots=True)
class _File:
    """One file that may make meshes."""

    tree: ast.Module
    constants: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)

    def axes(self) -> MadeAxes:
        self._read_names()
        names: set[str] = set()
        meshes: list[MeshAxes] = []
        closed = True
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.Call):
                continue
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            # partial(jax.pmap, …) as well
            if not any(_last_name(part) in _MAKERS for part in (node.func, *given)):
                continue
            for part in given:
                names |= self._texts(part)
            mesh = self._mesh(node) if _last_name(node.func) in _MESHES else None
            if mesh is not None:
                meshes.append(mesh)
            elif not self._is_named_in_full(node):
                closed = False
        return MadeAxes(
            frozenset(names),
            tuple(meshes),
            closed and not self._is_mentioned_elsewhere(),
        )

    def _read_names(self) -> None:
        assigned: dict[str, int] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and not node.level:
                self.imported.update(
                    {
                        one.asname or one.name: f"{node.module}.{one.name}"
                        for one in node.names
                    }
                )
            elif isinstance(node, ast.Import):
                for one in node.names:
                    name = one.asname or one.name.partition(".")[0]
                    self.imported[name] = one.name if one.asname else name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                assigned[node.id] = assigned.get(node.id, 0) + 1
        for statement in self.tree.body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name) and assigned[target.id] == 1:
                        self.constants[target.id] = statement.value

    def _texts(self, node: ast.expr) -> set[str]:
        """Every text in an argument, and in the module's constants that are named there."""
        names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
        named = [self.constants[name] for name in names if name in self.constants]
        parts = [one for whole in (node, *named) for one in ast.walk(whole)]
        return {
            one.value
            for one in parts
            if isinstance(one, ast.Constant) and isinstance(one.value, str)
        }

    def _mesh(self, call: ast.Call) -> MeshAxes | None:
        """The axes of a mesh that is made here; None where they are not written out."""
        if self._qualified(call.func) not in _QUALIFIED or any(
            isinstance(one, ast.Starred) for one in call.args
        ):
            return None
        given: dict[str, ast.expr] = dict(
            zip(("shape", "axis_names"), call.args, strict=False)
        )
        for keyword in call.keywords:
            given[
                "shape"
                if keyword.arg in ("axis_shapes", "axis_sizes")
                else keyword.arg or ""
            ] = keyword.value
        names = self._items(given.get("axis_names"))
        if names is None or not all(isinstance(name, str) for name in names):
            return None
        counts = (
            self._items(given.get("shape")) if _last_name(call.func) != "Mesh" else None
        )
        if counts is None or len(counts) != len(names):
            counts = [None] * len(names)
        return {
            str(name): n if type(n) is int and n > 0 else None
            for name, n in zip(names, counts, strict=True)
        }

    def _items(self, node: ast.expr | None) -> list[object] | None:
        """The items of a tuple or list that is written out, None for one that is no literal; a text is one item."""
        if isinstance(node, ast.Name):
            node = self.constants.get(node.id)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value]
        if not isinstance(node, (ast.Tuple, ast.List)):
            return None
        return [
            one.value if isinstance(one, ast.Constant) else None for one in node.elts
        ]

    def _is_named_in_full(self, call: ast.Call) -> bool:
        """Whether a call of ``pmap`` or ``vmap`` names its axis, if it does, by what is written out."""
        if _last_name(call.func) not in _MAKERS - _MESHES:
            return False
        axis = next(
            (keyword.value for keyword in call.keywords if keyword.arg == "axis_name"),
            None,
        )
        starred = any(keyword.arg is None for keyword in call.keywords)
        return not starred and (axis is None or self._items(axis) is not None)

    def _is_mentioned_elsewhere(self) -> bool:
        """Whether a function that makes meshes is used in another way than called: passed on, or named anew."""
        called = {
            id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)
        }
        inner = {
            id(node.value)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Attribute)
        }
        annotations = {
            id(part) for whole in _annotations(self.tree) for part in ast.walk(whole)
        }
        for node in ast.walk(self.tree):
            if (
                isinstance(node, (ast.Name, ast.Attribute))
                and self._qualified(node) in _QUALIFIED
            ):
                if id(node) not in called | inner | annotations:
                    return True
        return False

    def _qualified(self, node: ast.expr) -> str:
        """The dotted name of what is meant, by the imports of the file; '' where they do not tell."""
        if isinstance(node, ast.Name):
            return self.imported.get(node.id, "")
        inner = self._qualified(node.value) if isinstance(node, ast.Attribute) else ""
        return (
            f"{inner}.{node.attr}" if inner and isinstance(node, ast.Attribute) else ""
        )


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.AnnAssign, ast.arg)) and node.annotation is not None:
            yield node.annotation
        elif (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.returns is not None
        ):
            yield node.returns
        elif isinstance(node, ast.Call) and _last_name(node.func) == "isinstance":
            yield from node.args


def _last_name(node: ast.expr) -> str:
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )
