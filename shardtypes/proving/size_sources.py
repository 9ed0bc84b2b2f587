"""Where a program's sources read the size of a mesh, by the names that they give it: ``n = mesh.shape["d"]``."""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_DEEPEST = 6
"""Names that stand for names that stand for names."""
_COUNTS = frozenset({"device_count", "local_device_count"})
_DEVICES = frozenset({"devices", "local_devices"})
_MESH_TYPES = frozenset({"Mesh", "AbstractMesh"})
_MESHES = _MESH_TYPES | {
    "make_mesh",
    "get_mesh",
    "get_abstract_mesh",
    "get_concrete_mesh",
}
_UNREAD = ast.Constant(None)


@dataclass(frozen=True)
class Source:
    """What is read: the size of one mesh axis, or with None of all of them. ``divides``: what is kept is something
    else, divided by it."""

    axis: str | None
    divides: bool = False


@dataclass
class _Names:
    """The expressions that stand for each name in some files, and what parameters of that name are annotated as."""

    given: dict[str, list[ast.expr]] = field(default_factory=dict)
    annotated: dict[str, list[ast.expr]] = field(default_factory=dict)

    def add(self, name: str, value: ast.expr) -> None:
        self.given.setdefault(name, []).append(value)


def sources(files: Iterable[str]) -> Mapping[str, Source]:
    """By name, of those that stand for nothing else in these files, but for constants as defaults have them."""
    names = _Names()
    for file in sorted(files):
        found_here = _names_of(file, _text(file))
        for name, values in found_here.given.items():
            names.given.setdefault(name, []).extend(values)
        for name, values in found_here.annotated.items():
            names.annotated.setdefault(name, []).extend(values)
    reader = _Reader(names)
    found = {name: reader.of_name(name, 0) for name in names.given}
    return {name: source for name, source in found.items() if source is not None}


def _text(file: str) -> str:
    return "".join(linecache.getlines(file))


@functools.lru_cache(maxsize=512)
def _names_of(file: str, text: str) -> _Names:
    names = _Names()
    try:
        tree = ast.parse(text, file)
    except SyntaxError:  # of a notebook's cell, with commands of its own
        return names
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    _assigned(names, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                _assigned(names, target, value)
            case ast.NamedExpr(target=target, value=value):
                _assigned(names, target, value)
            case ast.AugAssign(target=target) | ast.For(target=target):
                _assigned(names, target, _UNREAD)
            case ast.comprehension(target=target):
                _assigned(names, target, _UNREAD)
            case ast.keyword(arg=str() as name, value=value):
                names.add(name, value)
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                names.annotated.setdefault(name, []).append(annotation)
    return names


def _assigned(names: _Names, target: ast.expr, value: ast.expr) -> None:
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            names.add(name, value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(targets):
                values = value.elts
            else:
                values = [_UNREAD] * len(targets)
            for part, its_value in zip(targets, values, strict=True):
                _assigned(names, part, its_value)


@dataclass(frozen=True)
class _Reader:
    names: _Names

    def of_name(self, name: str, depth: int) -> Source | None:
        """What every value of a name is, but for constants."""
        found = set()
        for value in self.names.given.get(name, ()):
            is_default = isinstance(value, ast.Constant) and value is not _UNREAD
            if not is_default:
                found.add(self.of(value, depth + 1))
        if len(found) == 1:
            return found.pop()
        return None

    def of(self, value: ast.expr, depth: int) -> Source | None:
        """What an expression reads."""
        if depth > _DEEPEST:
            return None
        match value:
            case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
                return self._axis(index, depth)
            case ast.Call(
                func=ast.Attribute(attr="get", value=ast.Attribute(attr="shape")),
                args=[index, *_],
            ):
                return self._axis(index, depth)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[]):
                if name in _COUNTS:
                    return Source(None)
            case ast.Call(func=ast.Name(id="len"), args=[devices]):
                if self._are_devices(devices, depth):
                    return Source(None)
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self.of(inner, depth + 1)
            case ast.Attribute(attr="size", value=ast.Attribute(attr="devices")):
                return Source(None)
            case ast.Attribute(attr="size", value=mesh) if self._is_mesh(mesh, depth):
                return Source(None)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return self.of_name(name, depth + 1)
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Div(), right=right):
                return self._quotient(left, right, depth)
        return None

    def _quotient(self, left: ast.expr, right: ast.expr, depth: int) -> Source | None:
        divisor = self.of(right, depth + 1)
        if divisor is None or divisor.divides:
            return None
        if self.of(left, depth + 1) is not None:
            return None
        return Source(divisor.axis, divides=True)

    def _axis(self, index: ast.expr, depth: int) -> Source | None:
        """The size of the axis of this name; an index that is no name is into the shape of an array."""
        name = self._text(index, depth)
        if name is None:
            return None
        return Source(name)

    def _text(self, value: ast.expr, depth: int) -> str | None:
        if depth > _DEEPEST:
            return None
        match value:
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name) | ast.Attribute(attr=name):
                given = self.names.given.get(name, [])
                texts = {self._text(one, depth + 1) for one in given}
                if len(texts) == 1:
                    return texts.pop()
        return None

    def _is_mesh(self, value: ast.expr, depth: int) -> bool:
        """Whether it certainly is a mesh: made as one, or a parameter that is annotated as one."""
        if depth > _DEEPEST:
            return False
        match value:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
                return name in _MESHES
            case ast.Name(id=name) | ast.Attribute(attr=name):
                given = self.names.given.get(name, [])
                annotations = self.names.annotated.get(name, [])
                # self.mesh = mesh says nothing that the parameter does not
                others = [one for one in given if _last_name(one) != name]
                made = all(self._is_mesh(one, depth + 1) for one in others)
                annotated = all(_last_name(one) in _MESH_TYPES for one in annotations)
                return bool(others or annotations) and made and annotated
        return False

    def _are_devices(self, value: ast.expr, depth: int) -> bool:
        if depth > _DEEPEST:
            return False
        match value:
            case ast.Call(func=ast.Attribute(attr=name), args=[]):
                return name in _DEVICES
            case ast.Name(id=name):
                given = self.names.given.get(name, [])
                found = [self._are_devices(one, depth + 1) for one in given]
                return bool(found) and all(found)
        return False


def _last_name(value: ast.expr) -> str | None:
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Constant(value=str() as text):
            return text.rpartition(".")[2]
    return None
