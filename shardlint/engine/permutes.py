"""A reshape that gives the dimensions of its operand in another order: its elements stay where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product

from shardlint.values import ArrayValue, Value
from shardtypes.lang import Size, format_shape

_MAX_RANK = 6


def permuted(before: Value, after: Value) -> str | None:
    """What is wrong with a reshape, as a message; None where nothing certainly is."""
    if not (isinstance(before, ArrayValue) and isinstance(after, ArrayValue)):
        return None
    source, target = _sizes(before), _sizes(after)
    if source is None or target is None or not _telling(source):
        return None
    if not any(_reorders(source, one) for one in _completed(source, target)):
        return None
    if any(size.is_opaque for size in source) and _fits_equal_sizes(source, target):
        return None
    shapes = [
        format_shape([d.size for d in value.dims or ()]) for value in (before, after)
    ]
    return f"reshape from {shapes[0]!r} to {shapes[1]!r} does not move elements: use a transpose"


def _reorders(source: list[Size], target: list[Size]) -> bool:
    """Whether the target has the factors of the source in another order, and no order of them explains it."""
    partings = [
        parts for parts in _partings(source, target) if _is_regrouped(parts, target)
    ]
    return (
        bool(partings)
        and not _splits(source, target)
        and not any(_in_order(parts, target) for parts in partings)
    )


def _completed(source: list[Size], target: list[Size]) -> Iterator[list[Size]]:
    """The target; and where it has sizes of its own, such as parameters, the target with what one of these has to be:
    a reshape keeps the number of elements, so that in ``(h, t, e)`` of ``(t, d)`` e is ``d // h``."""
    yield target
    total = _product(source)
    if _product(target) == total or any(size.is_opaque for size in source):
        return
    known = {name for size in source for name in size.symbols}
    for i, size in enumerate(target):
        if size.constant is not None or known & set(size.symbols):
            continue
        rest = _product([*target[:i], *target[i + 1 :]])
        if rest.constant != 0:
            yield [*target[:i], total // rest, *target[i + 1 :]]


def _is_regrouped(parts: list[list[Size]], target: list[Size]) -> bool:
    """Whether the target is made of the factors of the source's dimensions."""
    atoms = [atom for factors in parts for atom in factors]
    return len(atoms) <= _MAX_RANK and _regroups(atoms, target)


def _partings(source: list[Size], target: list[Size]) -> Iterator[list[list[Size]]]:
    """The factors of each dimension: those that are written in its size; or, of one dimension, two that the target has,
    as ``h`` and ``d // h`` are of ``d``."""
    whole = [_factors(size) for size in source]
    yield whole
    for i, size in enumerate(source):
        for first, second in permutations(target, 2):
            if size in (first, second) or first == 1:
                continue
            if size // first == second:
                yield [*whole[:i], [first, second], *whole[i + 1 :]]


def _sizes(value: ArrayValue) -> list[Size] | None:
    """The sizes other than 1, if all are known."""
    sizes = [dim.size for dim in value.dims or ()]
    known = [size for size in sizes if size is not None]
    return (
        [size for size in known if size != 1]
        if len(known) == len(sizes) and sizes
        else None
    )


def _telling(source: list[Size]) -> bool:
    """Whether sizes in another order mean dimensions in another order: each name is one dimension's, and there are two
    of them; or one, and three dimensions of sizes that are numbers, as of images. Where two dimensions are of one name,
    as q and 2*q-1 are, moving elements from row to row may be meant: so scores are shifted by relative positions."""
    named = [
        factor for size in source if size.constant is None for factor in _factors(size)
    ]
    symbols = [name for factor in named for name in factor.symbols]
    numbers = sum(size.constant is not None for size in source)
    return len(set(symbols)) == len(symbols) and (
        len(named) > 1 or (len(named) == 1 and numbers > 2)
    )


def _factors(size: Size) -> list[Size]:
    """The sizes whose product a size is: those of ``h*e`` are h and e, in an order that nothing tells."""
    if size.constant is not None or len(size.terms) != 1:
        return [size]
    names, number = size.terms[0]
    return [Size({(atom,): 1}) for atom in names] if number == 1 else [size]


def _in_order(parts: list[list[Size]], target: list[Size]) -> bool:
    """Whether the target's dimensions come one after the other in the source, whatever order its factors have."""
    orders = product(*(permutations(factors) for factors in parts))
    return any(
        _contiguous([atom for factors in order for atom in factors], target)
        for order in orders
    )


def _product(sizes: Sequence[Size]) -> Size:
    result = Size.const(1)
    for size in sizes:
        result = result * size
    return result


def _contiguous(source: list[Size], target: list[Size]) -> bool:
    """Whether the target's dimensions are neighbours of the source joined, in their order."""
    i = 0
    for size in target:
        for j in range(i + 1, len(source) + 1):
            if _product(source[i:j]) == size:
                i = j
                break
        else:
            return False
    return i == len(source)


def _splits(source: list[Size], target: list[Size]) -> bool:
    """Whether a dimension may be meant as two, the first of which ends a dimension of the target: in
    ``(n, a*n, b)`` to ``(n*a, n*b)`` the blocks stay where they are."""
    front = list(source)
    for size in target:
        taken = Size.const(1)
        while front and (size // (taken * front[0])) * taken * front[0] == size:
            taken = taken * front.pop(0)
        rest = size.divides_exactly(taken)
        if rest is None:
            return False
        if rest != 1:
            remains = front[0].divides_exactly(rest) if front else None
            if remains is None:
                return False
            front[0] = remains
    return not front


def _fits_equal_sizes(source: list[Size], target: list[Size]) -> bool:
    """Whether a reshape divides or joins whole dimensions, were they of equal size: what ``(e, h*d)`` to ``(h, d, e)``
    is where ``e == h*d``. Sizes that no annotation names may be equal in each call."""
    few, many = sorted((source, target), key=len)
    return len(few) < len(many) and any(
        _contiguous(many, list(order)) for order in permutations(few)
    )


def _regroups(source: list[Size], target: list[Size]) -> bool:
    """Whether each target dimension is a product of source dimensions, each of them used once."""
    rest = list(source)
    for size in target:
        found = next(
            (
                chosen
                for count in range(1, len(rest) + 1)
                for chosen in combinations(rest, count)
                if _product(chosen) == size
            ),
            None,
        )
        if found is None:
            return False
        for part in found:
            rest.remove(part)
    return not rest
