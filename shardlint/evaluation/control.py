"""``scan``, ``cond``, loops, and functions that change nothing of what a function computes, in guarded code."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shardlint.evaluation import refusals
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import sending, tell_rounds, tick
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast, int_of, like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.joining import concatenate, stack
from shardtypes.semantics.lowerings.shapes import flip, moveaxis
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.trees import flatten, map_leaves, paths_of, unflatten


def transparent(fun: Any = None, *args: Any, **options: Any) -> Any:
    """What changes nothing that a function computes: gives the function itself; used with options only, a decorator."""
    if fun is None:
        return lambda function: function
    return fun


for _name in """equinox.filter_jit jax.named_call
                jax.custom_batching.custom_vmap shardtypes.typechecked typeguard.typechecked jaxtyping.jaxtyped
                beartype.beartype shardtypes.scope chex.assert_max_traces
                jax.sharding.auto_axes jax.sharding.explicit_axes""".split():
    provide(_name)(transparent)


@provide("jax.checkpoint")
@provide("equinox.filter_checkpoint")
def checkpoint(fun: Any = None, *args: Any, **options: Any) -> Any:
    """The function itself, which JAX may run once more for a gradient."""
    if fun is None:
        return checkpoint
    told = sending()
    if told is None:
        return fun

    @functools.wraps(fun)
    def run_again(*args: Any, **kwargs: Any) -> Any:
        with told.run_again():
            return fun(*args, **kwargs)

    return run_again


@provide("jaxtyping.jaxtyped")
def _jaxtyped(fun: Any = None, **options: Any) -> Any:
    return transparent(fun)


def sliced(tree: Any, i: int) -> Any:
    """One round's part of the arrays of a tree."""
    return map_leaves(lambda leaf: asarray(leaf)[i], tree)


def stacked(rows: Sequence[Any], axis: int = 0) -> Any:
    """Trees of one structure as one, whose arrays have a dimension for the trees."""
    return map_leaves(
        lambda *leaves: stack([asarray(leaf) for leaf in leaves], axis),
        rows[0],
        *rows[1:],
    )


def _length(xs: Any, length: Any) -> int:
    sizes = {int(asarray(leaf).dims[0]) for leaf in flatten(xs)[0]}  # type: ignore[arg-type]  # numbers
    if length is not None:
        sizes.add(int_of(length))
    if not sizes:
        raise ValueError("a scan over nothing")
    if len(sizes) > 1:
        raise refusals.sizes_disagree("a scan", sizes, "ST210")
    return sizes.pop()


def _kept(before: Any, after: Any) -> Any:
    """The carry, whose shapes and dtypes must not change."""
    first, structure = flatten(before)
    second, other = flatten(after)
    if structure != other:
        raise TypeError("the carry of a loop changes its structure")
    made = []
    for path, old, new in zip(paths_of(structure), first, second, strict=True):
        a, b = asarray(old), asarray(new)
        if a.dims != b.dims:
            raise refusals.carry_changes(path, _shape(a), _shape(b), is_of_sizes=True)
        if _differ_for_certain(a, b):
            raise refusals.carry_changes(
                path, str(a.dtype), str(b.dtype), is_of_sizes=False
            )
        made.append(
            b if b.dtype == a.dtype or a.weak else cast(b, a.dtype or "float32")
        )
    return unflatten(structure, made)


def _shape(array: Array) -> str:
    return f"of shape {array.shape}"


def _differ_for_certain(before: Array, after: Array) -> bool:
    """Whether two dtypes differ. A number of Python's takes the other dtype, and a setting makes others of those of 64
    bits."""
    kinds = {before.dtype, after.dtype}
    if None in kinds or before.weak or after.weak or len(kinds) == 1:
        return False
    return not any(str(kind).endswith(("64", "128")) for kind in kinds)


@provide("jax.lax.scan")
def scan(
    f: Any,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    **options: Any,
) -> Any:
    carry, rows = map_leaves(asarray, init), []
    for x in slices(xs, length, reverse):
        after, row = f(carry, x)
        carry = _kept(carry, after)
        rows.append(row)
    if reverse:
        rows.reverse()
    return carry, stacked(rows)


def slices(xs: Any, length: int | None, is_reversed: bool) -> Iterator[Any]:
    """What each round of a scan is given of a tree, in the order of the rounds. Raises NotEvaluable without any."""
    count = _length(xs, length)
    if not count:
        raise NotEvaluable("a scan over nothing")
    for i in reversed(range(count)) if is_reversed else range(count):
        tick(10)
        yield sliced(xs, i)


@provide("jax.lax.map")
def lax_map(f: Any, xs: Any, **options: Any) -> Any:
    return stacked([f(sliced(xs, i)) for i in range(_length(xs, None)) if tick(10)])


@provide("jax.lax.fori_loop")
def fori_loop(
    lower: Any, upper: Any, body_fun: Any, init_val: Any, **options: Any
) -> Any:
    carry = map_leaves(asarray, init_val)
    for i in range(int_of(lower), int_of(upper)):
        tick(10)
        carry = _kept(carry, body_fun(asarray(i), carry))
    return carry


def _same_everywhere(predicate: Array) -> bool:
    return predicate.value is not None and not predicate.value.axes


@provide("jax.lax.while_loop")
def while_loop(cond_fun: Any, body_fun: Any, init_val: Any) -> Any:
    carry = map_leaves(asarray, init_val)
    for rounds in itertools.count():
        tick(10)
        goes_on = asarray(cond_fun(carry))
        if goes_on.value is None:
            raise NotEvaluable("a loop whose end is not known")
        if not any(bool(part) for part in goes_on.value.parts):
            tell_rounds(rounds)
            break
        after = _kept(carry, body_fun(carry))
        if not _same_everywhere(goes_on):
            after = map_leaves(functools.partial(where, goes_on), after, carry)
        carry = after
    return carry


def _chosen(
    index: Array, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    if _same_everywhere(index):
        at = min(max(int(index), 0), len(branches) - 1)
        return map_leaves(asarray, branches[at](*operands))
    results = [branch(*operands) for branch in branches]
    which = e.clamp(like(0, index), index, like(len(branches) - 1, index))

    def select(*leaves: Any) -> Array:
        arrays = [asarray(leaf) for leaf in leaves]
        found = arrays[0]
        for i, array in enumerate(arrays[1:], start=1):
            found = where(e.eq(which, like(i, which)), array, found)
        return found

    return map_leaves(select, results[0], *results[1:])


@provide("jax.lax.cond")
def cond(
    pred: Any,
    true_fun: Any,
    false_fun: Any,
    *operands: Any,
    operand: Any = None,
    **options: Any,
) -> Any:
    if not callable(false_fun):  # the form with an operand for each branch
        first, second = (true_fun, false_fun), operands
        return cond(pred, lambda: first[1](first[0]), lambda: second[1](second[0]))
    given = operands if operand is None else (operand,)
    index = cast(
        asarray(pred) != 0 if asarray(pred).dtype != "bool" else asarray(pred), "int32"
    )
    return _chosen(index, [false_fun, true_fun], given)


@provide("jax.lax.switch")
def switch(
    index: Any,
    branches: Sequence[Any],
    *operands: Any,
    operand: Any = None,
    **options: Any,
) -> Any:
    return _chosen(
        asarray(index), list(branches), operands if operand is None else (operand,)
    )


@provide("jax.lax.associative_scan")
def associative_scan(fn: Any, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    front = map_leaves(lambda leaf: moveaxis(leaf, axis, 0), elems)
    turned = map_leaves(lambda leaf: flip(leaf, 0), front) if reverse else front
    count = _length(turned, None)

    def row(i: int) -> Any:
        return map_leaves(lambda leaf: moveaxis(leaf[i : i + 1], 0, axis), turned)

    rows = [row(0)]
    for i in range(1, count):
        tick(10)
        rows.append(fn(rows[-1], row(i)))
    joined = map_leaves(
        lambda *leaves: concatenate(list(leaves), axis), rows[0], *rows[1:]
    )
    return map_leaves(lambda leaf: flip(leaf, axis), joined) if reverse else joined


@provide("jax.eval_shape")
def eval_shape(fun: Any, *args: Any, **kwargs: Any) -> Any:
    """What a function gives, for its shapes: its numbers are there as well."""
    from shardlint.evaluation.arrays import zeros_of

    return fun(*map_leaves(zeros_of, args), **map_leaves(zeros_of, kwargs))


@provide("jax.numpy.vectorize")
def vectorize(pyfunc: Any, **options: Any) -> Any:
    raise NotEvaluable("jnp.vectorize")
