"""einops: ``rearrange``, ``reduce``, ``repeat`` and ``einsum``."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lowerings import reductions
from shardtypes.semantics.lowerings.contractions import (
    check_equation,
    check_terms,
    contracted,
    parsed,
)
from shardtypes.semantics.lowerings.convert import (
    asarray,
    number_of,
    promoted,
    sizes_of,
)
from shardtypes.semantics.lowerings.joining import stack
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Refused, lowering
from shardtypes.semantics.sizes import is_number

Groups = list[list[str]]
"""The names in each dimension of one side of a pattern; none for ``1`` and ``()``."""


def _side(text: str, pattern: str) -> Groups:
    """Raises Refused for what is no side of a pattern."""
    groups: Groups = []
    inside: list[str] | None = None
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word in ("(", ")") and (inside is None) != (word == "("):
            raise Refused(f"unbalanced parentheses in '{pattern}'")
        if word == "(":
            inside = []
        elif word == ")":
            groups.append(inside or [])
            inside = None
        elif not _is_name(word):
            raise Refused(f"'{word}' in '{pattern}' is not a name")
        elif word == "1" and inside is not None:
            continue
        elif inside is not None:
            inside.append(word)
        else:
            groups.append([] if word == "1" else [word])
    if inside is not None:
        raise Refused(f"unbalanced parentheses in '{pattern}'")
    for name in _names(groups):
        if sum(group.count(name) for group in groups) > 1 and name != "_":
            raise Refused(f"'{name}' is twice on one side of '{pattern}'")
    return groups


def _is_name(word: str) -> bool:
    return word == "..." or word.isidentifier() or word.isdecimal()


def _names(groups: Groups) -> list[str]:
    """The names of a side, without the numbers among them."""
    return [name for group in groups for name in group if not name.isdecimal()]


def _check_names(
    before: Groups, after: Groups, pattern: str, given: set[str], form: str
) -> None:
    """Raises Refused for names that stand on one side only, and may not."""
    source = set(_names(before))
    target = set(_names(after))
    new = target - source
    if form == "repeat":
        new -= given
    if form == "reduce":
        lost = set()
    else:
        lost = source - target
    for names, where in ((new, "right"), (lost, "left")):
        for name in sorted(names):
            raise Refused(f"'{name}' is only on the {where} of '{pattern}'")
    for name in sorted(given - source - target):
        text = f"'{name}' has a length but is not in '{pattern}'"
        raise Refused(text)


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


def _sizes(
    groups: Groups, array: Array, given: dict[str, int], pattern: str
) -> dict[str, int]:
    """The size of each name. Raises Refused where the pattern does not fit the array."""
    if len(groups) != array.rank:
        raise Refused(f"'{pattern}' takes {len(groups)} dimensions", "ranks")
    sizes = dict(given)
    for k, (group, whole) in enumerate(zip(groups, sizes_of(array), strict=True)):
        open_ = [name for name in group if name not in sizes and not name.isdigit()]
        known: Any = 1
        for name in group:
            known = known * (int(name) if name.isdigit() else sizes.get(name, 1))
        if not open_:
            text = f"dimension {k} is {whole}, but {known} in '{pattern}'"
            require_equal(whole, known, text)
            continue
        if len(open_) > 1:
            names = " and ".join(open_)
            text = f"the lengths of {names} in '{pattern}' cannot be inferred"
            raise Refused(text)
        if is_number(whole) and is_number(known) and (not known or whole % known):
            text = f"dimension {k} is {whole}, not divisible by {known} as '{pattern}' needs"
            raise Refused(text, "sizes")
        sizes[open_[0]] = whole // known
    return sizes


def _prepared(
    tensor: Any, pattern: str, given: dict[str, Any], form: str
) -> tuple[Array, list[str], Groups, dict[str, int]]:
    """The array with a dimension for each name of the left side, these names, the right side, and the sizes."""
    if isinstance(tensor, (list, tuple)):
        array = stack(tensor)
    else:
        array = asarray(tensor)
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise Refused(f"'{pattern}' has no '->'")
    before = _side(left, pattern)
    after = _side(right, pattern)
    _check_names(before, after, pattern, set(given), form)
    hidden = array.rank - len([group for group in before if group != ["..."]])
    dots = [f"…{k}" for k in range(hidden)]
    before = _dotted(before, dots)
    after = _dotted(after, dots)
    numbers = {name: number_of(size) for name, size in given.items()}
    sizes = _sizes(before, array, numbers, pattern)
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
    array, names, after, sizes = _prepared(tensor, pattern, axes_lengths, "rearrange")
    return _made(array, names, after, sizes)


@lowering("einops.reduce")
def reduce(tensor: Any, pattern: str, reduction: Any, **axes_lengths: Any) -> Array:
    array, names, after, sizes = _prepared(tensor, pattern, axes_lengths, "reduce")
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
    array, names, after, sizes = _prepared(tensor, pattern, axes_lengths, "repeat")
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
    left, arrow, right = str(pattern).partition("->")
    if not arrow:
        raise Refused(f"'{pattern}' has no '->'")
    words = [part.split() for part in left.split(",")]
    output = right.split()
    names = list(dict.fromkeys(name for part in words for name in part))
    check_equation(pattern, words, output)
    letters = dict(zip(names, string.ascii_letters, strict=False))
    arrays = promoted(*map(asarray, tensors))
    ranks = [array.rank for array in arrays]
    terms = [["." if name == "..." else name for name in part] for part in words]
    check_terms(pattern, terms, ranks)
    letters["..."] = "..."
    written = ",".join(_written(part, letters) for part in words)
    inputs, right = parsed(f"{written}->{_written(output, letters)}", ranks)
    return contracted(arrays, inputs, right)


def _written(names: Sequence[str], letters: Mapping[str, str]) -> str:
    return "".join(letters[name] for name in names)
