"""What mends a finding, where its message says how: changes of the text that is there.

A remedy is *safe* where JAX refuses the program as it is, and it is the only way to write what it says. Any other one
changes what the program computes into what the message proposes: it is applied when it is asked for.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import TypeAlias

from shardlint import decoding
from shardlint.edits import line_starts, tree_place
from shardlint.syntax import UnparsableFile, parse
from shardtypes.lang.diagnostics import Diagnostic, Edit, Fix, Place

_FIRST = re.compile(r"call lax\.(psum|pmean|pmax|pmin)\(…, '(\w+)'\) first")
_OF_THIS_VALUE = re.compile(
    r"with a lax\.(\w+) over '(\w+)' of this value, it (?:is the same|holds)"
)
_INSTEAD = re.compile(r"with lax\.(\w+) here, it |: use lax\.(\w+)$")
_WITHOUT = re.compile(r"with no lax\.\w+ here, it (?:is the same|holds)|: remove it$")
_MEANT = re.compile(r"did you mean '?(\w+)'?\?")
_TRANSPOSED = re.compile(r"transpose the (left operand|right operand|second)")
_SHAPES = re.compile(r"(?:contract|shapes) '([^']*)' (?:with|and) '([^']*)'")
_OTHER_AXIS = re.compile(r"; use axis=(-?\d+)")
_ELEMENTWISE = re.compile(r"use jnp\.(\w+) for the elementwise function")
_MOVED = re.compile(r"reshape from '([^']*)' to '([^']*)' does not move elements")
_ALONG = re.compile(r"along dimension (\d+) of .* which is sharded along (\d+): gather")
_EXPECTED = re.compile(r"expected (\w+\['[^']*'\]), got (\w+\['[^']*'\])")
_SPEC = re.compile(r"expected '([^']*)', got '[^']*' by ")
_FOLDED = re.compile(r"call jax\.random\.fold_in\(key, lax\.axis_index\('(\w+)'\)\)")
_REDUCTIONS = frozenset(
    {"all", "any", "max", "mean", "median", "min", "prod", "std", "sum", "var"}
)
_COLLECTIVES = frozenset({"pmax", "pmean", "pmin", "psum"})
_BOUND = re.compile(r"is not bound here \(bound axes: '(\w+)'\)")


class Text:
    """A file: its text, and the expressions in it by where they are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = line_starts(text)

    def has(self, place: Place) -> str:
        """What is written at a place."""
        start = self._starts[place.line - 1] + place.column - 1
        end = self._starts[place.end_line - 1] + place.end_column - 1
        return self._text[start:end]

    def at(self, place: Place) -> ast.expr | None:
        """The expression that is at a place, and nothing else."""
        return self._nodes.get(_in("", place))

    def around(self, node: ast.expr) -> ast.Call | None:
        """The call that an expression is an argument of."""
        parent = self._parents.get(node)
        if isinstance(parent, ast.keyword):
            parent = self._parents.get(parent)
        return parent if isinstance(parent, ast.Call) else None

    def is_a_statement(self, node: ast.expr) -> bool:
        """Whether an expression is a statement by itself."""
        return isinstance(self._parents.get(node), ast.Expr)

    def function_around(self, node: ast.AST) -> ast.FunctionDef | None:
        """The innermost function that something is in."""
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, ast.FunctionDef):
            parent = self._parents.get(parent)
        return parent

    def place(self, node: ast.expr) -> Place:
        """Where a node is."""
        return tree_place(node, self._lines, "")

    def operand(self, node: ast.expr) -> Place:
        """Where an operand is, with the parentheses around it."""
        place = self.place(node)
        start = self._starts[place.line - 1] + place.column - 1
        end = self._starts[place.end_line - 1] + place.end_column - 1
        while self._text[:start].endswith("(") and self._text[end:].startswith(")"):
            start, end = start - 1, end + 1
        return self._place(start, end)

    def _place(self, start: int, end: int) -> Place:
        """The place from one character to another."""
        first, last = bisect_right(self._starts, start), bisect_right(self._starts, end)
        column = start - self._starts[first - 1] + 1
        end_column = end - self._starts[last - 1] + 1
        return Place("", first, column, last, end_column)

    def written(self, node: ast.expr) -> str:
        """The text of a node."""
        return self.has(self.place(node))

    def name_of(self, module: str) -> str | None:
        """What a file calls a module of JAX, such as ``lax``; None where it does not import it."""
        for node in self._tree.body:
            if isinstance(node, ast.ImportFrom) and node.module == "jax":
                for alias in node.names:
                    if alias.name == module:
                        return alias.asname or alias.name
        for node in self._tree.body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == "jax":
                        return f"{alias.asname or 'jax'}.{module}"
        return None

    @cached_property
    def _tree(self) -> ast.Module:
        """Empty where this Python has no such syntax, which the linter may read all the same."""
        try:
            tree = parse(decoding.encoded(self._text), "")
        except UnparsableFile:
            return ast.Module([], [])
        return tree if isinstance(tree, ast.Module) else ast.Module([], [])

    @cached_property
    def _lines(self) -> list[bytes]:
        return [line.encode() for line in decoding.lines(self._text)]

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {
            child: node
            for node in ast.walk(self._tree)
            for child in ast.iter_child_nodes(node)
        }

    @cached_property
    def _nodes(self) -> dict[Place, ast.expr]:
        found: dict[Place, ast.expr] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.expr):
                found.setdefault(self.place(node), node)
        return found


_Edits: TypeAlias = "Iterator[tuple[Place, str]]"
_Remedy: TypeAlias = Callable[[Diagnostic, Text], _Edits]


def with_remedy(found: Diagnostic, data: bytes) -> Diagnostic:
    """A finding in a file with what mends it, if that is known."""
    remedies = _REMEDIES.get(found.code, ())
    if found.fix is not None or not remedies:
        return found
    source = _source(data)
    for title, is_safe, remedy in remedies:
        edits = tuple(
            Edit(_in(found.place.path, place), replacement)
            for place, replacement in remedy(found, source)
        )
        if edits:
            fix = Fix(title, "safe" if is_safe else "unsafe", edits)
            return replace(found, fix=fix)
    return found


@lru_cache(maxsize=4)
def _source(data: bytes) -> Text:
    """One for all findings of a file."""
    return Text(decoding.decoded(data))


def _in(path: str, place: Place) -> Place:
    return Place(path, place.line, place.column, place.end_line, place.end_column)


# --- collectives ----------------------------------------------------------------------------------------------------


def _reduced(found: Diagnostic, text: Text) -> _Edits:
    """``tanh(x @ w)`` becomes ``tanh(lax.psum(x @ w, 't'))``"""
    first = _FIRST.search(found.message)
    said = first or _OF_THIS_VALUE.search(found.message)
    lax = text.name_of("lax")
    node = text.at(found.place)
    if said is None or lax is None or node is None:
        return
    if first is not None and found.code in ("ST316", "ST319"):
        # these stand at the function that is applied, the others at what it is applied to
        if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
            return
        node = node.args[0]
    name, axis = said.groups()
    yield text.place(node), f"{lax}.{name}({text.written(node)}, {axis!r})"


def _other_collective(found: Diagnostic, text: Text) -> _Edits:
    """``lax.psum(x, 'd')`` becomes ``lax.pmean(x, 'd')``"""
    said = _INSTEAD.search(found.message)
    node = text.at(found.place)
    if said is None or not isinstance(node, ast.Call):
        return
    lax = text.name_of("lax")
    if lax is not None and _last(node.func) in _COLLECTIVES:
        yield text.place(node.func), f"{lax}.{said[1] or said[2]}"


def _no_collective(found: Diagnostic, text: Text) -> _Edits:
    """``lax.psum(x, 'd')`` becomes ``x``"""
    if _WITHOUT.search(found.message) is None:
        return
    node = text.at(found.place)
    call = node if isinstance(node, ast.Call) and found.code == "ST316" else None
    if call is None and node is not None:
        call = text.around(node)
    if call is None or not call.args or _last(call.func) not in _COLLECTIVES:
        return
    # of several axes one may be needed, unless the numbers tell otherwise
    is_over_one = len(call.args) > 1 and isinstance(call.args[1], ast.Constant)
    if is_over_one or found.code == "ST316":
        yield text.place(call), _enclosed(call.args[0], text)


def _own_keys(found: Diagnostic, text: Text) -> _Edits:
    """The key of ``normal(key, …)`` is folded with the number of the device."""
    said = _FOLDED.search(found.message)
    node = text.at(found.place)
    lax = text.name_of("lax")
    random = text.name_of("random")
    if said is None or not isinstance(node, ast.Call) or not node.args:
        return
    if lax is not None and random is not None:
        key = text.written(node.args[0])
        folded = f"{random}.fold_in({key}, {lax}.axis_index({said[1]!r}))"
        yield text.place(node.args[0]), folded


def _gathered_dimension(found: Diagnostic, text: Text) -> _Edits:
    """``all_gather(x, 't', axis=0)`` gathers the dimension that is sharded."""
    said = _ALONG.search(found.message)
    node = text.at(found.place)
    call = None if node is None else text.around(node)
    if said is None or call is None:
        return
    for keyword in call.keywords:
        if keyword.arg == "axis" and text.written(keyword.value) == said[1]:
            yield text.place(keyword.value), said[2]


def _bound_axis(found: Diagnostic, text: Text) -> _Edits:
    """The only mesh axis that is bound there, for one that is not."""
    said = _BOUND.search(found.message)
    node = text.at(found.place)
    if said is not None and isinstance(node, ast.Constant):
        yield found.place, repr(said[1])


def _spec(found: Diagnostic, text: Text) -> _Edits:
    """``P(None, 'd')`` becomes what the annotation says."""
    said = _SPEC.search(found.message)
    node = text.at(found.place)
    if said is None or not isinstance(node, ast.Call):
        return
    entries: list[str] = []
    for dim in said[1].split():
        _, *axes = dim.split("/")
        named = ", ".join(map(repr, axes))
        entries.append(f"({named})" if len(axes) > 1 else named or "None")
    while entries and entries[-1] == "None":
        entries.pop()
    yield found.place, f"{text.written(node.func)}({', '.join(entries)})"


# --- shapes ---------------------------------------------------------------------------------------------------------


def _transposed(found: Diagnostic, text: Text) -> _Edits:
    """``x @ w`` becomes ``x @ w.T``"""
    said = _TRANSPOSED.search(found.message)
    node = text.at(found.place)
    if said is None or not isinstance(node, ast.BinOp):
        return
    shapes = _SHAPES.search(found.message)
    if shapes is None:
        return
    is_left = said[1] == "left operand"
    operand = node.left if is_left else node.right
    shape = shapes[1] if is_left else shapes[2]
    member = "T" if len(shape.split()) == 2 else "mT"
    yield text.operand(operand), f"{_enclosed(operand, text)}.{member}"


def _swapped(found: Diagnostic, text: Text) -> _Edits:
    """``x @ w`` becomes ``w @ x``"""
    node = text.at(found.place)
    if "swap the operands" in found.message and isinstance(node, ast.BinOp):
        left, right = node.left, node.right
        yield text.operand(left), _enclosed(right, text)
        yield text.operand(right), _enclosed(left, text)


def _kept_dimension(found: Diagnostic, text: Text) -> _Edits:
    """``x - x.mean(-1)`` becomes ``x - x.mean(-1, keepdims=True)``, and ``x * s`` becomes ``x * s[..., None]``"""
    shapes = _SHAPES.search(found.message)
    node = text.at(found.place)
    if shapes is None or "keepdims=True" not in found.message:
        return
    if not isinstance(node, ast.BinOp):
        return
    first, second = shapes.groups()
    is_left = len(first.split()) < len(second.split())
    operand = node.left if is_left else node.right
    if isinstance(operand, ast.Call) and _last(operand.func) in _REDUCTIONS:
        last = _last_argument(operand)
        if last is not None:
            yield _behind(text.place(last)), ", keepdims=True"
    elif "[..., None]" in found.message:
        yield text.operand(operand), f"{_enclosed(operand, text)}[..., None]"


def _last_argument(call: ast.Call) -> ast.expr | None:
    """What a keyword can be written behind; None where the call says already what becomes of the dimension."""
    if any(keyword.arg in ("keepdims", None) for keyword in call.keywords):
        return None
    if call.keywords:
        return call.keywords[-1].value
    return call.args[-1] if call.args else None


def _behind(place: Place) -> Place:
    line, column = place.end_line, place.end_column
    return Place("", line, column, line, column)


def _last(func: ast.expr) -> str:
    """The name of a function, without that of its module."""
    if isinstance(func, ast.Name):
        return func.id
    return func.attr if isinstance(func, ast.Attribute) else ""


def _enclosed(operand: ast.expr, text: Text) -> str:
    """An operand as something can stand behind it."""
    written = text.written(operand)
    is_plain = isinstance(operand, (ast.Name, ast.Call, ast.Attribute, ast.Subscript))
    return written if is_plain else f"({written})"


def _other_axis(found: Diagnostic, text: Text) -> _Edits:
    """The axis along which the arrays fit."""
    said = _OTHER_AXIS.search(found.message)
    node = text.at(found.place)
    if said is None or not isinstance(node, ast.Call):
        return
    given = [one.value for one in node.keywords if one.arg == "axis"]
    for axis in given or node.args[1:2]:
        if isinstance(axis, (ast.Constant, ast.UnaryOp)):
            yield text.place(axis), said[1]


def _elementwise(found: Diagnostic, text: Text) -> _Edits:
    """``jnp.min(x, y)`` becomes ``jnp.minimum(x, y)``"""
    said = _ELEMENTWISE.search(found.message)
    node = text.at(found.place)
    call = None if node is None else text.around(node)
    if said is None or call is None or not isinstance(call.func, ast.Attribute):
        return
    if len(call.args) == 2:
        yield text.place(call.func), f"{text.written(call.func.value)}.{said[1]}"


def _as_a_tuple(found: Diagnostic, text: Text) -> _Edits:
    """``axis=[0, 1]`` becomes ``axis=(0, 1)``"""
    node = text.at(found.place)
    if isinstance(node, ast.List) and node.elts:
        items = ", ".join(text.written(one) for one in node.elts)
        yield found.place, f"({items},)" if len(node.elts) == 1 else f"({items})"


def _numbers_as_a_tuple(found: Diagnostic, text: Text) -> _Edits:
    """``jnp.transpose(x, 1, 0)`` becomes ``jnp.transpose(x, (1, 0))``"""
    node = text.at(found.place)
    if "several numbers are one argument, a tuple" not in found.message:
        return
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) < 3:
        return
    first, last = text.place(node.args[1]), text.place(node.args[-1])
    numbers = ", ".join(text.written(one) for one in node.args[1:])
    span = Place("", first.line, first.column, last.end_line, last.end_column)
    yield span, f"({numbers})"


def _assigned(found: Diagnostic, text: Text) -> _Edits:
    """``x.at[0].set(1)`` becomes ``x = x.at[0].set(1)``"""
    node = text.at(found.place)
    if not isinstance(node, ast.Call) or not text.is_a_statement(node):
        return
    base: ast.expr = node.func
    while isinstance(base, (ast.Attribute, ast.Subscript)):
        if isinstance(base, ast.Attribute) and base.attr == "at":
            if isinstance(base.value, (ast.Name, ast.Attribute)):
                yield found.place, f"{text.written(base.value)} = {text.written(node)}"
            return
        base = base.value


def _moved(found: Diagnostic, text: Text) -> _Edits:
    """``x.reshape(b, h, l, d)`` becomes ``x.transpose(0, 2, 1, 3)``"""
    said = _MOVED.search(found.message)
    node = text.at(found.place)
    if said is None or not isinstance(node, ast.Call):
        return
    before, after = said[1].split(), said[2].split()
    method = node.func
    if sorted(before) != sorted(after) or len(set(before)) < len(before):
        return
    if isinstance(method, ast.Attribute) and method.attr == "reshape":
        order = ", ".join(str(before.index(name)) for name in after)
        yield found.place, f"{text.written(method.value)}.transpose({order})"


# --- names and annotations ------------------------------------------------------------------------------------------


def _meant(found: Diagnostic, text: Text) -> _Edits:
    """The name that is meant."""
    said = _MEANT.search(found.message)
    if said is None:
        return
    written = text.has(found.place)
    wrong = re.findall(r"'(\w+)'", found.message[: said.start()])
    if wrong and len(re.findall(rf"\b{wrong[-1]}\b", written)) == 1:
        yield found.place, re.sub(rf"\b{wrong[-1]}\b", said[1], written)


def _annotated(found: Diagnostic, text: Text) -> _Edits:
    """The annotation of a result says what is returned."""
    said = _EXPECTED.search(found.message)
    node = text.at(found.place)
    if said is None or node is None or not found.message.startswith("result of "):
        return
    function = text.function_around(node)
    declared = None if function is None else function.returns
    if not isinstance(declared, ast.Subscript):
        return
    expected, got = said.groups()
    is_plain = ast.unparse(declared) == expected
    if is_plain and "_" not in got and "(" not in got:
        dtype, _, shape = got.partition("[")
        if dtype == text.written(declared.value):
            yield text.place(declared.slice), shape[:-1]


def _exchanged(found: Diagnostic, text: Text) -> _Edits:
    """``('mlp', 'embed')`` becomes ``('embed', 'mlp')``"""
    names = re.findall(r"'\w+'", text.has(found.place))
    written = ", ".join(names)
    if "exchange its names" in found.message and len(names) == 2:
        if text.has(found.place) == written:
            yield found.place, ", ".join(reversed(names))


_REMEDIES: dict[str, Sequence[tuple[str, bool, _Remedy]]] = {
    "ST105": [("the dimension that is meant", False, _meant)],
    "ST201": [("annotate what is returned", False, _annotated)],
    "ST204": [
        ("transpose the operand", False, _transposed),
        ("swap the operands", False, _swapped),
        ("keep the dimension", False, _kept_dimension),
    ],
    "ST207": [("transpose in place of reshape", False, _moved)],
    "ST209": [("the axis along which they fit", False, _other_axis)],
    "ST213": [
        ("the function of two arrays", False, _elementwise),
        ("axes as a tuple", True, _as_a_tuple),
    ],
    "ST216": [("assign the new array", False, _assigned)],
    "ST220": [("numbers as a tuple", True, _numbers_as_a_tuple)],
    "ST301": [("sum over the devices first", False, _reduced)],
    "ST303": [("take the reduction away", False, _no_collective)],
    "ST304": [
        ("the dimension that is sharded", False, _gathered_dimension),
        ("the other reduction", False, _other_collective),
    ],
    "ST305": [("the axis that is bound", False, _bound_axis)],
    "ST308": [("the spec of the annotation", False, _spec)],
    "ST315": [("sum over the devices", False, _reduced)],
    "ST316": [
        ("reduce it over the devices", False, _reduced),
        ("the other reduction", False, _other_collective),
        ("take the reduction away", False, _no_collective),
    ],
    "ST318": [("a key for each device", False, _own_keys)],
    "ST319": [
        ("reduce it over the devices", False, _reduced),
        ("the other reduction", False, _other_collective),
    ],
    "ST401": [("the name that is meant", False, _meant)],
    "ST403": [("exchange the names", False, _exchanged)],
    "ST903": [("the code that is meant", False, _meant)],
}
