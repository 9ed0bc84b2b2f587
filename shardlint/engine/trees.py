"""Trees of values as JAX sees them: which are nodes, which are leaves, and the same change made to every leaf."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardlint import ir
from shardlint.values import (
    ArrayValue,
    ClassValue,
    DictValue,
    Dimension,
    ExternalValue,
    InstanceValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
)

_REGISTERED = frozenset(
    """equinox.Module equinox._module.Module typing.NamedTuple flax.struct.PyTreeNode
    flax.training.train_state.TrainState""".split()
)
#: ``register_pytree_node_class`` is none of these: such a class says itself what its leaves are.
_REGISTERING = frozenset({"pytree_dataclass", "register_dataclass"})
#: Decorators that make a class a tree, by whichever name a module has them.
_MAKING = frozenset(
    {"flax.struct.dataclass", "chex.dataclass", "shardtypes.pytree_dataclass"}
)
_STRUCTS = frozenset({"flax", "chex", "struct", "simple_parsing"})


def is_tree(cls: ClassValue) -> bool:
    """Whether instances of the class are certainly nodes of a tree: JAX looks into them."""
    if cls.data is not None:
        return True
    for base in cls.bases:
        if isinstance(base, ExternalValue) and base.qualname in _REGISTERED:
            return True
        if isinstance(base, ClassValue) and is_tree(base):
            return True
    return bool(_MAKING.intersection(cls.decorated)) or any(
        _registers(expr) for expr in cls.node.decorators
    )


def _registers(expr: ir.Expr) -> bool:
    match expr:
        case ir.Call(args=args) if any(arg.keyword == "meta_fields" for arg in args):
            return False  # which fields are static is said elsewhere
        case ir.Call(func=func, args=args):
            return _registers(func) or any(_registers(arg.value) for arg in args)
        case ir.Name(id=name):
            return name in _REGISTERING
        case ir.Attr(obj=owner, name=name):
            outer = (
                owner.id
                if isinstance(owner, ir.Name)
                else owner.name
                if isinstance(owner, ir.Attr)
                else ""
            )
            return name in _REGISTERING or (name == "dataclass" and outer in _STRUCTS)
        case _:
            return False


def static_fields(cls: ClassValue) -> frozenset[str]:
    """The fields of a tree class that are part of its structure: JAX does not look at their values."""
    found = {
        name
        for name, node in cls.fields.items()
        if isinstance(node.value, ir.Call) and _is_static(node.value)
    }
    for base in cls.bases:
        if isinstance(base, ClassValue):
            found |= static_fields(base)
    return frozenset(found)


def _is_static(call: ir.Call) -> bool:
    for arg in call.args:
        match arg:
            case ir.Arg(keyword="static", value=ir.Const(value=True)):
                return True
            case ir.Arg(keyword="pytree_node", value=ir.Const(value=False)):
                return True
            case ir.Arg(keyword="metadata"):
                return True
            case _:
                pass
    func = call.func
    return (
        func.name
        if isinstance(func, ir.Attr)
        else func.id
        if isinstance(func, ir.Name)
        else ""
    ) == "static_field"


def children(value: Value) -> list[tuple[object, Value]] | None:
    """The parts of a node with their keys; None for a leaf, and for what is not known to be a node."""
    match value:
        case Literal(value=None):
            return []
        case SequenceValue(kind="keys" | "iterator" | "deque" | "set"):
            return None
        # a list may have grown unseen
        case SequenceValue(items=items) if items or value.kind == "tuple":
            return list(enumerate(items))
        case DictValue(items=pairs):
            return list(pairs)
        case InstanceValue(cls=cls, fields=fields) if is_tree(cls):
            if cls.data is not None:
                known = dict(fields)
                return [
                    (name, known.get(name, Unknown("a field"))) for name in cls.data
                ]
            fixed = static_fields(cls)
            return [(name, item) for name, item in fields if name not in fixed]
        case _:
            return None


def ordered(tree: Value) -> list[tuple[object, Value]] | None:
    """The parts of a node in JAX's order; None for a leaf, and where the order is not known."""
    parts = children(tree)
    if isinstance(tree, DictValue) and parts is not None:
        try:
            return sorted(parts, key=lambda part: part[0])  # type: ignore[arg-type, return-value]  # as JAX does
        except TypeError:
            return None
    return parts


def rebuilt(value: Value, parts: list[tuple[object, Value]]) -> Value:
    """The node with other parts."""
    match value:
        case SequenceValue():
            return replace(value, items=tuple(item for _, item in parts))
        case DictValue():
            return DictValue(tuple(parts))
        case InstanceValue(fields=fields):
            new = {str(name): item for name, item in parts}
            return replace(
                value,
                fields=tuple((name, new.get(name, item)) for name, item in fields),
            )
        case _:
            return value


def map_leaves(value: Value, change: Callable[[Value], Value]) -> Value:
    """``change`` made to every leaf, unknown ones included."""
    parts = children(value)
    if parts is None:
        return change(value)
    return rebuilt(value, [(key, map_leaves(item, change)) for key, item in parts])


def leaf_pairs(
    a: Value, b: Value, path: str = ""
) -> list[tuple[str, Value, Value]] | None:
    """Leaves in the same place of two trees, with their path; None where the structures certainly differ.

    A part that is not known on either side is one leaf.
    """
    first, second = children(a), children(b)
    if first is None and second is None:
        return [(path, a, b)]
    if first is None or second is None:
        other = a if first is None else b
        return None if is_leaf(other) and not may_be_tree(other) else [(path, a, b)]
    if type(a) is not type(b) or (
        isinstance(a, SequenceValue)
        and isinstance(b, SequenceValue)
        and a.kind != b.kind
    ):
        return (
            None if isinstance(a, _PLAIN) and isinstance(b, _PLAIN) else [(path, a, b)]
        )
    if (
        isinstance(a, InstanceValue)
        and isinstance(b, InstanceValue)
        and a.cls is not b.cls
    ):
        return [(path, a, b)]
    left, right = dict(first), dict(second)
    if left.keys() != right.keys():
        grown = isinstance(a, SequenceValue) and a.kind == "list"
        return [(path, a, b)] if grown or isinstance(a, InstanceValue) else None
    found: list[tuple[str, Value, Value]] = []
    for key, item in left.items():
        inner = leaf_pairs(
            item,
            right[key],
            f"{path}.{key}" if isinstance(a, InstanceValue) else f"{path}[{key!r}]",
        )
        if inner is None:
            return None
        found += inner
    return found


_PLAIN = (SequenceValue, DictValue, Literal)


def is_leaf(value: Value) -> bool:
    """Whether the value is certainly one array or number."""
    return isinstance(value, (ArrayValue, IntValue, ScalarValue)) or (
        isinstance(value, Literal) and isinstance(value.value, (bool, float, complex))
    )


def may_be_tree(value: Value) -> bool:
    """Whether nothing but the word says that a value is an array: trees of arrays are often annotated so."""
    return isinstance(value, ArrayValue) and value.dims is None and value.dtype is None


def traced(value: Value) -> Value:
    """What a function sees of an argument that JAX traces: Python's numbers become arrays of weak type."""
    match value:
        case IntValue():
            return ArrayValue((), "int32", weak=True)
        case ScalarValue(kind=kind) if kind in _SCALARS:
            return ArrayValue((), _SCALARS[kind], weak=kind != "bool")
        case Literal(value=bool()):
            return ArrayValue((), "bool")
        case Literal(value=float()):
            return ArrayValue((), "float32", weak=True)
        case Literal(value=complex()):
            return ArrayValue((), "complex64", weak=True)
        case ArrayValue(numpy=True):
            return replace(value, numpy=False, dtype=None)
        case _:
            parts = children(value)
            return (
                value
                if not parts
                else rebuilt(value, [(key, traced(item)) for key, item in parts])
            )


_SCALARS = {"bool": "bool", "float": "float32", "complex": "complex64"}


def bare(value: Value, weak: bool = False) -> Value:
    """A value of the same shapes, as ``weak`` as it was or not at all: how it lies on the mesh is another matter."""

    def change(leaf: Value) -> Value:
        if not isinstance(leaf, ArrayValue):
            return leaf if is_leaf(leaf) else Unknown("a part of a tree")
        dims = (
            None if leaf.dims is None else tuple(Dimension(d.size) for d in leaf.dims)
        )
        return ArrayValue(
            dims, leaf.dtype, weak and leaf.weak, numpy=leaf.numpy, manual=leaf.manual
        )

    return map_leaves(value, change)


def named_items(value: Value) -> Value:
    """A NamedTuple as the tuple that it is; any other value as it is."""
    if isinstance(value, InstanceValue) and any(
        b == ExternalValue("typing.NamedTuple") for b in value.cls.bases
    ):
        known = dict(value.fields)
        if known.keys() >= value.cls.fields.keys():
            return SequenceValue(
                tuple(known[name] for name in value.cls.fields),
                "tuple",
                tuple(value.cls.fields),
            )
    return value
