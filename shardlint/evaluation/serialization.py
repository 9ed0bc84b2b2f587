"""``flax.serialization`` in guarded code: trees as dicts, and as bytes that are only read back."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide
from shardlint.evaluation.stored import copied
from shardtypes.semantics.trees import flatten, parts, unflatten


def _children(value: Any) -> dict[str, Any] | None:
    """What is in a node, by name; None for a leaf."""
    found = None if value is None else parts(value)
    if found is None:
        return None
    is_own_class = not isinstance(value, (dict, list, tuple))
    if is_own_class and not all(isinstance(key, str) for key, _ in found[0]):
        raise NotEvaluable(f"the state of a {type(value).__name__}")
    named = {str(key): child for key, child in found[0]}
    if len(named) < len(found[0]):
        raise ValueError("Dict keys do not have a unique string representation")
    return named


@provide("flax.serialization.to_state_dict")
def to_state_dict(target: Any) -> Any:
    """A tree as nested dicts."""
    children = _children(target)
    if children is None:
        return target
    return {name: to_state_dict(child) for name, child in children.items()}


@provide("flax.serialization.from_state_dict")
def from_state_dict(target: Any, state: Any, name: str = ".") -> Any:
    """A tree like another, of what nested dicts hold."""
    children = _children(target)
    if children is None:
        return state
    if not isinstance(state, dict) or children.keys() != state.keys():
        raise ValueError(
            f"The target dict keys and state dict keys do not match, at path {name}"
        )
    made = [
        from_state_dict(child, state[key], f"{name}/{key}")
        for key, child in children.items()
    ]
    structure = flatten(target, lambda node: node is not target)[1]
    return unflatten(structure, made)


class Bytes:
    """A tree as bytes, which are only read back."""

    def __init__(self, tree: Any) -> None:
        self._tree = copied(tree)

    def __len__(self) -> int:
        raise NotEvaluable("the number of bytes of a tree")

    def tree(self) -> Any:
        """What they stand for."""
        return copied(self._tree)


setattr(Bytes, MARK, True)


@provide("flax.serialization.msgpack_serialize")
def msgpack_serialize(pytree: Any, in_place: bool = False) -> Bytes:
    return Bytes(pytree)


@provide("flax.serialization.msgpack_restore")
def msgpack_restore(encoded_pytree: Any) -> Any:
    if not isinstance(encoded_pytree, Bytes):
        raise NotEvaluable("bytes that this program does not make")
    return encoded_pytree.tree()


@provide("flax.serialization.to_bytes")
def to_bytes(target: Any) -> Bytes:
    return Bytes(to_state_dict(target))


@provide("flax.serialization.from_bytes")
def from_bytes(target: Any, encoded_bytes: Any) -> Any:
    return from_state_dict(target, msgpack_restore(encoded_bytes))
