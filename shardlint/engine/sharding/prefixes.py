"""Trees of specs against the trees that they are given for: such a tree may end above the other, but not differ."""

from __future__ import annotations

from shardlint.engine.trees import children, is_leaf, may_be_tree
from shardlint.values import DictValue, InstanceValue, SequenceValue, Value

Path = tuple[object, ...]


def mismatch(value: Value, specs: Value, path: Path = ()) -> tuple[Path, str] | None:
    """Where a tree of specs certainly differs from the tree of arrays, and how; None where JAX may accept it."""
    wanted = children(specs)
    if not wanted:
        return None
    if may_be_tree(value):
        return None
    if is_leaf(value):
        return path, f"is one array, but its specs are {_text(specs)}"
    parts = children(value)
    if parts is None:
        return None
    if isinstance(specs, DictValue) != isinstance(value, DictValue):
        return (
            (path, f"is {_text(value)}, but its specs are {_text(specs)}")
            if _plain(value, specs)
            else None
        )
    if isinstance(specs, DictValue):
        have, want = dict(parts), dict(wanted)
        if have.keys() != want.keys():
            lost = next((key for key in have if key not in want), None)
            which = (
                f"has {lost!r}, which has no spec"
                if lost is not None
                else _more(have, want)
            )
            return path, which
    elif isinstance(value, InstanceValue) or isinstance(specs, InstanceValue):
        if not (
            isinstance(value, InstanceValue)
            and isinstance(specs, InstanceValue)
            and value.cls is specs.cls
        ):
            return None
    elif (
        isinstance(value, SequenceValue)
        and isinstance(specs, SequenceValue)
        and len(parts) != len(wanted)
    ):
        if value.kind != "tuple" or specs.kind != "tuple":
            return None  # lists may have grown unseen
        return path, f"is {_text(value)}, but its specs are {_text(specs)}"
    given = dict(wanted)
    for key, item in parts:
        found = mismatch(item, given[key], (*path, key)) if key in given else None
        if found is not None:
            return found
    return None


def _plain(value: Value, specs: Value) -> bool:
    """Whether both are trees that Python makes, no instances of classes."""
    return not isinstance(value, InstanceValue) and not isinstance(specs, InstanceValue)


def _more(have: dict[object, Value], want: dict[object, Value]) -> str:
    return (
        f"has no {next(key for key in want if key not in have)!r}, which its specs have"
    )


def _text(tree: Value) -> str:
    parts = children(tree) or []
    what = (
        "dict"
        if isinstance(tree, DictValue)
        else tree.kind
        if isinstance(tree, SequenceValue)
        else "class"
    )
    return f"a {what} of {len(parts)}" if what != "class" else "a class"
