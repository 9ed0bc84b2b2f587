"""``jax.random``. Keys are typed (``jax.random.key``), or arrays of two numbers in a last dimension (``PRNGKey``)."""

from __future__ import annotations

import math
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.lang.size import Size
from shardtypes.semantics import kinds
from shardtypes.semantics.array import Array, Shape, UnknownRank
from shardtypes.semantics.comparison import common_shape, require_equal
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axis_of,
    cast,
    dtype_name,
    int_of,
    like,
    not_read,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.elementwise import clip
from shardtypes.semantics.lowerings.indexing import take
from shardtypes.semantics.lowerings.operators import add, multiply
from shardtypes.semantics.lowerings.reductions import argmax, argsort, top_k
from shardtypes.semantics.lowerings.shapes import (
    moveaxis,
    require_broadcast,
    reshape,
)
from shardtypes.semantics.primitive import evaluating
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import random as p
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.sizes import is_number

_RANDOM = "jax.random"


@lowering(f"{_RANDOM}.key", unread="impl dtype")
def key(seed: Any) -> Array:
    return p.random_wrap(untyped_key(seed))


@lowering(f"{_RANDOM}.PRNGKey")
def untyped_key(seed: Any, *, impl: Any = None) -> Array:
    not_read(impl=impl)
    number = int_of(seed)
    words = np.asarray([(number >> 32) & 0xFFFFFFFF, number & 0xFFFFFFFF], np.uint32)
    return Array((2,), "uint32", value=Simulated.everywhere(words))


@lowering(f"{_RANDOM}.wrap_key_data", unread="impl dtype")
def wrap_key_data(key_bits_array: ArrayLike) -> Array:
    words = asarray(key_bits_array)
    if words.rank == 0:
        raise Refused("needs the words of a key in a last dimension", "ranks")
    dtype = words.dtype
    if dtype is not None and "uint32" not in dtypes.members(dtype):
        got = dtypes.written(dtype)
        raise Refused(f"the words of a key are uint32, got {got}", "dtypes")
    if words.dims[-1] != 2:
        raise Unsupported("a key of another generator than threefry")
    return p.random_wrap(words)


@lowering(f"{_RANDOM}.key_data")
def key_data(keys: Array) -> Array:
    if p.is_typed(keys):
        return p.random_unwrap(keys)
    if keys.value is None and keys.dtype != "uint32":
        raise UnknownRank  # typed or not, as its dtype is not known
    return keys


@lowering(f"{_RANDOM}.clone")
def clone(key: Array) -> Array:
    return key


@lowering(f"{_RANDOM}.split")
def split_key(key: Array, num: Any = 2) -> Array:
    if key.shape is None:
        raise UnknownRank
    return split(key, num)


def split(key: Array, num: Any = 2) -> Array:
    """Keys to draw with, of any key: what is drawn has the same shape, whichever the kind of key."""
    return p.random_split(key, shape=shape_of(num))


@lowering(f"{_RANDOM}.fold_in")
def fold_in(key: Array, data: Any) -> Array:
    return p.random_fold_in(key, asarray(data))


@lowering(f"{_RANDOM}.bits", unread="out_sharding")
def bits(key: Array, shape: Any = (), dtype: Any = None) -> Array:
    drawn = p.random_bits(key, shape=shape_of(shape))
    return drawn if dtype is None else drawn_as(drawn, dtype, kinds.UNSIGNED)


def drawn_as(drawn: Array, dtype: Any, taken: kinds.Kinds = kinds.FLOATS) -> Array:
    """What was drawn, in the dtype that is asked for. Raises Refused for one that is none of those ``taken``."""
    taken.require(dtype_name(dtype))
    return asarray(drawn, dtype)


def unit(key: Array, shape: Shape) -> Array:
    """Floats from 0 up to 1, as JAX makes them of 32 bits."""
    drawn = e.shift_right_logical(
        p.random_bits(key, shape=shape), cast(asarray(9), "uint32")
    )
    return multiply(cast(drawn, "float32"), 2.0**-23)


def _drawn_shape(shape: Any, *parameters: Array) -> Shape:
    """The shape of what is drawn. Raises where the parameters do not broadcast to the one that is asked for."""
    if shape is None:
        return common_shape([one.dims for one in parameters])
    sizes = shape_of(shape)
    for one in parameters:
        if one.rank > len(sizes):
            raise Refused("a parameter has more dimensions than are drawn")
        require_broadcast(one.dims, sizes, "a parameter is not of the shape drawn")
    return sizes


@lowering(f"{_RANDOM}.uniform", unread="out_sharding")
def uniform(
    key: Array,
    shape: Any = (),
    dtype: Any = float,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    low = asarray(minval)
    high = asarray(maxval)
    sizes = shape_of(shape)
    drawn = add(multiply(unit(key, sizes), high - low), low)
    if not _is_of_shape(drawn, sizes):
        raise Unsupported("bounds with more entries than are drawn")
    return drawn_as(drawn, dtype)


def _is_of_shape(array: Array, sizes: tuple[Any, ...]) -> bool:
    """Whether no size of 1 among these was broadcast."""
    if array.rank != len(sizes):
        return False
    return all(
        size != 1 or dim == 1 for dim, size in zip(array.dims, sizes, strict=True)
    )


@lowering(f"{_RANDOM}.normal", unread="out_sharding")
def normal(key: Array, shape: Any = (), dtype: Any = float) -> Array:
    low = float(np.nextafter(np.float32(-1.0), np.float32(0.0)))
    drawn = add(multiply(unit(key, shape_of(shape)), 1.0 - low), low)
    return drawn_as(multiply(e.erf_inv(drawn), math.sqrt(2)), dtype, kinds.INEXACT)


@lowering(f"{_RANDOM}.truncated_normal", unread="out_sharding")
def truncated_normal(
    key: Array,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
) -> Array:
    low = asarray(lower, float)
    high = asarray(upper, float)
    sizes = _drawn_shape(shape, low, high)
    root = math.sqrt(2)
    a = e.erf(low / root)
    b = e.erf(high / root)
    drawn = e.erf_inv(add(multiply(unit(key, sizes), b - a), a)) * root
    return drawn_as(clip(drawn, low, high), dtype)


@lowering(f"{_RANDOM}.randint", unread="out_sharding")
def randint(
    key: Array,
    shape: Any,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: Any = int,
) -> Array:
    """JAX draws twice the bits, to be even for any span."""
    name = dtype_name(dtype)
    kinds.INTEGERS.require(name)
    low = asarray(minval, name)
    high = asarray(maxval, name)
    keys = p.random_split(key, shape=(2,))
    sizes = _drawn_shape(shape, low, high)
    first, second = (p.random_bits(keys[i], shape=sizes) for i in (0, 1))
    span = cast(e.max_(e.sub(high, low), like(1, low)), "uint32")
    factor = e.rem(like(2**16, span), span)
    factor = e.rem(e.mul(factor, factor), span)
    upper_bits = e.mul(e.rem(first, span), factor)
    offset = e.add(upper_bits, e.rem(second, span))
    return add(low, cast(e.rem(offset, span), name))


@lowering(f"{_RANDOM}.bernoulli", unread="mode out_sharding")
def bernoulli(key: Array, p: ArrayLike = 0.5, shape: Any = None) -> Array:
    kinds.FLOATS.require(asarray(p).dtype)
    chance = asarray(p, float)
    return e.lt(unit(key, _drawn_shape(shape, chance)), chance)


@lowering(f"{_RANDOM}.exponential", unread="out_sharding")
def exponential(key: Array, shape: Any = (), dtype: Any = float) -> Array:
    drawn = unit(key, shape_of(shape))
    found = e.neg(e.log1p(e.neg(drawn)))
    return drawn_as(found, dtype)


@lowering(f"{_RANDOM}.gumbel", unread="mode out_sharding")
def gumbel(key: Array, shape: Any = (), dtype: Any = float) -> Array:
    tiny = float(np.finfo(np.float32).tiny)
    drawn = uniform(key, shape, float, tiny, 1.0)
    return drawn_as(e.neg(e.log(e.neg(e.log(drawn)))), dtype)


@lowering(f"{_RANDOM}.categorical", unread="mode out_sharding")
def categorical(
    key: Array,
    logits: ArrayLike,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
) -> Array:
    scores = asarray(logits)
    if dtypes.is_kind(scores.dtype, "floating") is False:
        raise Refused(f"logits are floats, got {scores.dtype}", "dtypes")
    along = axis_of(axis, scores.rank)
    batch = list(scores.dims)
    size = batch.pop(along)
    if shape is None:
        sizes = tuple(batch)
    else:
        sizes = shape_of(shape)
    extra = len(sizes) - len(batch)
    if extra < 0:
        raise Refused(f"the shape has fewer than {len(batch)} dimensions", "operands")
    require_broadcast(batch, sizes, "the shape does not end in that of the batch")
    if not replace:
        return _without_replacement(key, scores, along, sizes, extra)
    drawn = [*sizes[extra:]]
    drawn.insert(along, size)
    noise = gumbel(key, (*sizes[:extra], *drawn))
    return argmax(noise + scores, axis=extra + along)


def _without_replacement(
    key: Array, scores: Array, along: int, sizes: tuple[Any, ...], extra: int
) -> Array:
    """The categories of the greatest sums, in front of the dimensions of the batch."""
    count = math.prod(sizes[:extra])
    noisy = moveaxis(gumbel(key, scores.dims) + scores, along, -1)
    _, places = top_k(noisy, count)
    return reshape(moveaxis(places, -1, 0), sizes)


@lowering(f"{_RANDOM}.permutation", unread="out_sharding")
def permutation(key: Array, x: Any, axis: int = 0, independent: bool = False) -> Array:
    """Which permutation is drawn is not the one of JAX: it is one, and the same for the same key."""
    if independent:
        raise Unsupported("a permutation of each row by itself")
    if isinstance(x, (int, Size)):
        return argsort(unit(key, (x,)))
    array = asarray(x)
    size = sizes_of(array)[axis]
    return take(array, argsort(unit(key, (size,))), axis)


@lowering(f"{_RANDOM}.choice", unread="mode")
def choice(
    key: Array,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Array:
    if evaluating() and (p is not None or not replace):
        raise Unsupported("a choice with weights, or without replacement")
    count = a
    if not isinstance(a, (int, Size)):
        array = asarray(a)
        if not array.rank:
            raise Unsupported("a choice of as many as an array says")
        count = sizes_of(array)[axis_of(axis, array.rank)]
    if is_number(count) and not count:
        raise Unsupported("a choice of nothing")
    if p is not None:
        require_equal(asarray(p).dims[0], count, "p is not of the size chosen from")
    if not is_number(count):
        count = 1  # of names places are not drawn
    places = randint(key, shape, 0, count)
    if isinstance(a, (int, Size)):
        return places
    return take(asarray(a), places, axis)
