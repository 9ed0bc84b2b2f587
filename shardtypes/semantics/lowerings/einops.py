"""einops: ``rearrange``, ``reduce``, ``repeat`` and ``einsum``."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import reductions
from shardtypes.semantics.lowerings.contractions import contracted
from shardtypes.semantics.lowerings.convert import (
    asarray,
    number_of,
    promoted,
    sizes_of,
)
from shardtypes.semantics.lowerings.joining import stack
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Unsupported, lowering
from shardtypes.semantics.sizes import is_number

Groups = list[list[str]]
"""The names in each dimension of one side of a pattern; none for ``1`` and ``()``."""


def _side(text: str) -> Groups:
    groups: Groups = []
    inside: list[str] | None = None
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            inside = []
        elif word == ")":
            groups.append(inside or [])
            inside = None
        elif inside is not None:
            inside.append(word)
        else:
            groups.append([] if word == "1" else [word])
    return groups


def _dotted(groups: Groups, names: Sequence[str]) -> Groups:
    """The pattern with names of its own in place of an ellipsis."""
    found: Groups = []
    for group in groups:
        if group == ["..."]:
            found.extend([name] for name in names)
        else:
            found.append(
                [one for name in group for one in (names if name == "..." else [name])]
            )
    return found


def _sizes(groups: Groups, array: Array, given: dict[str, int]) -> dict[str, int]:
    """The size of each name. Raises ValueError where the pattern does not fit the array."""
    if len(groups) != array.rank:
        raise ValueError("the pattern has another number of dimensions than the array")
    sizes = dict(given)
    for group, whole in zip(groups, sizes_of(array), strict=True):
        open_ = [name for name in group if name not in sizes and not name.isdigit()]
        known: Any = 1
        for name in group:
            known = known * (int(name) if name.isdigit() else sizes.get(name, 1))
        is_fitting = len(open_) <= 1 and (bool(open_) or known == whole)
        if is_number(whole) and is_number(known):
            is_fitting = is_fitting and not whole % known
        if not is_fitting:
            raise ValueError("the pattern does not fit the sizes")
        if open_:
            sizes[open_[0]] = whole // known
    return sizes


def _prepared(
    tensor: Any, pattern: str, given: dict[str, Any]
) -> tuple[Array, list[str], Groups, dict[str, int]]:
    """The array with a dimension for each name of the left side, these names, the right side, and the sizes."""
    if isinstance(tensor, (list, tuple)):
        array = stack(tensor)
    else:
        array = asarray(tensor)
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise Unsupported("a pattern without an arrow")
    before = _side(left)
    after = _side(right)
    hidden = array.rank - len([group for group in before if group != ["..."]])
    dots = [f"…{k}" for k in range(hidden)]
    before = _dotted(before, dots)
    after = _dotted(after, dots)
    numbers = {name: number_of(size) for name, size in given.items()}
    sizes = _sizes(before, array, numbers)
    names = [name for group in before for name in group]
    flat = s.reshape(array, new_sizes=tuple(sizes[name] for name in names))
    return flat, names, after, sizes


def _made(
    array: Array, names: Sequence[str], after: Groups, sizes: dict[str, int]
) -> Array:
    """The array, a dimension for each name, in the form of the right side."""
    order = [name for group in after for name in group]
    array = s.transpose(array, permutation=tuple(names.index(name) for name in order))
    shape = []
    for group in after:
        size: Any = 1
        for name in group:
            size = size * sizes[name]
        shape.append(size)
    return s.reshape(array, new_sizes=tuple(shape))


@lowering("einops.rearrange")
def rearrange(tensor: Any, pattern: str, **axes_lengths: Any) -> Array:
    array, names, after, sizes = _prepared(tensor, pattern, axes_lengths)
    return _made(array, names, after, sizes)


@lowering("einops.reduce")
def reduce(tensor: Any, pattern: str, reduction: Any, **axes_lengths: Any) -> Array:
    array, names, after, sizes = _prepared(tensor, pattern, axes_lengths)
    kept = {name for group in after for name in group}
    gone = tuple(k for k, name in enumerate(names) if name not in kept)
    functions: dict[str, Callable[..., Array]] = {
        "sum": reductions.sum_,
        "mean": reductions.mean,
        "max": reductions.max_,
        "min": reductions.min_,
        "prod": reductions.prod,
    }
    if isinstance(reduction, str):
        function = functions[reduction]
    else:
        function = reduction
    return _made(
        function(array, gone), [name for name in names if name in kept], after, sizes
    )


@lowering("einops.repeat")
def repeat(tensor: Any, pattern: str, **axes_lengths: Any) -> Array:
    array, names, after, sizes = _prepared(tensor, pattern, axes_lengths)
    new = [name for group in after for name in group if name not in names]
    sizes.update({name: int(name) for name in new if name.isdigit()})
    shape = (*array.dims, *(sizes[name] for name in new))
    spread = s.broadcast_in_dim(
        array, shape=shape, broadcast_dimensions=tuple(range(array.rank))
    )
    return _made(spread, [*names, *new], after, sizes)


@lowering("einops.einsum")
def einsum(*tensors_and_pattern: Any) -> Array:
    *tensors, pattern = tensors_and_pattern
    left, _, right = str(pattern).partition("->")
    words = [part.split() for part in left.split(",")]
    names = list(dict.fromkeys(name for part in words for name in part))
    letters = dict(zip(names, string.ascii_letters, strict=False))
    arrays = promoted(*[asarray(tensor) for tensor in tensors])
    inputs = ["".join(letters[name] for name in part) for part in words]
    return contracted(arrays, inputs, "".join(letters[name] for name in right.split()))
