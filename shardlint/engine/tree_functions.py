"""``jax.tree`` over trees of known structure, instances of classes included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardlint.engine import containers, tree_paths
from shardlint.engine.frames import Frame
from shardlint.engine.libraries import knows
from shardlint.engine.plain import constant
from shardlint.engine.sharding.manual_leaves import STRUCTURE, known, unflattened
from shardlint.engine.sharding.site import Site
from shardlint.engine.tree_maps import holds_instance, mapped
from shardlint.values import (
    ExternalValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_PREFIXES = ("jax.tree.", "jax.tree_util.tree_")


@knows((tree_paths.KEYSTR,), prefixes=_PREFIXES)
def call(site: Site) -> Value | None:
    """The result; None where the ops know enough."""
    it, frame, at = site.it, site.frame, site.at
    qualname, args, kwargs = site.qualname, site.args, site.kwargs
    written = tree_paths.call(qualname, args, kwargs)
    if written is not None:
        return written
    prefix = next((one for one in _PREFIXES if qualname.startswith(one)), None)
    if prefix is None or kwargs or not args:
        return None
    name = qualname.removeprefix(prefix)
    match name, len(args):
        case "map", _ if len(args) > 1 and holds_instance(args[1]):
            return mapped(
                lambda leaves: it.call(frame, args[0], leaves, {}, at),
                args[1],
                list(args[2:]),
            )
        case "map_with_path", _ if len(args) > 1 and (
            holds_instance(args[1]) or known(args[1]) is not None
        ):
            rest = [tree_paths.of_leaves(args[1]), *args[2:]]
            return mapped(
                lambda leaves: it.call(
                    frame, args[0], [leaves[1], leaves[0], *leaves[2:]], {}, at
                ),
                args[1],
                rest,
            )
        case "structure", 1:
            return _structure(args[0])
        case "unflatten", 2 if (
            isinstance(args[0], WrappedValue) and args[0].kind == STRUCTURE
        ):
            return unflattened(containers.copied(args[0].func), args[1])
        case _:
            return _leaves(it, frame, name, args, at)


def _leaves(
    it: Interpreter, frame: Frame, name: str, args: Sequence[Value], at: int
) -> Value | None:
    """Functions of the list of all leaves."""
    place = 1 if name == "reduce" else 0
    found = known(args[place]) if place < len(args) else None
    if found is None:
        return None
    listed = SequenceValue(tuple(found), "list")
    paths = tree_paths.listed(args[place])
    pairs = SequenceValue(
        tuple(map(SequenceValue, zip(paths, found, strict=True))), "list"
    )
    match name, len(args):
        case "leaves", 1:
            return listed
        case "flatten", 1:
            return SequenceValue((listed, _structure(args[0])))
        case "leaves_with_path", 1:
            return pairs
        case "flatten_with_path", 1:
            return SequenceValue((pairs, _structure(args[0])))
        case "reduce", 2 | 3 if holds_instance(args[1]):
            return it.apply(
                frame, "jax.tree.reduce", [args[0], listed, *args[2:]], {}, at
            )
        case _:
            return None


def _structure(tree: Value) -> Value:
    """As the tree is now: what changes it later does not change its structure."""
    return WrappedValue(STRUCTURE, containers.copied(tree))


def attribute(structure: WrappedValue, name: str) -> Value | None:
    """``.unflatten`` and ``.num_leaves`` of a structure."""
    if structure.kind != STRUCTURE:
        return None
    found = known(structure.func)
    match name:
        case "unflatten":
            return PartialValue(ExternalValue("jax.tree.unflatten"), (structure,))
        case "num_leaves" if found is not None:
            return constant(len(found))
        case _:
            return Unknown(f"{name} of a structure")
