"""Between mypy's types and the abstract values that op models take and return."""

from __future__ import annotations

from mypy.nodes import EllipsisExpr, Expression, IntExpr, NameExpr, RefExpr, UnaryExpr
from mypy.types import (
    Instance,
    LiteralType,
    NoneType,
    ProperType,
    TupleType,
    Type,
    get_proper_type,
)

from shardlint import values as av
from shardlint.mypy_plugin.forms import (
    ArrayForm,
    Forms,
    class_of_dtype,
    read_array,
    shown,
    sizes_of,
)
from shardlint.mypy_plugin.names import CONCRETE, DTYPES_MODULE, FAMILIES
from shardtypes.lang import Size, format_shape

_DTYPE_MODULES = ("jax.numpy.", "numpy.", "ml_dtypes.")
_SCALARS = {
    "builtins.float": "float",
    "builtins.complex": "complex",
    "builtins.bool": "bool",
}
_DTYPE_NAMES = frozenset(CONCRETE.values()) | {"bool_"}
_NO_FAMILY = frozenset({"any"})


def array_value(form: ArrayForm, known: frozenset[str]) -> av.ArrayValue:
    """An array as the models see it. Sharding is left out: here only shapes and dtypes are worked out."""
    sizes = sizes_of(form.shape, known)
    dims = None if sizes is None else tuple(av.Dimension(size) for size in sizes)
    dtype = form.dtype if form.dtype not in _NO_FAMILY and form.dtype != "key" else None
    return av.ArrayValue(dims, dtype)


def value_of_type(typ: ProperType, known: frozenset[str]) -> av.Value:
    """What a type alone tells."""
    form = read_array(typ)
    if form is not None:
        return array_value(form, known)
    if isinstance(typ, NoneType):
        return av.Literal(None)
    if isinstance(typ, LiteralType):
        return _constant(typ)
    if isinstance(typ, TupleType):
        return av.SequenceValue(
            tuple(value_of_type(get_proper_type(item), known) for item in typ.items)
        )
    if isinstance(typ, Instance):
        return _instance(typ)
    return av.Unknown("an argument of unknown type")


def _instance(typ: Instance) -> av.Value:
    if typ.last_known_value is not None:
        return _constant(typ.last_known_value)
    if typ.type.fullname == "builtins.int":
        return av.IntValue(None)
    if typ.type.fullname in _SCALARS:
        return av.ScalarValue(_SCALARS[typ.type.fullname])
    return (
        av.StringValue()
        if typ.type.fullname == "builtins.str"
        else av.Unknown("an argument of unknown type")
    )


def _constant(literal: LiteralType) -> av.Value:
    value = literal.value
    if isinstance(value, int) and not isinstance(value, bool):
        return av.IntValue(Size.const(value))
    return av.Literal(value)


def written_value(node: Expression) -> av.Value | None:
    """Constants and dtypes, which types do not tell."""
    if isinstance(node, IntExpr):
        return av.IntValue(Size.const(node.value))
    if (
        isinstance(node, UnaryExpr)
        and node.op == "-"
        and isinstance(node.expr, IntExpr)
    ):
        return av.IntValue(Size.const(-node.expr.value))
    if isinstance(node, EllipsisExpr):
        return av.Literal(...)
    if isinstance(node, NameExpr) and node.name == "None":
        return av.Literal(None)
    return _dtype(node.fullname) if isinstance(node, RefExpr) else None


def _dtype(fullname: str) -> av.DTypeValue | None:
    module, _, name = fullname.rpartition(".")
    if module == DTYPES_MODULE:
        return av.DTypeValue((CONCRETE | FAMILIES)[name]) if name in CONCRETE else None
    if f"{module}." in _DTYPE_MODULES and name in _DTYPE_NAMES:
        return av.DTypeValue("bool" if name == "bool_" else name)
    return None


def type_of(value: av.Value, default: Type, forms: Forms) -> Type:
    """The type of a model's result; ``default`` where the model knows no more than mypy."""
    proper = get_proper_type(default)
    if (
        isinstance(value, av.SequenceValue)
        and isinstance(proper, TupleType)
        and len(value.items) == len(proper.items)
    ):
        items = zip(value.items, proper.items, strict=True)
        return proper.copy_modified(
            items=[type_of(item, old, forms) for item, old in items]
        )
    if (
        not isinstance(value, av.ArrayValue)
        or value.numpy
        or read_array(proper) is None
    ):
        return default
    if value.dims is None and value.dtype is None:
        return default
    text = (
        None
        if value.dims is None
        else format_shape([shown(dim.size) for dim in value.dims])
    )
    return forms.array(class_of_dtype(value.dtype), text, declared=False, at=default)
