"""From an annotation expression to its type, through the project's imports and aliases."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.types import (
    AnyType,
    ArrayType,
    ClassType,
    FunctionType,
    MappingType,
    RepeatedType,
    ScalarType,
    SequenceType,
    Type,
    UnionType,
    VariableType,
    says_something,
)
from shardlint.values import ClassValue, ExternalValue, ModuleValue
from shardtypes.lang import Dialect, Shape, ShapeSyntaxError, parse
from shardtypes.lang.array_names import JAXTYPING_DTYPES, SHARDTYPES_DTYPES

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: kauldron adds to jaxtyping's strings, such as ``'N? H W'`` for a dimension that may be absent; its ``Int`` is any.
_KAULDRON = ("kauldron.typing.", "kauldron.ktyping.")
_KAULDRON_DTYPES = {**JAXTYPING_DTYPES, "Int": "integer"}
_ARRAYS = {"jax.Array", "jax.numpy.ndarray", "numpy.ndarray", "jaxtyping.Array", "jaxtyping.ArrayLike",
           "jax.typing.ArrayLike", "chex.Array", "flax.typing.Array"}  # fmt: skip
#: What takes a string for each dimension.
_ONE_BY_ONE = frozenset({"equinox.custom_types.Array"})
_SCALARS = {"int", "float", "bool", "str", "complex"}
_VARIABLES = frozenset({"typing.TypeVar", "typing_extensions.TypeVar"})
_SEQUENCES = {"tuple": "tuple", "Tuple": "tuple", "list": "list", "List": "list", "Sequence": "list",
              "Iterable": "list", "Collection": "list", "deque": "deque", "Deque": "deque"}  # fmt: skip
_YIELDING = {
    "Iterator",
    "Iterable",
    "Generator",
    "AsyncIterator",
    "AsyncIterable",
    "AsyncGenerator",
}
_QUALIFIERS = {"Final", "ClassVar", "Required", "NotRequired", "ReadOnly"}
_MAPPINGS = {"dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict"}
_DEPTH = 12


def array_form(qualname: str) -> tuple[str | None, Dialect] | None:
    """(dtype, dialect) of a name that makes array annotations when subscripted, None for any other name."""
    head, _, last = qualname.rpartition(".")
    if head.split(".")[0] in ("shardtypes", "shardlib") and last in SHARDTYPES_DTYPES:
        return SHARDTYPES_DTYPES[last], "shardtypes"
    if last in JAXTYPING_DTYPES:
        if qualname.startswith("jaxtyping."):
            return JAXTYPING_DTYPES[last], "jaxtyping"
        if qualname.startswith(_KAULDRON):
            return _KAULDRON_DTYPES[last], "kauldron"
    return None


def resolve(it: Interpreter, expr: ir.Expr | None, module: str, depth: int = 0) -> Type:
    """The type an annotation stands for; anything not understood is AnyType."""
    if expr is None or depth > _DEPTH:
        return AnyType(
            "no annotation" if expr is None else "annotation nested too deep"
        )
    key = (module, expr.at, id(expr))
    known = it.types.get(key)
    if known is None:
        known = _resolve(it, expr, module, depth)
        it.types[key] = known
        it.keep.append(expr)
    return known


def _resolve(it: Interpreter, expr: ir.Expr, module: str, depth: int) -> Type:
    match expr:
        case ir.Const(value=None):
            return ScalarType("None")
        case ir.Const(value=str(text)):
            return _from_text(it, text, module, depth)
        case ir.Binary(op="|"):
            return _union(
                (
                    resolve(it, expr.left, module, depth + 1),
                    resolve(it, expr.right, module, depth + 1),
                )
            )
        case ir.Subscript():
            return _subscript(it, expr, module, depth)
        case ir.Name() | ir.Attr():
            return _named(it, expr, module, depth)
        case _:
            return AnyType("annotation not understood")


def _from_text(it: Interpreter, text: str, module: str, depth: int) -> Type:
    """A quoted annotation that is a plain dotted name; anything else stays unknown."""
    parts = text.strip().split(".")
    if not all(part.isidentifier() for part in parts):
        return AnyType("quoted annotation")
    expr: ir.Expr = ir.Name(-1, parts[0])
    for part in parts[1:]:
        expr = ir.Attr(-1, expr, part)
    return resolve(it, expr, module, depth + 1)


def _named(it: Interpreter, expr: ir.Expr, module: str, depth: int) -> Type:
    found = it.resolve_static(expr, module)
    if isinstance(found, ClassValue):
        return ClassType(found)
    if isinstance(found, Definition):
        variable = _variable(it, found)
        if variable is not None:
            return variable
        return resolve(it, found.expr, found.module, depth + 1)
    if isinstance(found, ExternalValue):
        name = found.qualname
        last = name.rpartition(".")[2]
        if name in _ARRAYS:
            return ArrayType(None, None, module, expr.at, last)
        if name in _SCALARS or name.removeprefix("builtins.") in _SCALARS:
            return ScalarType(last)
        form = array_form(name)
        if form is not None:
            return ArrayType(form[0], None, module, expr.at, last)
        return AnyType(name)
    if isinstance(expr, ir.Name) and expr.id in _SCALARS and found is None:
        return ScalarType(expr.id)
    return AnyType("annotation not understood")


def _variable(it: Interpreter, found: Definition) -> VariableType | None:
    """``T = TypeVar("T")``."""
    made = found.expr
    if not isinstance(made, ir.Call) or not made.args:
        return None
    function = it.resolve_static(made.func, found.module)
    name = made.args[0].value
    if not isinstance(function, ExternalValue) or not isinstance(name, ir.Const):
        return None
    is_one = function.qualname in _VARIABLES and isinstance(name.value, str)
    return VariableType(name=str(name.value)) if is_one else None


def variables_of(it: Interpreter, cls: ClassValue) -> tuple[str, ...]:
    """The type variables of a generic class, in the order in which its uses give them."""
    for base in cls.node.bases:
        if not isinstance(base.value, ir.Subscript):
            continue
        index = base.value.index
        items = index.items if isinstance(index, ir.Sequence) else (index,)
        types = [resolve(it, item, cls.module) for item in items]
        names = [one.name for one in types if isinstance(one, VariableType)]
        if names:
            return tuple(names)
    return ()


def _subscript(it: Interpreter, expr: ir.Subscript, module: str, depth: int) -> Type:
    found = it.resolve_static(expr.obj, module)
    name = found.qualname if isinstance(found, ExternalValue) else ""
    if found is None and isinstance(expr.obj, ir.Name):
        name = expr.obj.id
    items = expr.index.items if isinstance(expr.index, ir.Sequence) else (expr.index,)
    form = array_form(name)
    if form is not None:
        return _array(it, form, items, module, expr, depth)
    if name in _ONE_BY_ONE:
        return _named_one_by_one(items, module, expr)
    last = name.rpartition(".")[2]
    if name == "shardtypes.Array" or (last == "Array" and name.startswith("shardlib")):
        return _stacked(it, items, module, depth)
    of_typing = _of_typing(it, last, items, module, depth)
    if of_typing is not None:
        return of_typing
    if last in _SEQUENCES:
        return _sequence(it, _SEQUENCES[last], items, module, depth)
    if last in _MAPPINGS and len(items) == 2:
        return MappingType(resolve(it, items[1], module, depth + 1))
    if isinstance(found, ClassValue):
        args = tuple(resolve(it, item, module, depth + 1) for item in items)
        return ClassType(found, args=args)
    return AnyType("annotation not understood")


def _of_typing(
    it: Interpreter, last: str, items: tuple[ir.Expr, ...], module: str, depth: int
) -> Type | None:
    """``Annotated[…]``, ``Optional[…]``, ``Union[…]`` and qualifiers; None for other names."""
    if last == "Union":
        return _union(tuple(resolve(it, item, module, depth + 1) for item in items))
    if not items:
        return None
    if last == "Annotated":
        for extra in items[1:]:
            inner = resolve(it, extra, module, depth + 1)
            if isinstance(inner, (ArrayType, ClassType)):
                return inner
        return resolve(it, items[0], module, depth + 1)
    if last == "Optional" and len(items) == 1:
        return _union((resolve(it, items[0], module, depth + 1), ScalarType("None")))
    if last in _QUALIFIERS:
        return resolve(it, items[0], module, depth + 1)
    if last == "Callable" and len(items) == 2:
        return _function(it, items[0], items[1], module, depth)
    return None


def _function(
    it: Interpreter, given: ir.Expr, returns: ir.Expr, module: str, depth: int
) -> Type:
    """``Callable[[A, B], C]`` and ``Callable[..., C]``."""
    params: tuple[ir.Param, ...]
    if isinstance(given, ir.Sequence):
        params = tuple(
            ir.Param(one.at, str(number), "positional-only", one, None)
            for number, one in enumerate(given.items, 1)
        )
    elif isinstance(given, ir.Const) and given.value is Ellipsis:
        params = (
            ir.Param(-1, "args", "*", None, None),
            ir.Param(-1, "kwargs", "**", None, None),
        )
    else:
        return AnyType("a function of unknown parameters")
    annotations = [returns, *(param.annotation for param in params)]
    types = [
        resolve(it, one, module, depth + 1) for one in annotations if one is not None
    ]
    if not any(map(says_something, types)):
        return AnyType("a function")
    body = (ir.Return(-1, ir.Opaque(-1, "a function that is given")),)
    node = ir.Function(given.at, "the function", params, returns, (), body, -1)
    return FunctionType("a function", node, module)


def _sequence(
    it: Interpreter, kind: str, items: tuple[ir.Expr, ...], module: str, depth: int
) -> Type:
    """``list[item]``, ``tuple[item, ...]``, ``tuple[first, second]`` and the like."""
    if kind == "tuple" and any(_spreads(item) for item in items):
        return AnyType("a tuple of unknown length")
    if kind == "tuple" and not _is_any_number(items):
        types = tuple(resolve(it, item, module, depth + 1) for item in items)
        if _is_any_length(types):
            return RepeatedType(kind, types[0])
        return SequenceType(types)
    return RepeatedType(kind, resolve(it, items[0], module, depth + 1))


def _is_any_number(items: tuple[ir.Expr, ...]) -> bool:
    """Whether these are an item and ``...``."""
    if len(items) != 2:
        return False
    last = items[1]
    return isinstance(last, ir.Const) and last.value is Ellipsis


def yielded_type(it: Interpreter, expr: ir.Expr | None, module: str) -> Type | None:
    """What ``Iterator[T]``, as a generator's result, says of each value; None where it says no array's shape."""
    if not isinstance(expr, ir.Subscript):
        return None
    found = it.resolve_static(expr.obj, module)
    name = found.qualname if isinstance(found, ExternalValue) else ""
    if name.rpartition(".")[2] not in _YIELDING:
        return None
    index = expr.index
    first = index.items[0] if isinstance(index, ir.Sequence) else index
    type_ = resolve(it, first, module)
    return type_ if says_something(type_) else None


def _is_any_length(items: tuple[Type, ...]) -> bool:
    """``tuple[int]``, which is written for tuples of any length too; ``tuple[f32['B']]`` means what it says."""
    return len(items) == 1 and not (
        isinstance(items[0], ArrayType) and items[0].shape is not None
    )


def shape_text(it: Interpreter, expr: ir.Expr, module: str) -> str | None:
    """The text of a shape string, which may be a module constant."""
    match expr:
        case ir.Const(value=str(text)):
            return text
        case ir.Const(value=bytes(data)):
            return data.decode("utf-8", "replace")
        case ir.Name() | ir.Attr():
            found = it.resolve_static(expr, module)
            if isinstance(found, Definition) and isinstance(found.expr, ir.Const):
                return shape_text(it, found.expr, found.module)
    return None


def _array(
    it: Interpreter,
    form: tuple[str | None, Dialect],
    items: tuple[ir.Expr, ...],
    module: str,
    expr: ir.Expr,
    depth: int,
) -> Type:
    dtype, dialect = form
    text_expr = items[-1]
    text = shape_text(it, text_expr, module)
    if text is None:
        return ArrayType(dtype, None, module, expr.at, "array")
    if dialect != "shardtypes" and len(items) == 2:
        base = resolve(it, items[0], module, depth + 1)
        # Float[Float[Array, 'b'], 'c'] prepends
        if isinstance(base, ArrayType) and base.shape is not None:
            return AnyType("nested array annotation")
    try:
        shape = parse(text, dialect)
    except ShapeSyntaxError:
        return ArrayType(dtype, None, module, text_expr.at, text)
    return ArrayType(dtype, shape, module, text_expr.at, text)


def _named_one_by_one(
    items: tuple[ir.Expr, ...], module: str, expr: ir.Expr
) -> ArrayType:
    """``Array["a", 3, ...]``: a name or a number for each dimension."""
    values = [item.value if isinstance(item, ir.Const) else None for item in items]
    words = ["..." if value is Ellipsis else str(value) for value in values]
    if not all(
        word.isidentifier() or word.isdigit() or word == "..." for word in words
    ):
        return ArrayType(None, None, module, expr.at, "array")
    if None in values or words.count("...") > 1:
        return ArrayType(None, None, module, expr.at, "array")
    text = " ".join(words)
    return ArrayType(None, parse(text, "jaxtyping"), module, expr.at, text)


def _stacked(
    it: Interpreter, items: tuple[ir.Expr, ...], module: str, depth: int
) -> Type:
    """``Array['layers', T]``."""
    if len(items) != 2:
        return AnyType("Array[…] takes dimensions and a type")
    text = shape_text(it, items[0], module)
    inner = resolve(it, items[1], module, depth + 1)
    if text is None:
        return AnyType("dimensions not known")
    try:
        front = parse(text)
    except ShapeSyntaxError:
        return AnyType("invalid dimensions")
    if isinstance(inner, ClassType):
        return replace(inner, prefix=(*front.dims, *inner.prefix))
    if isinstance(inner, ArrayType) and inner.shape is not None:
        return with_prefix(inner, front.dims)
    return AnyType("not an array type")


def with_prefix(type_: ArrayType, dims: tuple[object, ...]) -> ArrayType:
    """The array type with dimensions in front."""
    if type_.shape is None or not dims:
        return type_
    old = type_.shape
    shape = Shape((*dims, *old.dims), old.pending, "", old.dialect)  # type: ignore[arg-type]  # Dim, as stored
    return ArrayType(type_.dtype, shape, type_.module, type_.at, str(shape))


def without_prefix(type_: Type, count: int) -> Type:
    """An array type without so many dimensions in front; any other type as it is."""
    if not count or not isinstance(type_, ArrayType) or type_.shape is None:
        return type_
    old = type_.shape
    shape = Shape(old.dims[count:], old.pending, "", old.dialect)
    return ArrayType(type_.dtype, shape, type_.module, type_.at, str(shape))


def _spreads(item: ir.Expr) -> bool:
    """``*Ts`` and ``Unpack[...]`` stand for any number of items."""
    named = item.obj if isinstance(item, ir.Subscript) else item
    last = (
        named.name
        if isinstance(named, ir.Attr)
        else named.id
        if isinstance(named, ir.Name)
        else ""
    )
    return isinstance(item, ir.Star) or last == "Unpack"


def _union(items: tuple[Type, ...]) -> Type:
    flat: list[Type] = []
    for item in items:
        flat.extend(item.items if isinstance(item, UnionType) else (item,))
    return flat[0] if len(flat) == 1 else UnionType(tuple(flat))


def static_definition(it: Interpreter, expr: ir.Expr, module: str) -> object:
    """What a dotted name at module level is: ClassValue, FunctionValue, ExternalValue, Definition or None."""
    if isinstance(expr, ir.Name):
        return it.static_name(module, expr.id)
    if isinstance(expr, ir.Attr):
        base = static_definition(it, expr.obj, module)
        if isinstance(base, ExternalValue):
            return it.external(f"{base.qualname}.{expr.name}")
        if (
            isinstance(base, ModuleValue)
            and it.project.lookup(base.name, expr.name) is not None
        ):
            return it.static_name(base.name, expr.name)
    return None


class Definition:
    """A module-level assignment: an alias or a constant."""

    __slots__ = ("expr", "module")

    def __init__(self, expr: ir.Expr, module: str) -> None:
        self.expr, self.module = expr, module
