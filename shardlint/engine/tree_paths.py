"""Where leaves are in trees: the paths of keys that ``tree_map_with_path`` and its like give, and what they are asked.

Programs choose shardings by the names of parameters, so that a path has to be as JAX writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shardlint.engine.plain import constant, plain_key
from shardlint.engine.trees import children, ordered, rebuilt
from shardlint.values import (
    DictValue,
    InstanceValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

_UTIL = "jax.tree_util."
KEYSTR = f"{_UTIL}keystr"
_DICT_KEY, _SEQUENCE_KEY, _NAME_KEY = (
    f"{_UTIL}DictKey",
    f"{_UTIL}SequenceKey",
    f"{_UTIL}GetAttrKey",
)
_HELD_AS = {_DICT_KEY: "key", _SEQUENCE_KEY: "idx", _NAME_KEY: "name"}
_NOT_KNOWN = Unknown("where a leaf is")


def of_leaves(tree: Value, path: tuple[Value, ...] | None = ()) -> Value:
    """The tree with its path in place of every leaf; an unknown one below nodes whose keys are not known."""
    parts = children(tree)
    if parts is None:
        return _NOT_KNOWN if path is None else SequenceValue(path)
    found = []
    for key, item in parts:
        entry = _entry(tree, key)
        inner = None if path is None or entry is None else (*path, entry)
        found.append((key, of_leaves(item, inner)))
    return rebuilt(tree, found)


def listed(tree: Value, path: tuple[Value, ...] | None = ()) -> list[Value]:
    """The paths of all leaves, in JAX's order."""
    parts = ordered(tree)
    if parts is None:
        return [_NOT_KNOWN if path is None else SequenceValue(path)]
    found = []
    for key, item in parts:
        entry = _entry(tree, key)
        found += listed(item, None if path is None or entry is None else (*path, entry))
    return found


def _entry(node: Value, key: object) -> Value | None:
    """What JAX puts into a path for this part of a node."""
    match node:
        case DictValue():
            return (
                WrappedValue(_DICT_KEY, _held(key))
                if isinstance(key, (str, int))
                else None
            )
        case SequenceValue(names=None):
            return WrappedValue(_SEQUENCE_KEY, _held(key))
        case SequenceValue(names=names) if names is not None and isinstance(key, int):
            return WrappedValue(_NAME_KEY, Literal(names[key]))
        case InstanceValue():
            return WrappedValue(_NAME_KEY, Literal(str(key)))
        case _:
            return None


def _held(key: object) -> Value:
    return constant(key) if isinstance(key, int) else Literal(key)


def attribute(entry: WrappedValue, name: str) -> Value | None:
    """``.key``, ``.idx`` and ``.name`` of an entry of a path; None for any other value."""
    held = _HELD_AS.get(entry.kind)
    if held is None:
        return None
    return entry.func if name == held else Unknown(f".{name} of an entry of a path")


def text(value: Value) -> str | None:
    """What ``str`` makes of an entry of a path; None for any other value."""
    if not isinstance(value, WrappedValue) or value.kind not in _HELD_AS:
        return None
    key = plain_key(value.func)
    return f".{key}" if value.kind == _NAME_KEY else f"[{key!r}]"


def call(
    qualname: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> Value | None:
    """``keystr`` of a path; None for any other function, and for a path that is not known."""
    if qualname != KEYSTR or len(args) != 1 or not isinstance(args[0], SequenceValue):
        return None
    if kwargs.keys() - {"simple", "separator"}:
        return None
    simple, separator = (
        kwargs.get("simple", Literal(False)),
        kwargs.get("separator", Literal("")),
    )
    if not isinstance(simple, Literal) or not isinstance(separator, Literal):
        return None
    words = [_simple(item) if simple.value else text(item) for item in args[0].items]
    known = [word for word in words if word is not None]
    return (
        Literal(str(separator.value).join(known)) if len(known) == len(words) else None
    )


def _simple(value: Value) -> str | None:
    if not isinstance(value, WrappedValue) or value.kind not in _HELD_AS:
        return None
    return str(plain_key(value.func))
