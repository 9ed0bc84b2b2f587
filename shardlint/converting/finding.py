"""The annotations of arrays in a file, in all three forms, and what else is made of the names that they use."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from shardlint import messages
from shardlint.converting.names import (
    ANNOTATED,
    ARRAYS,
    STACKED,
    Names,
    bound_in,
    dtype_of,
)
from shardlint.converting.texts import Refused, Spans, expression

#: Functions that take types as values.
_OF_TYPES = frozenset(
    ("NamedTuple", "NewType", "TypeVar", "TypedDict", "assert_type", "cast")
)


@dataclass(frozen=True)
class Annotation:
    """An annotation of one array: the whole ``node``, its ``form`` and its parts, with their places. ``array`` is None
    in the short form; ``inner`` is the subscript of the dtype."""

    form: str
    node: ast.Subscript
    inner: ast.Subscript
    dtype: ast.Name | ast.Attribute
    means: str
    array: ast.expr | None
    shape: ast.expr
    spans: Spans


@dataclass(frozen=True)
class Use:
    """A use of a ``name`` that is no annotation of an array, and what it ``means`` there."""

    name: str
    means: str
    start: int


class Finder(ast.NodeVisitor):
    """Goes through a file. ``used`` counts how often each name occurs; ``refused`` is what cannot be converted."""

    def __init__(self, names: Names, spans: Spans, form: str) -> None:
        self.found: list[Annotation] = []
        self.uses: list[Use] = []
        self.used: Counter[str] = Counter()
        self.aliases: set[str] = set()
        self.loaded: dict[str, int] = {}
        self.with_metadata: list[int] = []
        self.refused: list[Refused] = []
        self.strings: list[str] = []
        self.names = names
        self._spans = spans
        self._form = form
        self._seen: set[str] = set()  # by functions, what is around
        self._hidden: set[str] = set()

    # --- scopes -----------------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._within(node, [node.body])

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._bounds(node)
        self.visit(node.args)
        if node.returns is not None:
            self._annotation(node.returns)
        self._within(node, _without_docstring(node.body))

    def visit_arg(self, node: ast.arg) -> None:
        if node.annotation is not None:
            self._annotation(node.annotation)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self.visit(decorator)
        self._bounds(node)
        for base in node.bases:
            self._annotation(base)
        for keyword in node.keywords:
            self.visit(keyword)
        self._within(node, _without_docstring(node.body), is_class=True)

    def _bounds(self, node: ast.stmt) -> None:
        """Those of type variables, ``def f[T: f32["B"]]``, in newer Pythons."""
        for one in getattr(node, "type_params", ()):
            bound = getattr(one, "bound", None)
            if bound is not None:
                self._annotation(bound)

    def visit_Module(self, node: ast.Module) -> None:
        for one in _without_docstring(node.body):
            self.visit(one)

    def _within(
        self, scope: ast.AST, body: Sequence[ast.AST], is_class: bool = False
    ) -> None:
        before = self._seen, self._hidden
        bound = bound_in(scope)
        # functions do not see what the class around them binds
        self._hidden = self._seen | bound
        if not is_class:
            self._seen = self._hidden
        for one in body:
            self.visit(one)
        self._seen, self._hidden = before

    # --- statements with types --------------------------------------------------------------------------------------

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        if node.value is None:
            return
        name = _last_name(node.annotation)
        if name == "TypeAlias":
            self._alias(node.target, node.value)
        else:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = node.value
        is_name = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
        if is_name and isinstance(value, (ast.Subscript, ast.BinOp)):
            self._alias(node.targets[0], value)
            return
        self.generic_visit(node)

    def visit_TypeAlias(self, node: ast.stmt) -> None:
        """``type X = …`` of newer Pythons."""
        parts = vars(node)
        self._alias(parts["name"], parts["value"])

    def _alias(self, target: ast.expr, value: ast.expr) -> None:
        before = len(self.found)
        self._annotation(value)
        if isinstance(target, ast.Name) and len(self.found) > before:
            self.aliases.add(target.id)

    def visit_Call(self, node: ast.Call) -> None:
        if _last_name(node.func) not in _OF_TYPES:
            self.generic_visit(node)
            return
        self.visit(node.func)
        for argument in node.args:
            self._annotation(argument)
        for keyword in node.keywords:
            self._annotation(keyword.value)

    # --- annotations ------------------------------------------------------------------------------------------------

    def _annotation(self, node: ast.expr) -> None:
        match node:
            case ast.Constant(value=str()):
                self._quoted(node)
            case ast.Subscript():
                self._subscript(node)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                self._annotation(left)
                self._annotation(right)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                for one in items:
                    self._annotation(one)
            case ast.Starred(value=value):
                self._annotation(value)
            case ast.Dict(values=values):
                for one in values:
                    self._annotation(one)
            case ast.Name(id=name) if self._means(node) is None:
                self.used[name] += 1
            case _:
                self.visit(node)

    def _subscript(self, node: ast.Subscript) -> None:
        means = self._means(node.value)
        found = self._recognized(node)
        if found is not None:
            self._add(found)
        elif means in STACKED or _last_name(node.value) == "Literal":
            self._count(node)
        elif means in ANNOTATED and isinstance(node.slice, ast.Tuple):
            self._metadata(node, node.slice.elts)
        else:
            self._require_known(node)
            self.visit(node.value)
            self._annotation(node.slice)

    def _require_known(self, node: ast.Subscript) -> None:
        """What seems to be a dtype is one that the top level of the file imports by its name."""
        name = _last_name(node.value)
        if not isinstance(node.value, ast.Name) or name not in self.names.unnamed:
            return
        array, _ = _parts(node.slice)
        form = "short" if array is None else "array"
        if form == self._form:
            return
        start, _ = self._spans.of(node)
        self.refused.append(Refused(start, messages.not_imported_by_name(name)))

    def _add(self, found: Annotation) -> None:
        self.found.append(found)
        self._count(found.node)
        name = _first_name(found.dtype)
        if name in self.names.conflicting and found.form != self._form:
            start, _ = found.spans.of(found.node)
            self.refused.append(Refused(start, messages.bound_twice(name)))

    def _metadata(self, node: ast.Subscript, items: Sequence[ast.expr]) -> None:
        """``Annotated`` that says something else, or more."""
        self.visit(node.value)
        first, *rest = items
        arrays = [one for one in rest if self._is_short(one)]
        if self._means(first) in ARRAYS and arrays:
            start, _ = self._spans.of(node)
            self.with_metadata.append(start)
            self._count(node.slice)
            return
        self._annotation(first)
        for one in rest:
            self.visit(one)

    def _is_short(self, node: ast.expr) -> bool:
        found = self._recognized(node) if isinstance(node, ast.Subscript) else None
        return found is not None and found.form == "short"

    def _recognized(self, node: ast.Subscript) -> Annotation | None:
        means = self._means(node.value)
        if means is None:
            return None
        if means in ANNOTATED:
            return self._of_annotated(node)
        if dtype_of(means) is None:
            return None
        assert isinstance(node.value, (ast.Name, ast.Attribute))
        array, shape = _parts(node.slice)
        if array is not None and self._means(array) not in ARRAYS:
            return None
        if not isinstance(shape, ast.Constant) or not isinstance(
            shape.value, (str, bytes)
        ):
            return None
        form = "short" if array is None else "array"
        return Annotation(
            form, node, node, node.value, means, array, shape, self._spans
        )

    def _of_annotated(self, node: ast.Subscript) -> Annotation | None:
        """``Annotated`` of an array, with nothing but its dtype and shape."""
        match node.slice:
            case ast.Tuple(elts=[array, ast.Subscript() as inner]):
                if self._means(array) not in ARRAYS:
                    return None
                found = self._recognized(inner)
            case _:
                return None
        if found is None or found.form != "short":
            return None
        return Annotation(
            "annotated",
            node,
            inner,
            found.dtype,
            found.means,
            array,
            found.shape,
            self._spans,
        )

    def _quoted(self, node: ast.Constant) -> None:
        read = self._spans.quoted(node)
        if read is None:
            self._unread(node)
            return
        tree, spans = read
        outer = self._spans
        self._spans = spans
        self._annotation(tree)
        self._spans = outer

    def _unread(self, node: ast.Constant) -> None:
        """A string that is put together, or has escapes: to be refused where there is something to convert in it."""
        text = str(node.value)
        self.strings.append(text)
        tree = expression(text)
        if tree is None:
            return
        inner = [one for one in ast.walk(tree) if isinstance(one, ast.Subscript)]
        known = list(filter(None, map(self._recognized, inner)))
        if any(one.form != self._form for one in known):
            start, _ = self._spans.of(node)
            self.refused.append(Refused(start, messages.not_a_plain_string()))

    # --- names ------------------------------------------------------------------------------------------------------

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.strings.append(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self.used[node.id] += 1
        start, _ = self._spans.of(node)
        if isinstance(node.ctx, ast.Load):
            self.loaded.setdefault(node.id, start)
            self._use(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._use(node)
        self.visit(node.value)

    def _use(self, node: ast.Name | ast.Attribute) -> None:
        means = self._means(node)
        if means is not None:
            start, _ = self._spans.of(node)
            self.uses.append(Use(_first_name(node), means, start))

    def _count(self, node: ast.expr) -> None:
        """The names in what is an annotation, or stays as it is."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                self.used[one.id] += 1

    def _means(self, node: ast.expr) -> str | None:
        return self.names.meaning(node, self._hidden)


def _parts(node: ast.expr) -> tuple[ast.expr | None, ast.expr]:
    """The array, if one is named, and the shape."""
    match node:
        case ast.Tuple(elts=[array, shape]):
            return array, shape
        case ast.Tuple(elts=[shape]):
            return None, shape
        case _:
            return None, node


def _without_docstring(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *_]:
            return body[1:]
        case _:
            return body


def _first_name(node: ast.Name | ast.Attribute) -> str:
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    assert isinstance(inner, ast.Name)
    return inner.id


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
