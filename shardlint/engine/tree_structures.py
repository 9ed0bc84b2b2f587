"""Trees that ``jax.tree.map`` cannot go through together, since one has a part that the other has not."""

from __future__ import annotations

from shardlint import messages
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import may_be_tree
from shardlint.ops.registry import is_none
from shardlint.values import (
    ArrayValue,
    DictValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    StringValue,
    Value,
)

#: They take a function, then trees.
_MAPS = ("jax.tree.map", "jax.tree.map_with_path", "jax.tree_util.tree_map_with_path")
_LEAVES = (ArrayValue, IntValue, ScalarValue, StringValue, Literal)


@knows(_MAPS, first=True)
def check(site: Site) -> Value | None:
    """Report trees that certainly differ from the first where that has parts."""
    has_own_leaves = not is_none(site.kwargs.get("is_leaf", Literal(None)))
    if has_own_leaves or len(site.args) < 3:
        return None
    first = site.args[1]
    for position, other in enumerate(site.args[2:], 2):
        wrong = difference(first, other)
        if wrong is not None:
            operand = site.operand(position, "")
            at = site.at if operand is None else operand.at
            site.report("ST220", at, messages.other_tree(site.qualname, wrong))
            break
    return None


def difference(tree: Value, other: Value, path: str = "") -> str | None:
    """Where and how another tree certainly lacks the parts of one, in words. What is a leaf of the one may be anything
    in the other."""
    kinds = _kind(tree), _kind(other)
    if "" in kinds or kinds[0] == "a leaf":
        return None
    if kinds[0] != kinds[1]:
        return f"{path or 'the first'} is {kinds[0]}, and here {kinds[1]}"
    parts, others = _parts(tree), _parts(other)
    if parts.keys() != others.keys():
        if kinds[0] == "a list":  # one may have grown unseen
            return None
        mine, theirs = _counted(tree), _counted(other)
        return f"{path or 'the first'} has {mine}, and here {theirs}"
    found = (
        difference(part, others[key], f"{path}[{key!r}]") for key, part in parts.items()
    )
    return next((one for one in found if one is not None), None)


def _kind(value: Value) -> str:
    """What a tree is at its top, in words; '' where that is not certain."""
    match value:
        case Literal(value=None):
            return "None"
        case SequenceValue(kind="tuple" | "list" as kind, names=None):
            return f"a {kind}"
        case DictValue():
            return "a dict"
        case _ if isinstance(value, _LEAVES) and not may_be_tree(value):
            return "a leaf"
        case _:
            return ""


def _parts(value: Value) -> dict[object, Value]:
    if isinstance(value, SequenceValue):
        return dict(enumerate(value.items))
    return dict(value.items) if isinstance(value, DictValue) else {}


def _counted(value: Value) -> str:
    if isinstance(value, DictValue):
        return "the keys " + (", ".join(repr(key) for key, _ in value.items) or "()")
    count = len(_parts(value))
    return f"{count} {'entry' if count == 1 else 'entries'}"
