"""What training programs are made of: optax, flax's training state, and equinox's halves of trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardlint import ir
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import bare, children, is_leaf, map_leaves, rebuilt
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    ExternalValue,
    FunctionValue,
    InstanceValue,
    Literal,
    MaybeValue,
    PartialValue,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import dtypes

#: A class of flax, as far as its instances are made here.
TRAIN_STATE = ClassValue(
    ir.Class(-1, "TrainState", (), (), (), -1),
    "flax.training.train_state",
    "TrainState",
    data=("step", "params", "opt_state"),
)
_FLAX_STATE = "flax.training.train_state.TrainState"
_STATES = frozenset({f"{_FLAX_STATE}.create", _FLAX_STATE})
#: ``create`` of a class of the project below flax's.
_CREATE = f"{_FLAX_STATE}.create.of"
APPLY_GRADIENTS = f"{_FLAX_STATE}.apply_gradients"
#: An optimizer, one whose state holds arrays of the parameters' shapes, and one whose state holds nothing; functions of
#: optax make them.
OPTIMIZER = "optax.GradientTransformation"
MOMENTS, STATELESS = f"{OPTIMIZER}.moments", f"{OPTIMIZER}.stateless"
STATEFUL_UPDATES = frozenset({f"{OPTIMIZER}.update", f"{MOMENTS}.update"})
UPDATES = STATEFUL_UPDATES | {f"{STATELESS}.update"}
_OF_EQUINOX = ("apply_updates", "partition", "filter", "combine", "tree_at")
_ARRAYS = frozenset({"equinox.is_array", "equinox.is_inexact_array"})


@knows(
    {
        *_STATES,
        _CREATE,
        *UPDATES,
        f"{MOMENTS}.init",
        "optax.apply_updates",
        APPLY_GRADIENTS,
        *_ARRAYS,
        "flax.nnx.List",
    }
    | {f"equinox.{name}" for name in _OF_EQUINOX}
)
def call(site: Site) -> Value | None:
    """The result; None where it is not known."""
    qualname, args, kwargs = site.qualname, site.args, site.kwargs
    if qualname in _STATES and not args:
        return _state(TRAIN_STATE, kwargs)
    if qualname == _CREATE and len(args) == 1 and isinstance(args[0], ClassValue):
        return _state(args[0], kwargs)
    match qualname, len(args):
        case _, 1 | 2 | 3 if qualname in UPDATES:
            # What an optimizer makes of gradients has their shapes; of which dtype, it decides.
            return SequenceValue((_shapes(args[0]), optimizer_state(qualname, args[0])))
        case _, 1 if qualname == f"{MOMENTS}.init" and not kwargs:
            return optimizer_state(qualname, args[0])
        case (("optax.apply_updates" | "equinox.apply_updates"), 2) if not kwargs:
            return bare(args[0]) if qualname.startswith("optax.") else args[0]
        case _ if (
            qualname == APPLY_GRADIENTS
            and len(args) == 1
            and isinstance(args[0], InstanceValue)
        ):
            return _stepped(args[0], kwargs)
        case (("equinox.partition" | "equinox.filter"), 2) if not kwargs:
            return _halves(qualname, args)
        case _, 1 if qualname in _ARRAYS and not kwargs:
            verdict = _is_array(args[0], qualname)
            return ScalarValue("bool") if verdict is None else Literal(verdict)
        case "equinox.combine", 2 if not kwargs:
            return _combined(args[0], args[1])
        case "equinox.tree_at", 3 if not kwargs:
            return _replaced_at(args)
        case "flax.nnx.List", _ if not kwargs:
            return _list(args)
        case _:
            return None


def _list(args: list[Value]) -> Value | None:
    """``nnx.List``, which is another list of the same items."""
    match args:
        case []:
            return SequenceValue((), "list")
        case [SequenceValue() as items]:
            return replace(items, kind="list")
        case [CollectionValue(kind="list" | "tuple") as items]:
            return replace(items, kind="list")
        case _:
            return None


def optimizer_state(qualname: str, like: Value) -> Unknown:
    """The state that a method of an optimizer gives; ``like`` are parameters, or their gradients."""
    return Unknown(
        "the state of an optimizer",
        moments_of=like if qualname.startswith(MOMENTS) else None,
    )


def attribute(value: Value, name: str) -> Value | None:
    """``.apply_gradients`` of a training state, and ``.create`` of its class; None for others."""
    if (
        name == "apply_gradients"
        and isinstance(value, InstanceValue)
        and _is_state(value.cls, name)
    ):
        return PartialValue(ExternalValue(APPLY_GRADIENTS), (value,))
    if name == "create" and isinstance(value, ClassValue) and _is_state(value, name):
        return PartialValue(ExternalValue(_CREATE), (value,))
    return None


def _is_state(cls: ClassValue, method: str) -> bool:
    """Whether the class is flax's training state, or one below that leaves the method alone."""
    if cls is TRAIN_STATE:
        return True
    if any(
        isinstance(node, ir.Function) and node.name == method for node in cls.node.body
    ):
        return False
    return any(
        base.qualname == _FLAX_STATE
        if isinstance(base, ExternalValue)
        else isinstance(base, ClassValue) and _is_state(base, method)
        for base in cls.bases
    )


def _state(cls: ClassValue, kwargs: Mapping[str, Value]) -> Value | None:
    if not {"apply_fn", "params", "tx"} <= kwargs.keys():
        return None
    fields = {
        **kwargs,
        "step": Unknown("the step"),
        "opt_state": Unknown("the state of an optimizer"),
    }
    return InstanceValue(cls, tuple(fields.items()), exact=True)


def _stepped(state: InstanceValue, kwargs: Mapping[str, Value]) -> Value | None:
    """After a step: parameters of the same shapes, and the other fields that it is given."""
    given = {name: value for name, value in kwargs.items() if name != "grads"}
    if not given.keys() <= dict(state.fields).keys():
        return None
    made = (
        (n, bare(held) if n == "params" else given.get(n, held))
        for n, held in state.fields
    )
    return replace(state, fields=tuple(made))


def _shapes(tree: Value) -> Value:
    return map_leaves(
        bare(tree),
        lambda leaf: (
            replace(leaf, dtype=None, weak=False)
            if isinstance(leaf, ArrayValue)
            else leaf
        ),
    )


def _is_array(leaf: Value, asked: str) -> bool | None:
    """What ``is_array`` and ``is_inexact_array`` of equinox say of a leaf; None where that is not known."""
    if not isinstance(leaf, ArrayValue) or leaf.numpy:
        return None if isinstance(leaf, (ArrayValue, Unknown, MaybeValue)) else False
    if asked.endswith("inexact_array") and leaf.dtype != "floating":
        return dtypes.is_kind(leaf.dtype, "floating", "complex")
    return True


def _halves(qualname: str, args: Sequence[Value]) -> Value | None:
    """The arrays of a tree, and what is left; what is in the other half is None."""
    if not (isinstance(args[1], ExternalValue) and args[1].qualname in _ARRAYS):
        return None
    asked = args[1].qualname

    def half(wanted: bool) -> Value:
        def kept(leaf: Value) -> Value:
            verdict = _is_array(leaf, asked)
            return (
                Unknown("an array or not")
                if verdict is None
                else leaf
                if verdict is wanted
                else Literal(None)
            )

        return map_leaves(args[0], kept)

    return (
        SequenceValue((half(True), half(False)))
        if qualname == "equinox.partition"
        else half(True)
    )


def _combined(first: Value, second: Value) -> Value:
    """Of each leaf the first that is not None."""
    if first == Literal(None):
        return second
    parts, others = children(first), children(second)
    if parts is None or is_leaf(first):
        return (
            first
            if second == Literal(None) or isinstance(first, ArrayValue)
            else Unknown("one of two leaves")
        )
    if (
        type(first) is not type(second)
        or others is None
        or dict(parts).keys() != dict(others).keys()
    ):
        return Unknown("combines trees of other structures")
    rest = dict(others)
    return rebuilt(first, [(key, _combined(item, rest[key])) for key, item in parts])


def _replaced_at(args: Sequence[Value]) -> Value | None:
    """``tree_at(lambda tree: tree.a.b, tree, new)``."""
    where = args[0].node if isinstance(args[0], FunctionValue) else None
    if not isinstance(where, ir.Lambda) or len(where.params) != 1:
        return None
    several = isinstance(where.body, ir.Sequence)
    paths = where.body.items if isinstance(where.body, ir.Sequence) else (where.body,)
    if several and not (
        isinstance(args[2], SequenceValue) and len(args[2].items) == len(paths)
    ):
        return None
    new = (
        args[2].items if several and isinstance(args[2], SequenceValue) else (args[2],)
    )
    result: Value | None = args[1]
    for path, value in zip(paths, new, strict=True):
        names: list[str] = []
        while isinstance(path, ir.Attr):
            names.insert(0, path.name)
            path = path.obj
        if (
            not isinstance(path, ir.Name)
            or path.id != where.params[0].name
            or result is None
        ):
            return None
        result = _with(result, names, value)
    return result


def _with(tree: Value, names: list[str], new: Value) -> Value | None:
    if not names:
        return new
    held = dict(tree.fields) if isinstance(tree, InstanceValue) else {}
    inner = _with(held[names[0]], names[1:], new) if names[0] in held else None
    if inner is None or not isinstance(tree, InstanceValue):
        return None
    return replace(tree, fields=tuple({**held, names[0]: inner}.items()))
