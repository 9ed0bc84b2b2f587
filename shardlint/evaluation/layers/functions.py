"""What layers compute, of arrays and parameters, whoever holds these."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from shardlint.evaluation.outside import guarded, provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.collectives import bound
from shardtypes.semantics.lowerings.convert import asarray, cast, dtype_name, sizes_of
from shardtypes.semantics.lowerings.convolutions import per_dimension as per_dimension
from shardtypes.semantics.primitives.random import alike
from shardtypes.semantics.registry import Unsupported


def call(name: str, *args: Any, **kwargs: Any) -> Array:
    """``jax``'s function of that name, one that gives an array. Raises NotEvaluable for what its lowering does not
    cover."""
    whole = f"jax.{name}"
    found: Array = guarded(whole, LOWERINGS[whole], args, kwargs)
    return found


Initializer = Callable[..., Any]


def initializer(name: str, *args: Any) -> Initializer:
    """One of ``jax.nn.initializers``."""
    made: Initializer = LOWERINGS[f"jax.nn.initializers.{name}"](*args)
    return made


KERNEL = initializer("lecun_normal")
ZEROS: Initializer = LOWERINGS["jax.nn.initializers.zeros"]
ONES: Initializer = LOWERINGS["jax.nn.initializers.ones"]


def embedding_init(key: Any, shape: Sequence[int], dtype: Any = float) -> Any:
    """As large as a product with the rows keeps its operand."""
    return initializer("normal", shape[-1] ** -0.5)(key, tuple(shape), dtype)


def promoted_to(dtype: Any, *given: Any) -> list[Any]:
    """Arrays in the dtype in which a layer computes, if one is asked for."""
    arrays = [None if one is None else asarray(one) for one in given]
    if dtype is None:
        return arrays
    name = dtype_name(dtype)
    return [None if one is None else cast(one, name) for one in arrays]


def sizes_in(given: Any) -> tuple[int, ...]:
    """One size or several."""
    return (given,) if isinstance(given, int) else tuple(given)


def axes_in(given: Any, rank: int) -> tuple[int, ...]:
    """Dimensions, counted from the front."""
    return tuple(axis % rank for axis in sizes_in(given))


# --- products ---------------------------------------------------------------------------------------------------------


def dense(x: Any, kernel: Any, bias: Any = None) -> Array:
    """``x @ kernel + bias`` along the last dimension of ``x``, for a kernel ``(in, out)``."""
    return dense_general(x, kernel, bias, -1)


def dense_general(x: Any, kernel: Any, bias: Any, axis: Any) -> Array:
    """Some dimensions of ``x`` contracted with the first ones of a kernel."""
    array = asarray(x)
    axes = axes_in(axis, array.rank)
    first = tuple(range(len(axes)))
    found = call("lax.dot_general", array, asarray(kernel), ((axes, first), ((), ())))
    return found if bias is None else found + asarray(bias)


def looked_up(table: Any, places: Any) -> Array:
    """The rows of an embedding."""
    return call("numpy.take", asarray(table), asarray(places), axis=0)


def attended(query: Any, table: Any) -> Array:
    """The products with all rows of an embedding."""
    return call("numpy.einsum", "...d,vd->...v", query, table)


# --- convolutions -----------------------------------------------------------------------------------------------------


def convolution(
    x: Any,
    kernel: Any,
    bias: Any,
    *,
    strides: Any = 1,
    padding: Any = "SAME",
    input_dilation: Any = 1,
    kernel_dilation: Any = 1,
    groups: int = 1,
) -> Array:
    """A convolution of ``(batch…, place…, in)`` with a kernel ``(window…, in // groups, out)``."""
    array, window = asarray(x), asarray(kernel)
    count = window.rank - 2
    batch = sizes_of(array)[: array.rank - count - 1]
    flat = call(
        "numpy.reshape", array, (math.prod(batch), *sizes_of(array)[len(batch) :])
    )
    dilation = per_dimension(kernel_dilation, count)
    flat, edges = _edges(flat, sizes_of(window)[:count], dilation, padding)
    found = call(
        "lax.conv_general_dilated",
        flat,
        window,
        per_dimension(strides, count),
        edges,
        lhs_dilation=per_dimension(input_dilation, count),
        rhs_dilation=dilation,
        dimension_numbers=channels_last(count),
        feature_group_count=groups,
    )
    found = found if bias is None else found + asarray(bias)
    return call("numpy.reshape", found, (*batch, *sizes_of(found)[1:]))


def transposed_convolution(
    x: Any,
    kernel: Any,
    bias: Any,
    *,
    strides: Any,
    padding: Any,
    dilation: Any,
    transpose_kernel: bool,
) -> Array:
    """A transposed convolution of ``(batch, place…, in)``, features last."""
    count = asarray(kernel).rank - 2
    found = call(
        "lax.conv_transpose",
        x,
        kernel,
        per_dimension(strides, count),
        padding,
        rhs_dilation=per_dimension(dilation, count),
        dimension_numbers=channels_last(count),
        transpose_kernel=transpose_kernel,
    )
    return found if bias is None else found + asarray(bias)


def channels_last(count: int) -> tuple[str, str, str]:
    """Where the dimensions of a convolution over so many places are, if features are last."""
    places = "HWDXYZ"[:count]
    return f"N{places}C", f"{places}IO", f"N{places}C"


def _edges(
    x: Array, windows: Sequence[int], dilation: Sequence[int], padding: Any
) -> tuple[Array, Any]:
    """The operand, padded by itself where it is taken as a circle, and the padding that is left to do."""
    if padding == "CIRCULAR":
        reach = [
            (size - 1) * step for size, step in zip(windows, dilation, strict=True)
        ]
        around = [(one // 2, one - one // 2) for one in reach]
        config = [(0, 0), *around, (0, 0)]
        return call("numpy.pad", x, config, mode="wrap"), "VALID"
    if padding == "CAUSAL":
        if len(windows) != 1:
            raise Unsupported("a causal convolution over several dimensions")
        before = dilation[0] * (windows[0] - 1)
        return x, [(before, 0)]
    return x, edges_of(padding, len(windows))


def edges_of(padding: Any, count: int) -> Any:
    """What is added before and behind each of ``count`` dimensions: pairs, or the name of a rule."""
    if isinstance(padding, str):
        return padding
    each = (padding,) * count if isinstance(padding, int) else padding
    return tuple((one, one) if isinstance(one, int) else tuple(one) for one in each)


def pooled(
    x: Any, name: str, window: Any, strides: Any = None, padding: Any = "VALID"
) -> Array:
    """The ``max``, ``min`` or ``sum`` of windows of ``(batch…, place…, features)``."""
    array = asarray(x)
    count = len(window)
    before = array.rank - count - 1
    start = {"max": -math.inf, "min": math.inf, "sum": 0.0}[name]
    combine = {"max": "lax.max", "min": "lax.min", "sum": "lax.add"}[name]
    edges = edges_of(padding, count)
    if not isinstance(edges, str):
        edges = ((0, 0),) * before + edges + ((0, 0),)
    return call(
        "lax.reduce_window",
        array,
        start,
        lambda a, b: call(combine, a, b),
        (*(1,) * before, *window, 1),
        (*(1,) * before, *per_dimension(strides, count), 1),
        edges,
    )


def pooling(name: str) -> Callable[..., Array]:
    """``max_pool`` or ``min_pool``."""

    def pool(
        inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID"
    ) -> Array:
        return pooled(inputs, name, window_shape, strides, padding)

    return pool


def average_pooled(
    inputs: Any,
    window_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """The means of windows."""
    total = pooled(inputs, "sum", window_shape, strides, padding)
    if count_include_pad:
        return total / math.prod(int(size) for size in window_shape)
    ones = call("numpy.ones_like", asarray(inputs))
    return total / pooled(ones, "sum", window_shape, strides, padding)


# --- normalization ----------------------------------------------------------------------------------------------------


def statistics(
    x: Any,
    axes: Any,
    *,
    axis_name: Any = None,
    groups: Any = None,
    use_mean: bool = True,
    is_fast: bool = True,
    mask: Any = None,
    is_of_batch: bool = False,
) -> tuple[Array, Array]:
    """Mean and variance over dimensions, and over a mesh axis where one is named. Where they are of a batch and none is
    named, each device is meant to normalize the examples that it has."""
    array = asarray(x)
    is_own = is_of_batch and axis_name is None

    def mean(of: Array) -> Array:
        chosen = {} if mask is None else {"where": mask}
        local = call("numpy.mean", of, axis=axes, **chosen)
        if is_own:
            return _of_each_device(local)
        if axis_name is None:
            return local
        options = {} if groups is None else {"axis_index_groups": groups}
        return call("lax.pmean", local, axis_name, **options)

    if not use_mean:
        variance = mean(array * array)
        return call("numpy.zeros_like", variance), variance
    average = mean(array)
    if is_fast:
        raw = mean(array * array) - average * average
        return average, call("numpy.maximum", 0.0, raw)
    centred = array - call("numpy.expand_dims", average, axes)
    return average, mean(centred * centred)


def _of_each_device(statistic: Array) -> Array:
    """A statistic that each device has of its own; that of all where nothing is to be its own."""
    axes = bound().axes
    shared = alike(axes)
    if shared:
        return call("lax.pmean", statistic, tuple(sorted(shared)))
    value = statistic.value
    names = () if value is None else [name for name, _ in value.axes]
    own = statistic.own.union(name for name in names if name in axes)
    return replace(statistic, own=own)


def normalized(
    x: Any,
    mean: Any,
    variance: Any,
    scale: Any,
    bias: Any,
    *,
    reduced: Sequence[int],
    features: Sequence[int],
    epsilon: float,
) -> Array:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias``."""
    array = asarray(x)
    kept = tuple(1 if k in reduced else sizes_of(array)[k] for k in range(array.rank))
    own = tuple(sizes_of(array)[k] if k in features else 1 for k in range(array.rank))
    factor = call("lax.rsqrt", call("numpy.reshape", variance, kept) + epsilon)
    if scale is not None:
        factor = factor * call("numpy.reshape", asarray(scale), own)
    found = (array - call("numpy.reshape", mean, kept)) * factor
    if bias is None:
        return found
    return found + call("numpy.reshape", asarray(bias), own)


def layer_normalized(
    x: Any,
    scale: Any,
    bias: Any,
    *,
    epsilon: float,
    reduction_axes: Any = -1,
    feature_axes: Any = -1,
    axis_name: Any = None,
    groups: Any = None,
    use_mean: bool = True,
    is_fast: bool = True,
    mask: Any = None,
) -> Array:
    """Layer and root mean square normalization."""
    array = asarray(x)
    reduced = axes_in(reduction_axes, array.rank)
    mean, variance = statistics(
        array,
        reduced,
        axis_name=axis_name,
        groups=groups,
        use_mean=use_mean,
        is_fast=is_fast,
        mask=mask,
    )
    return normalized(
        array,
        mean,
        variance,
        scale,
        bias,
        reduced=reduced,
        features=axes_in(feature_axes, array.rank),
        epsilon=epsilon,
    )


def group_normalized(
    x: Any,
    scale: Any,
    bias: Any,
    *,
    groups: int,
    epsilon: float,
    reduction_axes: Any = None,
    axis_name: Any = None,
    index_groups: Any = None,
    is_fast: bool = True,
) -> Array:
    """Each example and group of features by itself; features are last."""
    array = asarray(x)
    last = array.rank - 1
    given = range(1, array.rank) if reduction_axes is None else reduction_axes
    reduced = axes_in(given, array.rank)
    if last not in reduced:
        raise Unsupported("groups of features that are not reduced over")
    shape = (*sizes_of(array)[:-1], groups, sizes_of(array)[-1] // groups)
    split = call("numpy.reshape", array, shape)
    within = (*(axis for axis in reduced if axis != last), last + 1)
    mean, variance = statistics(
        split, within, axis_name=axis_name, groups=index_groups, is_fast=is_fast
    )
    size = int(sizes_of(array)[-1]) // groups
    mean = call("numpy.repeat", mean, size, axis=-1)
    variance = call("numpy.repeat", variance, size, axis=-1)
    return normalized(
        array,
        mean,
        variance,
        scale,
        bias,
        reduced=[axis for axis in reduced if axis != last],
        features=(last,),
        epsilon=epsilon,
    )


def as_asked(found: Array, dtype: Any) -> Array:
    """What a normalization gives, in the dtype that is asked for."""
    return found if dtype is None else asarray(found, dtype)


# --- the rest ---------------------------------------------------------------------------------------------------------


def in_turn(layers: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
    """Layers one after the other; tuples are the arguments of the next one, dicts those by name."""
    found = layers[0](*args, **kwargs)
    for layer in layers[1:]:
        if isinstance(found, tuple):
            found = layer(*found)
        elif isinstance(found, dict):
            found = layer(**found)
        else:
            found = layer(found)
    return found


def dropped(x: Any, key: Any, rate: float, broadcast: Sequence[int] = ()) -> Array:
    """Entries at random set to zero, the others made larger; along ``broadcast`` dimensions the same ones."""
    array = asarray(x)
    if rate >= 1.0:
        return call("numpy.zeros_like", array)
    kept = 1.0 - rate
    shared = axes_in(broadcast, array.rank)
    shape = tuple(1 if k in shared else sizes_of(array)[k] for k in range(array.rank))
    mask = call("random.bernoulli", key, kept, shape)
    return call("numpy.where", mask, array / kept, 0.0)


def attention(
    query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None
) -> Array:
    """``(batch…, length, heads, depth)`` of each; a bias and a mask ``(batch…, heads, queries, keys)``."""
    q, k, v = asarray(query), asarray(key), asarray(value)
    return weighted(attention_weights(q, k, bias, mask), v)


def weighted(weights: Any, value: Any) -> Array:
    """The values that attention gives by its weights, ``(batch…, queries, heads, depth)``."""
    return call("numpy.einsum", "...hqk,...khd->...qhd", weights, value)


def dropped_weights(weights: Array, key: Any, rate: float, is_shared: bool) -> Array:
    """Dropout of attention's weights; ``is_shared`` by all examples and heads."""
    shared = tuple(range(weights.rank - 2)) if is_shared else ()
    return dropped(weights, key, rate, shared)


def attention_weights(
    query: Any, key: Any, bias: Any = None, mask: Any = None
) -> Array:
    """What attention weighs the values by: ``(batch…, heads, queries, keys)``."""
    q = asarray(query)
    depth = int(sizes_of(q)[-1])
    scores = call(
        "numpy.einsum", "...qhd,...khd->...hqk", q / math.sqrt(depth), asarray(key)
    )
    if bias is not None:
        scores = scores + asarray(bias)
    if mask is not None:
        scores = call("numpy.where", mask, scores, -1e30)
    return call("nn.softmax", scores)


def causal_mask(x: Any, extra_batch_dims: int = 0, dtype: Any = float) -> Array:
    """``(batch…, 1, length, length)`` of tokens ``(batch…, length)``: each attends to itself and those before."""
    array = asarray(x)
    length = sizes_of(array)[-1]
    mask = call("numpy.tril", call("numpy.ones", (length, length), dtype))
    shape = (*(1,) * extra_batch_dims, *sizes_of(array)[:-1], 1, length, length)
    return call("numpy.broadcast_to", mask, shape)


def attention_mask(
    query_input: Any,
    key_input: Any,
    pairwise_fn: Any = None,
    extra_batch_dims: int = 0,
    dtype: Any = float,
) -> Array:
    """``(batch…, 1, queries, keys)`` of what is wanted of each pair of entries."""
    q = call("numpy.expand_dims", asarray(query_input), -1)
    k = call("numpy.expand_dims", asarray(key_input), -2)
    pairs = q * k if pairwise_fn is None else pairwise_fn(q, k)
    mask = call("numpy.expand_dims", pairs, -3)
    for _ in range(extra_batch_dims):
        mask = call("numpy.expand_dims", mask, 0)
    return asarray(mask, dtype)


def combined_masks(*masks: Any, dtype: Any = float) -> Array | None:
    """What all masks have; None of none."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    found = asarray(given[0])
    for mask in given[1:]:
        found = call("numpy.logical_and", found, mask)
    return asarray(found, dtype)


_ACTIVATIONS = """celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax
                  logsumexp one_hot relu relu6 selu sigmoid identity silu soft_sign softmax softplus standardize swish
                  tanh""".split()


def provide_activations(library: str) -> None:
    """Give a library ``jax.nn``'s functions and initializers as its own."""
    for name in _ACTIVATIONS:
        found = LOWERINGS.get(f"jax.nn.{name}") or LOWERINGS.get(f"jax.numpy.{name}")
        if found is not None:
            provide(f"{library}.{name}")(found)
    for whole, function in list(LOWERINGS.items()):
        if whole.startswith("jax.nn.initializers."):
            provide(f"{library}.{whole.removeprefix('jax.nn.')}")(function)
    for name, made in (("zeros", ZEROS), ("ones", ONES)):
        provide(f"{library}.initializers.{name}_init")(_giving(made))


def _giving(value: Any) -> Callable[[], Any]:
    return lambda: value
