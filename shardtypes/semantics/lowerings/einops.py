"""einops: ``rearrange``, ``reduce``, ``repeat`` and ``einsum``."""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import divided, of_rank, require_equal
from shardtypes.semantics.lowerings import reductions
from shardtypes.semantics.lowerings.contractions import (
    check_equation,
    of_terms,
    parsed,
    summed,
)
from shardtypes.semantics.lowerings.convert import (
    asarray,
    number_of,
    promoted,
    shape_of,
    sizes_of,
    with_sizes,
)
from shardtypes.semantics.lowerings.joining import concatenate, items_of, stack
from shardtypes.semantics.lowerings.shapes import slice_along
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_number

Groups = list[list[str]]
"""The names in each dimension of one side of a pattern; none for ``1`` and ``()``."""
Lengths: TypeAlias = dict[str, Any]
"""The size of each name."""
Shapes: TypeAlias = list[tuple[Any, ...]]
_FLAT = "(...)"
"""An ellipsis in parentheses: all its dimensions in one."""


def _side(text: str, pattern: str) -> Groups:
    """Raises Refused for what is no side of a pattern."""
    groups: Groups = []
    inside: list[str] | None = None
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word in ("(", ")") and (inside is None) != (word == "("):
            raise Refused(f"unbalanced parentheses in '{pattern}'", "patterns")
        if word == "(":
            inside = []
        elif word == ")":
            groups.append(inside or [])
            inside = None
        elif not _is_name(word):
            raise Refused(f"'{word}' in '{pattern}' is not a name", "patterns")
        elif word == "1" and inside is not None:
            continue
        elif inside is not None:
            inside.append(_FLAT if word == "..." else word)
        else:
            groups.append([] if word == "1" else [word])
    if inside is not None:
        raise Refused(f"unbalanced parentheses in '{pattern}'", "patterns")
    names = _names(groups)
    for name in names:
        if names.count(name) > 1 and name != "_":
            raise Refused(f"'{name}' is twice on one side of '{pattern}'", "patterns")
    return groups


def _is_name(word: str) -> bool:
    return word == "..." or word.isidentifier() or word.isdecimal()


def _names(groups: Groups) -> list[str]:
    """The names of a side, without the numbers among them."""
    words = [word for group in groups for word in group if not word.isdecimal()]
    return ["..." if word == _FLAT else word for word in words]


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
            text = f"'{name}' is only on the {where} of '{pattern}'"
            raise Refused(text, "patterns")
    for name in sorted(given - source - target):
        text = f"'{name}' has a length but is not in '{pattern}'"
        raise Refused(text, "patterns")


def _dotted(groups: Groups, names: Sequence[str]) -> Groups:
    """The pattern with names of its own in place of an ellipsis."""
    found: Groups = []
    for group in groups:
        if group == ["..."]:
            found.extend([name] for name in names)
        else:
            parts = [names if name == _FLAT else [name] for name in group]
            found.append([one for part in parts for one in part])
    return found


def _sizes(groups: Groups, array: Array, given: Lengths, pattern: str) -> Lengths:
    """The size of each name. Raises Refused where the pattern does not fit the array."""
    sizes = dict(given)
    for k, (group, whole) in enumerate(zip(groups, sizes_of(array), strict=True)):
        found = _in_group(k, group, whole, sizes, pattern)
        if found is not None:
            name, size = found
            sizes[name] = size
    return sizes


def _in_group(
    k: int, group: list[str], whole: Any, sizes: Lengths, pattern: str
) -> tuple[str, Any] | None:
    """The name whose size follows from that of a dimension and the others in it; None where all are known."""
    left = [name for name in group if name not in sizes and not name.isdigit()]
    if len(left) > 1:
        names = " and ".join(left)
        text = f"the lengths of {names} in '{pattern}' cannot be inferred"
        raise Refused(text, "patterns")
    others: Any = 1
    for name in group:
        if name not in left:
            others = others * (int(name) if name.isdigit() else sizes[name])
    if left:
        text = (
            f"dimension {k} is {whole}, not divisible by {others} as '{pattern}' needs"
        )
        why = Refused(text, "patterns", 0)
        if is_number(others) and not others:
            raise why
        return left[0], divided(whole, others, why)
    if group:
        names = _written(group)
        text = f"dimension {k} is {whole}, but '{names}' in '{pattern}' is {others}"
    else:
        text = f"dimension {k} is {whole}, but 1 in '{pattern}'"
    require_equal(whole, others, Refused(text, "patterns", 0))
    return None


def _written(group: Sequence[str]) -> str:
    if len(group) == 1:
        return group[0]
    return f"({' '.join(group)})"


def _array_of(tensor: Any, before: Groups, pattern: str) -> tuple[Array, int]:
    """The operand, in the dimensions of the left side, and how many of these an ellipsis stands for. Raises Refused
    where it has others."""
    if isinstance(tensor, (list, tuple)):
        array = stack(tensor)
    else:
        array = asarray(tensor)
    if ["..."] not in before:
        array = of_rank(array, len(before))
    least = len([group for group in before if group != ["..."]])
    more = array.rank - least
    if more < 0 or (more and least == len(before)):
        count = least if least == len(before) else f"at least {least}"
        raise Refused(f"'{pattern}' takes {count} dimensions", "patterns", 0)
    return array, more


def _prepared(
    tensor: Any, pattern: Any, given: Lengths, form: str
) -> tuple[Array, list[str], Groups, Lengths]:
    """The array with a dimension for each name of the left side, these names, the right side, and the sizes."""
    if not isinstance(pattern, str):
        raise Unsupported("a pattern that is not known")
    left, arrow, right = pattern.partition("->")
    if not arrow:
        raise Refused(f"'{pattern}' has no '->'", "patterns")
    before = _side(left, pattern)
    after = _side(right, pattern)
    _check_names(before, after, pattern, set(given), form)
    if any(_FLAT in group for group in before):
        raise Refused(f"'...' in parentheses on the left of '{pattern}'", "patterns")
    array, hidden = _array_of(tensor, before, pattern)
    dots = [f"…{k}" for k in range(hidden)]
    before = _dotted(before, dots)
    after = _dotted(after, dots)
    numbers = {name: number_of(size) for name, size in given.items()}
    sizes = _sizes(before, array, numbers, pattern)
    names = [name for group in before for name in group]
    new_sizes = [sizes[name] for name in names]
    flat = s.reshape(array, new_sizes=tuple(new_sizes))
    return flat, names, after, sizes


def _made(
    array: Array, names: Sequence[str], after: Groups, sizes: dict[str, int]
) -> Array:
    """The array, a dimension for each name, in the form of the right side."""
    order = [name for group in after for name in group]
    places = [names.index(name) for name in order]
    array = s.transpose(array, permutation=tuple(places))
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
        "any": reductions.any_,
        "all": reductions.all_,
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
        raise Refused(f"'{pattern}' has no '->'", "equations")
    words = [part.split() for part in left.split(",")]
    output = right.split()
    names = list(dict.fromkeys(name for part in words for name in part))
    check_equation(pattern, words, output)
    letters = dict(zip(names, string.ascii_letters, strict=False))
    arrays = promoted(*map(asarray, tensors))
    terms = [["." if name == "..." else name for name in part] for part in words]
    arrays = of_terms(pattern, terms, arrays)
    letters["..."] = "..."
    written = ",".join(_in_letters(part, letters) for part in words)
    equation = parsed(f"{written}->{_in_letters(output, letters)}", arrays)
    return summed(pattern, equation, words)


# --- pack, unpack ---------------------------------------------------------------------------------------------------


def _star(pattern: Any) -> tuple[int, int]:
    """How many names stand before and after the star."""
    if not isinstance(pattern, str):
        raise Unsupported("a pattern that is not known")
    names = pattern.split()
    is_repeated = len(set(names)) < len(names)
    if is_repeated or names.count("*") != 1:
        text = f"'{pattern}' needs names, each once, and one '*'"
        raise Refused(text, "patterns")
    if any(name != "*" and not name.isidentifier() for name in names):
        raise Refused(f"'{pattern}' has something that is not a name", "patterns")
    before = names.index("*")
    return before, len(names) - before - 1


@lowering("einops.pack")
def pack(tensors: Any, pattern: Any) -> tuple[Array, Shapes]:
    """The packed array, and the shapes that stood at the star."""
    before, after = _star(pattern)
    parts = items_of(tensors)
    first = parts[0].dims
    shapes = []
    flat = []
    for part in parts:
        if part.rank < before + after:
            text = f"needs the {before + after} dimensions that '{pattern}' names"
            raise Refused(text, "patterns")
        for i in (*range(before), *range(-after, 0)):
            text = f"dimension {i} differs"
            require_equal(first[i], part.dims[i], Refused(text, "patterns"))
        end = part.rank - after
        middle = part.dims[before:end]
        shapes.append(middle)
        count: Any = math.prod(middle)
        sizes = (*part.dims[:before], count, *part.dims[end:])
        flat.append(s.reshape(part, new_sizes=sizes))
    return concatenate(flat, before), shapes


@lowering("einops.unpack")
def unpack(tensor: Any, packed_shapes: Any, pattern: Any) -> list[Array]:
    """One array for each packed shape, which takes the place of the star."""
    before, after = _star(pattern)
    array = of_rank(asarray(tensor), before + after + 1)
    if array.rank != before + after + 1:
        text = f"does not have the {before + after + 1} dimensions of '{pattern}'"
        raise Refused(text, "patterns")
    total = array.dims[before]
    shapes = _inferred([shape_of(shape) for shape in packed_shapes], total)
    counts: list[Any] = [math.prod(shape) for shape in shapes]
    why = Refused(f"shapes of {sum(counts)} elements in all", "patterns")
    require_equal(sum(counts), total, why)
    found = []
    start: Any = 0
    for shape, count in zip(shapes, counts, strict=True):
        part = slice_along(array, start, start + count, before)
        sizes = with_sizes(array.dims, before, *shape)
        found.append(s.reshape(part, new_sizes=sizes))
        start = start + count
    return found


def _inferred(shapes: Shapes, total: Any) -> Shapes:
    """The shapes with a size in the place of -1, which one of them may have."""
    if not any(-1 in shape for shape in shapes):
        return shapes
    left = total
    for shape in shapes:
        if -1 not in shape:
            left = left - math.prod(shape)
    found = []
    for shape in shapes:
        if -1 in shape:
            others = [size for size in shape if size != -1]
            size = divided(left, math.prod(others))
            shape = with_sizes(shape, shape.index(-1), size)
        found.append(shape)
    return found


def _in_letters(names: Sequence[str], letters: Mapping[str, str]) -> str:
    return "".join(letters[name] for name in names)
