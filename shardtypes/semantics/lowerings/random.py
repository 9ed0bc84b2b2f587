"""``jax.random``. Keys are typed (``jax.random.key``), or arrays of two numbers in a last dimension (``PRNGKey``)."""

from __future__ import annotations

import math
from typing import Any

from shardtypes.lang.dtypes import KEY
from shardtypes.lang.size import Size
from shardtypes.semantics.array import Array, Shape
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    cast,
    dtype_name,
    int_of,
    like,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.elementwise import clip
from shardtypes.semantics.lowerings.indexing import take
from shardtypes.semantics.lowerings.operators import add, multiply
from shardtypes.semantics.lowerings.reductions import argmax, argsort
from shardtypes.semantics.lowerings.shapes import common_shape
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import random as p
from shardtypes.semantics.registry import Unsupported, lowering
from shardtypes.semantics.simulated import Simulated

_RANDOM = "jax.random"


@lowering(f"{_RANDOM}.key")
def key(seed: Any, **options: Any) -> Array:
    return p.random_wrap(untyped_key(seed))


@lowering(f"{_RANDOM}.PRNGKey")
def untyped_key(seed: Any, **options: Any) -> Array:
    number = int_of(seed)
    words = np.asarray([(number >> 32) & 0xFFFFFFFF, number & 0xFFFFFFFF], np.uint32)
    return Array((2,), "uint32", value=Simulated.everywhere(words))


@lowering(f"{_RANDOM}.wrap_key_data")
def wrap_key_data(key_bits_array: Array, **options: Any) -> Array:
    return p.random_wrap(key_bits_array)


@lowering(f"{_RANDOM}.key_data")
def key_data(keys: Array) -> Array:
    return p.random_unwrap(keys) if keys.dtype == KEY else keys


@lowering(f"{_RANDOM}.clone")
def clone(key: Array) -> Array:
    return key


@lowering(f"{_RANDOM}.split")
def split(key: Array, num: Any = 2) -> Array:
    return p.random_split(key, shape=shape_of(num))


@lowering(f"{_RANDOM}.fold_in")
def fold_in(key: Array, data: Any) -> Array:
    return p.random_fold_in(key, asarray(data))


@lowering(f"{_RANDOM}.bits")
def bits(key: Array, shape: Any = (), dtype: Any = None) -> Array:
    return p.random_bits(key, shape=shape_of(shape))


def unit(key: Array, shape: Shape) -> Array:
    """Floats from 0 up to 1, as JAX makes them of 32 bits."""
    drawn = e.shift_right_logical(
        p.random_bits(key, shape=shape), cast(asarray(9), "uint32")
    )
    return multiply(cast(drawn, "float32"), 2.0**-23)


@lowering(f"{_RANDOM}.uniform")
def uniform(
    key: Array,
    shape: Any = (),
    dtype: Any = float,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
    **options: Any,
) -> Array:
    low = asarray(minval)
    high = asarray(maxval)
    drawn = add(multiply(unit(key, shape_of(shape)), high - low), low)
    return asarray(drawn, dtype)


@lowering(f"{_RANDOM}.normal")
def normal(key: Array, shape: Any = (), dtype: Any = float, **options: Any) -> Array:
    low = float(np.nextafter(np.float32(-1.0), np.float32(0.0)))
    drawn = add(multiply(unit(key, shape_of(shape)), 1.0 - low), low)
    return asarray(multiply(e.erf_inv(drawn), math.sqrt(2)), dtype)


@lowering(f"{_RANDOM}.truncated_normal")
def truncated_normal(
    key: Array,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
    **options: Any,
) -> Array:
    low = asarray(lower, float)
    high = asarray(upper, float)
    if shape is None:
        sizes = common_shape([low.dims, high.dims])
    else:
        sizes = shape_of(shape)
    root = math.sqrt(2)
    a = e.erf(low / root)
    b = e.erf(high / root)
    drawn = e.erf_inv(add(multiply(unit(key, sizes), b - a), a)) * root
    return asarray(clip(drawn, low, high), dtype)


@lowering(f"{_RANDOM}.randint")
def randint(
    key: Array,
    shape: Any,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: Any = int,
    **options: Any,
) -> Array:
    """JAX draws twice the bits, to be even for any span."""
    name = dtype_name(dtype)
    low = asarray(minval, name)
    high = asarray(maxval, name)
    keys = p.random_split(key, shape=(2,))
    first, second = (p.random_bits(keys[i], shape=shape_of(shape)) for i in (0, 1))
    span = cast(e.max_(e.sub(high, low), like(1, low)), "uint32")
    factor = e.rem(like(2**16, span), span)
    factor = e.rem(e.mul(factor, factor), span)
    offset = e.add(e.mul(e.rem(first, span), factor), e.rem(second, span))
    return add(low, cast(e.rem(offset, span), name))


@lowering(f"{_RANDOM}.bernoulli")
def bernoulli(
    key: Array, p: ArrayLike = 0.5, shape: Any = None, **options: Any
) -> Array:
    chance = asarray(p, float)
    if shape is None:
        sizes = chance.dims
    else:
        sizes = shape_of(shape)
    return e.lt(unit(key, sizes), chance)


@lowering(f"{_RANDOM}.exponential")
def exponential(
    key: Array, shape: Any = (), dtype: Any = float, **options: Any
) -> Array:
    return asarray(e.neg(e.log1p(e.neg(unit(key, shape_of(shape))))), dtype)


@lowering(f"{_RANDOM}.gumbel")
def gumbel(key: Array, shape: Any = (), dtype: Any = float, **options: Any) -> Array:
    tiny = float(np.finfo(np.float32).tiny)
    drawn = uniform(key, shape, float, tiny, 1.0)
    return asarray(e.neg(e.log(e.neg(e.log(drawn)))), dtype)


@lowering(f"{_RANDOM}.categorical")
def categorical(
    key: Array, logits: ArrayLike, axis: int = -1, shape: Any = None, **options: Any
) -> Array:
    scores = asarray(logits, float)
    if shape is not None or options.get("replace") is False:
        raise Unsupported("a categorical draw of another shape")
    return argmax(gumbel(key, scores.dims) + scores, axis=axis)


@lowering(f"{_RANDOM}.permutation")
def permutation(
    key: Array, x: Any, axis: int = 0, independent: bool = False, **options: Any
) -> Array:
    """Which permutation is drawn is not the one of JAX: it is one, and the same for the same key."""
    if independent:
        raise Unsupported("a permutation of each row by itself")
    if isinstance(x, (int, Size)):
        return argsort(unit(key, (x,)))
    array = asarray(x)
    size = sizes_of(array)[axis]
    return take(array, argsort(unit(key, (size,))), axis)


@lowering(f"{_RANDOM}.choice")
def choice(
    key: Array,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    **options: Any,
) -> Array:
    if p is not None or not replace:
        raise Unsupported("a choice with weights, or without replacement")
    size = a if isinstance(a, int) else int(asarray(a).dims[axis])  # type: ignore[arg-type]  # a number
    places = randint(key, shape, 0, size)
    if isinstance(a, int):
        return places
    return take(asarray(a), places, axis)
