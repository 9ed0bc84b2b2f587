"""What is known of an expression's value: from how it is written, from its type, and from where its names come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mypy.nodes import (
    CallExpr,
    ComparisonExpr,
    Expression,
    FuncItem,
    IndexExpr,
    IntExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    RefExpr,
    SliceExpr,
    StarExpr,
    TupleExpr,
    UnaryExpr,
    Var,
)
from mypy.plugin import CheckerPluginInterface
from mypy.types import (
    Instance,
    LiteralType,
    NoneType,
    ProperType,
    TupleType,
    Type,
    UnionType,
    get_proper_type,
)

from shardlint import values as av
from shardlint.mypy_plugin.forms import read_array
from shardlint.mypy_plugin.scopes import enclosing_functions, known_sizes
from shardlint.mypy_plugin.values import array_value, value_of_type, written_value
from shardlint.mypy_plugin.variables import Variables
from shardtypes.lang import Size

_DEEPEST = 20
_Sizes = tuple[Size | None, ...]


class Reader:
    """Reads expressions of the function that is being checked."""

    def __init__(self, api: CheckerPluginInterface, variables: Variables) -> None:
        self._api = api
        self.known = known_sizes(api).names
        self._functions: list[FuncItem] = enclosing_functions(api)
        self._variables = variables
        self._bindings = variables.bindings
        self._above = False
        # TypeChecker has it, the plugin interface does not say so
        self._lookup: Callable[[Expression], Type | None] = getattr(
            api, "lookup_type_or_none", lambda node: None
        )

    def value(self, node: Expression | None, typ: Type) -> av.Value:
        """The value of an expression of this type; something unknown where nothing is known."""
        typ = self._variables.value_type(self._api, node, self._whole(node, typ))
        written = written_value(node) if node is not None else None
        if written is not None:
            return written
        proper = get_proper_type(typ)
        form = read_array(proper)
        if form is not None:
            return array_value(form, self.known)
        if node is not None:
            read = self._read(node, proper)
            if read is not None:
                return read
            if isinstance(proper, Instance) and not self._is_worked_out(node):
                return av.Unknown("what an operator makes of a value of unknown type")
        return value_of_type(proper, self.known)

    def _is_worked_out(self, node: Expression, depth: int = 0) -> bool:
        """Whether an expression's type comes from types that mypy knows.

        Where it does not know an operand's (its annotation is wrong, say), ``operand > 0`` still is a ``bool`` to it,
        by what the number on the other side can do.
        """
        if depth > _DEEPEST:
            return False
        known = (Instance, LiteralType, TupleType, UnionType, NoneType)
        if isinstance(node, NameExpr) and isinstance(node.node, Var):
            if not node.node.is_inferred:
                return isinstance(get_proper_type(node.node.type), known)
            bound = self._bindings.find(node.node, self._functions)
            return (
                bound is None
                or bound.item is not None
                or self._is_worked_out(bound.value, depth + 1)
            )
        operands: list[Expression] = []
        if isinstance(node, OpExpr):
            operands = [node.left, node.right]
        elif isinstance(node, ComparisonExpr):
            operands = node.operands
        elif isinstance(node, UnaryExpr):
            operands = [node.expr]
        return all(
            isinstance(get_proper_type(self._lookup(operand)), known)
            and self._is_worked_out(operand, depth + 1)
            for operand in operands
        )

    def _read(self, node: Expression, typ: ProperType) -> av.Value | None:
        """An expression that is no array and no constant."""
        if isinstance(node, (ListExpr, TupleExpr)) and not any(
            isinstance(item, StarExpr) for item in node.items
        ):
            kind = "list" if isinstance(node, ListExpr) else "tuple"
            return av.SequenceValue(
                tuple(self._item(item) for item in node.items), kind
            )
        if isinstance(node, SliceExpr):
            return av.SliceValue(
                *(
                    self._bound(part)
                    for part in (node.begin_index, node.end_index, node.stride)
                )
            )
        if isinstance(node, MemberExpr) and node.name == "dtype":
            form = self._array(node.expr)
            return (
                av.DTypeValue(form.dtype)
                if form is not None and form.dtype is not None
                else None
            )
        if isinstance(typ, Instance) and typ.type.fullname == "builtins.int":
            size = self.size(node)
            return av.IntValue(size) if size is not None else None
        sizes = (
            self.sizes(node)
            if isinstance(typ, (TupleType, Instance)) and _is_tuple(typ)
            else None
        )
        return (
            av.SequenceValue(tuple(av.IntValue(size) for size in sizes))
            if sizes is not None
            else None
        )

    def _item(self, node: Expression) -> av.Value:
        typ = self._lookup(node)
        return (
            self.value(node, typ)
            if typ is not None
            else av.Unknown("an expression of unknown type")
        )

    def _bound(self, node: Expression | None) -> av.Value:
        if node is None:
            return av.Literal(None)
        return written_value(node) or av.IntValue(self.size(node))

    def _whole(self, node: Expression | None, typ: Type) -> Type:
        """mypy tries an operator on each member of a union; which of several arrays it is, is not known."""
        whole = get_proper_type(self._lookup(node)) if node is not None else None
        if not isinstance(whole, UnionType):
            return typ
        return (
            typ
            if sum(read_array(item) is not None for item in whole.items) == 1
            else whole
        )

    def _type(self, node: Expression) -> Type | None:
        typ = self._lookup(node)
        if typ is None:
            return None
        if self._above:
            return self._variables.type_then(self._api, node, typ)
        return self._variables.value_type(self._api, node, typ)

    @contextmanager
    def _where_it_was_bound(self) -> Iterator[None]:
        """Read the value of a name: an expression further up, where variables may have had other values."""
        before, self._above = self._above, True
        try:
            yield
        finally:
            self._above = before

    def _array(self, node: Expression) -> av.ArrayValue | None:
        typ = self._type(node)
        form = read_array(typ) if typ is not None else None
        return array_value(form, self.known) if form is not None else None

    def _shape(self, node: Expression) -> _Sizes | None:
        """The sizes of the array that an expression is."""
        array = self._array(node)
        return (
            None
            if array is None or array.dims is None
            else tuple(dim.size for dim in array.dims)
        )

    def size(self, node: Expression, depth: int = 0) -> Size | None:
        """The integer that an expression is: ``x.shape[0] * 2``, ``len(x)``, or a name for one."""
        if depth > _DEEPEST:
            return None
        if isinstance(node, IntExpr):
            return Size.const(node.value)
        if isinstance(node, UnaryExpr) and node.op == "-":
            inner = self.size(node.expr, depth + 1)
            return -inner if inner is not None else None
        if isinstance(node, OpExpr):
            return self._arithmetic(node, depth)
        if isinstance(node, IndexExpr):
            sizes, index = (
                self.sizes(node.base, depth + 1),
                self.size(node.index, depth + 1),
            )
            position = index.constant if index is not None else None
            if (
                sizes is None
                or position is None
                or not -len(sizes) <= position < len(sizes)
            ):
                return None
            return sizes[position]
        if isinstance(node, MemberExpr) and node.name in ("ndim", "size"):
            return self._count(node)
        if isinstance(node, CallExpr):
            return self._length(node)
        if isinstance(node, NameExpr):
            return self._named_size(node, depth)
        return self._constant(node)

    def _arithmetic(self, node: OpExpr, depth: int) -> Size | None:
        if node.op not in ("+", "-", "*", "//", "%"):
            return None
        left, right = self.size(node.left, depth + 1), self.size(node.right, depth + 1)
        if left is None or right is None:
            return None
        if node.op in ("//", "%"):
            if right.constant == 0:
                return None
            return left // right if node.op == "//" else left % right
        return (
            left + right
            if node.op == "+"
            else left - right
            if node.op == "-"
            else left * right
        )

    def _count(self, node: MemberExpr) -> Size | None:
        shape = self._shape(node.expr)
        if shape is None:
            return None
        if node.name == "ndim":
            return Size.const(len(shape))
        total = Size.const(1)
        for size in shape:
            if size is None:
                return None
            total = total * size
        return total

    def _length(self, node: CallExpr) -> Size | None:
        if not (
            isinstance(node.callee, RefExpr)
            and node.callee.fullname == "builtins.len"
            and len(node.args) == 1
        ):
            return None
        shape = self._shape(node.args[0])
        return shape[0] if shape else None

    def _named_size(self, node: NameExpr, depth: int) -> Size | None:
        bound = (
            self._bindings.find(node.node, self._functions)
            if isinstance(node.node, Var)
            else None
        )
        if bound is None:
            return self._constant(node)
        with self._where_it_was_bound():
            if bound.item is None:
                return self.size(bound.value, depth + 1)
            sizes = self.sizes(bound.value, depth + 1)
        return (
            sizes[bound.item] if sizes is not None and bound.item < len(sizes) else None
        )

    def _constant(self, node: Expression) -> Size | None:
        typ = get_proper_type(self._lookup(node))
        literal = typ.last_known_value if isinstance(typ, Instance) else typ
        value = literal.value if isinstance(literal, LiteralType) else None
        return (
            Size.const(value)
            if isinstance(value, int) and not isinstance(value, bool)
            else None
        )

    def sizes(self, node: Expression, depth: int = 0) -> _Sizes | None:
        """The integers of a tuple: ``x.shape``, a part of one, ``(*x.shape[:-1], 4)``, or a name for one."""
        if depth > _DEEPEST:
            return None
        if isinstance(node, MemberExpr) and node.name == "shape":
            return self._shape(node.expr)
        if isinstance(node, TupleExpr):
            return self._displayed(node, depth)
        if isinstance(node, OpExpr) and node.op == "+":
            left, right = (
                self.sizes(node.left, depth + 1),
                self.sizes(node.right, depth + 1),
            )
            return left + right if left is not None and right is not None else None
        if isinstance(node, IndexExpr) and isinstance(node.index, SliceExpr):
            return self._sliced(node.base, node.index, depth)
        if isinstance(node, NameExpr) and isinstance(node.node, Var):
            bound = self._bindings.find(node.node, self._functions)
            if bound is None or bound.item is not None:
                return None
            with self._where_it_was_bound():
                return self.sizes(bound.value, depth + 1)
        return None

    def _displayed(self, node: TupleExpr, depth: int) -> _Sizes | None:
        found: list[Size | None] = []
        for item in node.items:
            if isinstance(item, StarExpr):
                inner = self.sizes(item.expr, depth + 1)
                if inner is None:
                    return None
                found += inner
            else:
                found.append(self.size(item, depth + 1))
        return tuple(found)

    def _sliced(self, base: Expression, index: SliceExpr, depth: int) -> _Sizes | None:
        sizes = self.sizes(base, depth + 1)
        limits: list[int | None] = []
        for part in (index.begin_index, index.end_index, index.stride):
            size = self.size(part, depth + 1) if part is not None else None
            limit = size.constant if size is not None else None
            if part is not None and limit is None:
                return None
            limits.append(limit)
        return sizes[slice(*limits)] if sizes is not None and limits[2] != 0 else None


def _is_tuple(typ: TupleType | Instance) -> bool:
    return isinstance(typ, TupleType) or typ.type.fullname == "builtins.tuple"
