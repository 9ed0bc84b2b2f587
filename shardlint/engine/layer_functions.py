"""Functions that flax has beside its layers, ``linen`` and ``nnx`` alike: masks, attention, pooling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint import messages
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.ops.registry import is_none, static_int
from shardlint.values import (
    ArrayValue,
    Dimension,
    DTypeValue,
    ExternalValue,
    IntValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size

_ONE = Dimension(Size.const(1))
_FLOAT32 = DTypeValue("float32")


def _names(*functions: str) -> list[str]:
    """What functions are called in both libraries, by the modules that define them as well."""
    homes = (
        "flax.linen",
        "flax.nnx",
        "flax.linen.attention",
        "flax.nnx.nn.attention",
        "flax.linen.pooling",
        "flax.linen.module",
    )
    return [f"{home}.{name}" for home in homes for name in functions]


@knows(_names("make_attention_mask"))
def attention_mask(site: Site) -> Value | None:
    """``(…, 1, queries, keys)`` for inputs of ``(…, queries)`` and ``(…, keys)``."""
    given = site.given(
        "query_input", "key_input", "pairwise_fn", "extra_batch_dims", "dtype"
    )
    return _mask([given.get("query_input"), given.get("key_input")], given)


@knows(_names("make_causal_mask"))
def causal_mask(site: Site) -> Value | None:
    """``(…, 1, length, length)`` for an input of ``(…, length)``."""
    given = site.given("x", "extra_batch_dims", "dtype")
    return _mask([given.get("x")] * 2, given)


def _mask(inputs: Sequence[Value | None], given: dict[str, Value]) -> Value:
    arrays = [one for one in inputs if isinstance(one, ArrayValue) and one.dims]
    extra = static_int(given.get("extra_batch_dims", IntValue(Size.const(0))))
    if len(arrays) < len(inputs) or extra is None or extra < 0:
        return Unknown("what is masked is not known")
    queries, keys = arrays[0].dims, arrays[-1].dims
    if queries is None or keys is None or len(queries) != len(keys):
        return Unknown("what is masked is not known")
    front = (_ONE,) * extra
    dims = (*front, *queries[:-1], _ONE, queries[-1], keys[-1])
    return ArrayValue(dims, _dtype(given))


def _dtype(given: dict[str, Value]) -> str | None:
    """The dtype that masks are given, float32 where none is named."""
    dtype = given.get("dtype", _FLOAT32)
    return dtype.name if isinstance(dtype, DTypeValue) else None


@knows(_names("combine_masks"))
def combined_masks(site: Site) -> Value | None:
    """``combine_masks(*masks)``: those that are not None, as far as all of them have one rank."""
    masks = [one for one in site.args if not is_none(one)]
    if not masks:
        return Literal(None)
    arrays = [one for one in masks if isinstance(one, ArrayValue)]
    ranks = [len(one.dims) for one in arrays if one.dims is not None]
    if len(set(ranks)) > 1:
        site.report("ST204", site.at, messages.masks_of_ranks(ranks))
        return Unknown("an error was reported here")
    if len(arrays) < len(masks) or len(ranks) < len(masks) or site.it.view is not None:
        return Unknown("masks that are not known")
    both = ExternalValue("jax.numpy.logical_and")
    found: Value = arrays[0]
    for other in arrays[1:]:
        found = site.it.call(site.frame, both, [found, other], {}, site.at)
    if not isinstance(found, ArrayValue):
        return found
    return replace(found, dtype=_dtype(site.kwargs), weak=False)


@knows(_names("dot_product_attention"))
def attention(site: Site) -> Value | None:
    """``(…, queries, heads, depth of the values)``."""
    given = site.given("query", "key", "value")
    query, value = given.get("query"), given.get("value")
    if site.it.view is not None:
        return None
    if not isinstance(query, ArrayValue) or not isinstance(value, ArrayValue):
        return None
    if not query.dims or not value.dims or len(query.dims) != len(value.dims):
        return None
    return ArrayValue((*query.dims[:-1], value.dims[-1]))


@knows(_names("dot_product_attention_weights"))
def attention_weights(site: Site) -> Value | None:
    """``(…, heads, queries, keys)``."""
    given = site.given("query", "key")
    query, key = given.get("query"), given.get("key")
    if site.it.view is not None:
        return None
    if not isinstance(query, ArrayValue) or not isinstance(key, ArrayValue):
        return None
    if query.dims is None or key.dims is None:
        return None
    rank = len(query.dims)
    if rank < 3 or len(key.dims) != rank:
        return None
    front, (length, heads) = query.dims[:-3], query.dims[-3:-1]
    return ArrayValue((*front, heads, length, key.dims[-3]))


@knows(_names("avg_pool", "max_pool", "min_pool"))
def pooled(site: Site) -> Value | None:
    """A mean or maximum over windows."""
    given = site.given("inputs", "window_shape")
    return _pooled(given.get("inputs"), given.get("window_shape"))


@knows(_names("pool"))
def pooled_by(site: Site) -> Value | None:
    """``pool(inputs, init, reduce_fn, window_shape, strides, padding)``."""
    given = site.given("inputs", "init", "reduce_fn", "window_shape")
    return _pooled(given.get("inputs"), given.get("window_shape"))


def _pooled(value: Value | None, window: Value | None) -> Value:
    """Of what is pooled only batch and channels are known."""
    if not isinstance(value, ArrayValue) or value.dims is None:
        return Unknown("what is pooled is not known")
    if not isinstance(window, SequenceValue):
        return Unknown("what is pooled is not known")
    count, rank = len(window.items), len(value.dims)
    if rank < count + 1:
        return Unknown("fewer dimensions than windows")
    front, channels = value.dims[: rank - count - 1], value.dims[-1]
    return ArrayValue((*front, *[Dimension(None)] * count, channels), value.dtype)


@knows(_names("merge_param"))
def merged_param(site: Site) -> Value | None:
    """``merge_param(name, a, b)``: the one that is not None."""
    given = site.given("name", "a", "b")
    unknown = Unknown("not given")
    first, second = given.get("a", unknown), given.get("b", unknown)
    if is_none(first):
        return second
    return first if is_none(second) else None


@knows(_names("unbox"))
def unboxed(site: Site) -> Value | None:
    """``unbox(array)``: the array."""
    value = site.args[0] if site.args else None
    return value if isinstance(value, ArrayValue) else None
