"""``flax.nnx``'s layers in guarded code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.layers import functions
from shardlint.evaluation.layers.functions import (
    KERNEL,
    ONES,
    ZEROS,
    Initializer,
    call,
    promoted_to,
    sizes_in,
)
from shardlint.evaluation.layers.nnx_objects import (
    BatchStat,
    Cache,
    Module,
    Param,
    WithMetadata,
)
from shardlint.evaluation.layers.nnx_random import Rngs, RngStream, key_for
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, sizes_of

_NNX = "flax.nnx"


def _parameter(
    init: Initializer,
    rngs: Any,
    shape: Sequence[int],
    dtype: Any,
    metadata: Mapping[str, Any] | None,
) -> Param:
    return Param(init(rngs.params(), tuple(shape), dtype), **(metadata or {}))


def _made_flat(init: Initializer, flat: Sequence[int]) -> Initializer:
    """The initializer, given other sizes than those of its parameter: how it scales follows from these."""

    def made(key: Any, shape: Sequence[int], dtype: Any) -> Any:
        value = init(key, tuple(flat), dtype)
        if isinstance(value, WithMetadata):
            array = call("numpy.reshape", value.value, shape)
            return WithMetadata(array, value.metadata)
        return call("numpy.reshape", value, shape)

    return made


class _Affine(Module):
    """A layer with a kernel and perhaps a bias."""

    kernel: Param
    bias: Param | None
    dtype: Any

    def _make(
        self,
        kernel: Sequence[int],
        bias: Sequence[int] | None,
        rngs: Any,
        options: Mapping[str, Any],
    ) -> None:
        self.dtype = options.get("dtype")
        made_as = options.get("param_dtype", float)
        self.kernel = _parameter(
            options.get("kernel_init", KERNEL),
            rngs,
            kernel,
            made_as,
            options.get("kernel_metadata"),
        )
        self.bias = None
        if bias is not None and options.get("use_bias", True):
            init = options.get("bias_init", ZEROS)
            self.bias = _parameter(
                init, rngs, bias, made_as, options.get("bias_metadata")
            )


@provide(f"{_NNX}.Linear")
class Linear(_Affine):
    """``x @ kernel + bias``."""

    def __init__(
        self, in_features: int, out_features: int, *, rngs: Any, **options: Any
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        shape = (in_features, out_features)
        self._make(shape, (out_features,), rngs, options)

    def __call__(self, inputs: Any, **options: Any) -> Array:
        return functions.dense(*promoted_to(self.dtype, inputs, self.kernel, self.bias))


@provide(f"{_NNX}.LinearGeneral")
class LinearGeneral(_Affine):
    """Several dimensions contracted, several made."""

    def __init__(
        self,
        in_features: Any,
        out_features: Any,
        *,
        axis: Any = -1,
        batch_axis: Any = None,
        rngs: Any,
        **options: Any,
    ) -> None:
        if batch_axis:
            raise NotEvaluable("nnx.LinearGeneral with batch dimensions")
        self.in_features = sizes_in(in_features)
        self.out_features = sizes_in(out_features)
        self.axis = axis
        inputs, outputs = math.prod(self.in_features), math.prod(self.out_features)
        kernel = options.pop("kernel_init", KERNEL)
        bias = options.pop("bias_init", ZEROS)
        options["kernel_init"] = _made_flat(kernel, (inputs, outputs))
        options["bias_init"] = _made_flat(bias, (outputs,))
        shape = (*self.in_features, *self.out_features)
        self._make(shape, self.out_features, rngs, options)

    def __call__(self, inputs: Any, **options: Any) -> Array:
        x, kernel, bias = promoted_to(self.dtype, inputs, self.kernel, self.bias)
        return functions.dense_general(x, kernel, bias, self.axis)


@provide(f"{_NNX}.Einsum")
class Einsum(_Affine):
    """An einsum of the inputs and a kernel."""

    def __init__(
        self,
        einsum_str: str,
        kernel_shape: Sequence[int],
        bias_shape: Sequence[int] | None = None,
        *,
        rngs: Any,
        **options: Any,
    ) -> None:
        self.einsum_str = einsum_str
        self._make(kernel_shape, bias_shape, rngs, options)

    def __call__(self, inputs: Any, einsum_str: str | None = None) -> Array:
        x, kernel, bias = promoted_to(self.dtype, inputs, self.kernel, self.bias)
        found = call("numpy.einsum", einsum_str or self.einsum_str, x, kernel)
        if bias is None:
            return found
        places = [found.rank - bias.rank + k for k in range(bias.rank)]
        shape = tuple(
            sizes_of(found)[k] if k in places else 1 for k in range(found.rank)
        )
        return found + call("numpy.reshape", bias, shape)


@provide(f"{_NNX}.Conv")
class Conv(_Affine):
    """A convolution, features last."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        kernel_size: Any,
        strides: Any = 1,
        *,
        padding: Any = "SAME",
        input_dilation: Any = 1,
        kernel_dilation: Any = 1,
        feature_group_count: int = 1,
        mask: Any = None,
        rngs: Any,
        **options: Any,
    ) -> None:
        if mask is not None:
            raise NotEvaluable("nnx.Conv with a mask")
        window = sizes_in(kernel_size)
        self.strides, self.padding = strides, padding
        self.input_dilation, self.kernel_dilation = input_dilation, kernel_dilation
        self.feature_group_count = feature_group_count
        shape = (*window, in_features // feature_group_count, out_features)
        self._make(shape, (out_features,), rngs, options)

    def __call__(self, inputs: Any, **options: Any) -> Array:
        x, kernel, bias = promoted_to(self.dtype, inputs, self.kernel, self.bias)
        return functions.convolution(
            x,
            kernel,
            bias,
            strides=self.strides,
            padding=self.padding,
            input_dilation=self.input_dilation,
            kernel_dilation=self.kernel_dilation,
            groups=self.feature_group_count,
        )


@provide(f"{_NNX}.ConvTranspose")
class ConvTranspose(_Affine):
    """A transposed convolution, features last."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        kernel_size: Any,
        strides: Any = None,
        *,
        padding: Any = "SAME",
        kernel_dilation: Any = None,
        mask: Any = None,
        transpose_kernel: bool = False,
        rngs: Any,
        **options: Any,
    ) -> None:
        if mask is not None or padding not in ("SAME", "VALID"):
            raise NotEvaluable("nnx.ConvTranspose with a mask or circular padding")
        window = sizes_in(kernel_size)
        self.strides, self.kernel_dilation = strides, kernel_dilation
        self.padding, self.transpose_kernel = padding, transpose_kernel
        ends = (out_features, in_features)
        if not transpose_kernel:
            ends = (in_features, out_features)
        self._make((*window, *ends), (out_features,), rngs, options)

    def __call__(self, inputs: Any, **options: Any) -> Array:
        x, kernel, bias = promoted_to(self.dtype, inputs, self.kernel, self.bias)
        return functions.transposed_convolution(
            x,
            kernel,
            bias,
            strides=self.strides,
            padding=self.padding,
            dilation=self.kernel_dilation,
            transpose_kernel=self.transpose_kernel,
        )


@provide(f"{_NNX}.Embed")
class Embed(Module):
    """Rows of a table."""

    def __init__(
        self,
        num_embeddings: int,
        features: int,
        *,
        dtype: Any = None,
        param_dtype: Any = float,
        embedding_init: Initializer | None = None,
        embedding_metadata: Mapping[str, Any] | None = None,
        rngs: Any,
        **options: Any,
    ) -> None:
        self.num_embeddings, self.features, self.dtype = num_embeddings, features, dtype
        self.embedding = _parameter(
            embedding_init or functions.embedding_init,
            rngs,
            (num_embeddings, features),
            param_dtype,
            embedding_metadata,
        )

    def __call__(self, inputs: Any, **options: Any) -> Array:
        (table,) = promoted_to(self.dtype, self.embedding)
        return functions.looked_up(table, inputs)

    def attend(self, query: Any, **options: Any) -> Array:
        """The products with all rows."""
        x, table = promoted_to(self.dtype, query, self.embedding)
        return functions.attended(x, table)


class _Norm(Module):
    """A layer with a scale and a bias for each feature."""

    scale: Param | None
    bias: Param | None

    def _make(self, features: int, rngs: Any, options: Mapping[str, Any]) -> None:
        made_as = options.get("param_dtype", float)
        self.scale = self.bias = None
        if options.get("use_scale", True):
            init, described = options.get("scale_init", ONES), "scale_metadata"
            self.scale = _parameter(
                init, rngs, (features,), made_as, options.get(described)
            )
        if options.get("use_bias", True):
            init, described = options.get("bias_init", ZEROS), "bias_metadata"
            self.bias = _parameter(
                init, rngs, (features,), made_as, options.get(described)
            )
        self.dtype = options.get("dtype")
        self.axis_name = options.get("axis_name")
        self.axis_index_groups = options.get("axis_index_groups")
        self.use_fast_variance = options.get("use_fast_variance", True)


@provide(f"{_NNX}.LayerNorm")
class LayerNorm(_Norm):
    """Each example's features by themselves."""

    uses_mean = True

    def __init__(
        self,
        num_features: int,
        *,
        epsilon: float = 1e-6,
        reduction_axes: Any = -1,
        feature_axes: Any = -1,
        rngs: Any,
        **options: Any,
    ) -> None:
        self.epsilon = epsilon
        self.reduction_axes, self.feature_axes = reduction_axes, feature_axes
        if not self.uses_mean:
            options["use_bias"] = False
        self._make(num_features, rngs, options)

    def __call__(self, x: Any, *, mask: Any = None, **options: Any) -> Array:
        found = functions.layer_normalized(
            x,
            self.scale,
            self.bias,
            epsilon=self.epsilon,
            reduction_axes=self.reduction_axes,
            feature_axes=self.feature_axes,
            axis_name=self.axis_name,
            groups=self.axis_index_groups,
            use_mean=self.uses_mean,
            is_fast=self.use_fast_variance,
            mask=mask,
        )
        return functions.as_asked(found, self.dtype)


@provide(f"{_NNX}.RMSNorm")
class RMSNorm(LayerNorm):
    """The same without a mean and a bias."""

    uses_mean = False


@provide(f"{_NNX}.GroupNorm")
class GroupNorm(_Norm):
    """Each example's groups of features by themselves."""

    def __init__(
        self,
        num_features: int,
        num_groups: int | None = 32,
        group_size: int | None = None,
        *,
        epsilon: float = 1e-6,
        reduction_axes: Any = None,
        rngs: Any,
        **options: Any,
    ) -> None:
        if num_groups is None:
            assert group_size is not None
            num_groups = num_features // group_size
        self.num_groups, self.epsilon = num_groups, epsilon
        self.reduction_axes = reduction_axes
        self._make(num_features, rngs, options)

    def __call__(self, x: Any, *, mask: Any = None, **options: Any) -> Array:
        if mask is not None:
            raise NotEvaluable("nnx.GroupNorm with a mask")
        found = functions.group_normalized(
            x,
            self.scale,
            self.bias,
            groups=self.num_groups,
            epsilon=self.epsilon,
            reduction_axes=self.reduction_axes,
            axis_name=self.axis_name,
            index_groups=self.axis_index_groups,
            is_fast=self.use_fast_variance,
        )
        return functions.as_asked(found, self.dtype)


@provide(f"{_NNX}.BatchNorm")
class BatchNorm(_Norm):
    """Features over the batch, in training; in use, by the statistics that training kept."""

    def __init__(
        self,
        num_features: int,
        *,
        use_running_average: bool | None = False,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-5,
        rngs: Any,
        **options: Any,
    ) -> None:
        self.use_running_average = use_running_average
        self.axis, self.momentum, self.epsilon = axis, momentum, epsilon
        self.mean = BatchStat(call("numpy.zeros", (num_features,)))
        self.var = BatchStat(call("numpy.ones", (num_features,)))
        self._make(num_features, rngs, options)

    def __call__(
        self,
        x: Any,
        use_running_average: bool | None = None,
        *,
        mask: Any = None,
        **options: Any,
    ) -> Array:
        array = asarray(x)
        features = functions.axes_in(self.axis, array.rank)
        reduced = tuple(k for k in range(array.rank) if k not in features)
        is_kept = use_running_average
        if is_kept is None:
            is_kept = self.use_running_average
        mean, variance = self.mean.value, self.var.value
        if not is_kept:
            mean, variance = functions.statistics(
                array,
                reduced,
                axis_name=self.axis_name,
                groups=self.axis_index_groups,
                is_fast=self.use_fast_variance,
                mask=mask,
                is_of_batch=True,
            )
            self.mean.value = _moved(self.mean.value, mean, self.momentum)
            self.var.value = _moved(self.var.value, variance, self.momentum)
        found = functions.normalized(
            array,
            mean,
            variance,
            self.scale,
            self.bias,
            reduced=reduced,
            features=features,
            epsilon=self.epsilon,
        )
        return functions.as_asked(found, self.dtype)


def _moved(before: Array, now: Array, momentum: float) -> Array:
    """A running average, which no gradient goes through."""
    return before * momentum + call("lax.stop_gradient", now) * (1 - momentum)


@provide(f"{_NNX}.Dropout")
class Dropout(Module):
    """Entries at random set to zero, in training."""

    def __init__(
        self,
        rate: float,
        *,
        broadcast_dims: Sequence[int] = (),
        deterministic: bool | None = False,
        rng_collection: str = "dropout",
        rngs: Any = None,
    ) -> None:
        self.rate, self.broadcast_dims = rate, broadcast_dims
        self.deterministic, self.rng_collection = deterministic, rng_collection
        if isinstance(rngs, Rngs):
            rngs = rngs[rng_collection]
        self.rngs = rngs.fork() if isinstance(rngs, RngStream) else None

    def __call__(
        self, inputs: Any, *, deterministic: bool | None = None, rngs: Any = None
    ) -> Any:
        is_certain = self.deterministic if deterministic is None else deterministic
        if self.rate == 0.0 or is_certain:
            return inputs
        source = self.rngs if rngs is None else rngs
        if source is None:
            raise ValueError("nnx.Dropout without rngs")
        key = key_for(source, self.rng_collection)
        return functions.dropped(inputs, key, self.rate, self.broadcast_dims)


@provide(f"{_NNX}.Sequential")
class Sequential(Module):
    """Layers one after the other."""

    def __init__(self, *layers: Any) -> None:
        self.layers = list(layers)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return functions.in_turn(self.layers, *args, **kwargs) if self.layers else args


@provide(f"{_NNX}.MultiHeadAttention")
class MultiHeadAttention(Module):
    """Attention with projections of its own."""

    def __init__(
        self,
        num_heads: int,
        in_features: int,
        qkv_features: int | None = None,
        out_features: int | None = None,
        num_kv_heads: int | None = None,
        in_kv_features: int | None = None,
        *,
        dropout_rate: float = 0.0,
        deterministic: bool | None = None,
        broadcast_dropout: bool = True,
        normalize_qk: bool = False,
        attention_fn: Any = None,
        decode: bool | None = None,
        out_kernel_init: Any = None,
        out_bias_init: Any = None,
        keep_rngs: bool = True,
        rngs: Any,
        **options: Any,
    ) -> None:
        own = qkv_features or in_features
        if own % num_heads:
            raise ValueError(f"{own} features over {num_heads} heads")
        if (num_kv_heads or num_heads) != num_heads:
            raise NotEvaluable("nnx.MultiHeadAttention with grouped heads")
        heads = (num_heads, own // num_heads)
        source = in_kv_features or in_features
        self.num_heads, self.dropout_rate = num_heads, dropout_rate
        self.deterministic, self.decode = deterministic, decode
        self.attention_fn = attention_fn
        self.broadcast_dropout = broadcast_dropout
        self.query = LinearGeneral(in_features, heads, rngs=rngs, **options)
        self.key = LinearGeneral(source, heads, rngs=rngs, **options)
        self.value = LinearGeneral(source, heads, rngs=rngs, **options)
        self.query_ln = self.key_ln = None
        if normalize_qk:
            self.query_ln = LayerNorm(heads[1], use_bias=False, rngs=rngs)
            self.key_ln = LayerNorm(heads[1], use_bias=False, rngs=rngs)
        last = dict(options)
        last.update(
            kernel_init=out_kernel_init or options.get("kernel_init", KERNEL),
            bias_init=out_bias_init or options.get("bias_init", ZEROS),
        )
        self.out = LinearGeneral(
            heads, out_features or in_features, axis=(-2, -1), rngs=rngs, **last
        )
        keeps = dropout_rate > 0 and keep_rngs
        self.rngs = rngs["dropout"].fork() if keeps else None
        self.cached_key: Any = None
        self.cached_value: Any = None
        self.cache_index: Any = None

    def init_cache(self, input_shape: Sequence[int], dtype: Any = float) -> None:
        """Room for the keys and values of ``(batch…, length, features)``."""
        _, heads, depth = sizes_of(self.key.kernel.value)
        shape = (*tuple(input_shape)[:-1], heads, depth)
        self.cached_key = Cache(call("numpy.zeros", shape, dtype))
        self.cached_value = Cache(call("numpy.zeros", shape, dtype))
        self.cache_index = Cache(asarray(0))

    def __call__(
        self,
        inputs_q: Any,
        inputs_k: Any = None,
        inputs_v: Any = None,
        *,
        mask: Any = None,
        deterministic: bool | None = None,
        rngs: Any = None,
        decode: bool | None = None,
        is_causal: bool = False,
        **options: Any,
    ) -> Array:
        source = inputs_q if inputs_k is None else inputs_k
        query, key = self.query(inputs_q), self.key(source)
        value = self.value(source if inputs_v is None else inputs_v)
        if self.query_ln is not None and self.key_ln is not None:
            query, key = self.query_ln(query), self.key_ln(key)
        if self.decode if decode is None else decode:
            key, value, mask = self._cached(key, value, mask)
        if is_causal:
            length = sizes_of(query)[-3]
            causal = call("numpy.tri", length, sizes_of(key)[-3], dtype=bool)
            mask = functions.combined_masks(mask, causal, dtype=bool)
        is_certain = self.deterministic if deterministic is None else deterministic
        if self.attention_fn is not None:
            raise NotEvaluable("nnx.MultiHeadAttention with an attention_fn")
        weights = functions.attention_weights(query, key, None, mask)
        if self.dropout_rate > 0 and not is_certain:
            dropout_key = key_for(self.rngs if rngs is None else rngs, "dropout")
            weights = functions.dropped_weights(
                weights, dropout_key, self.dropout_rate, self.broadcast_dropout
            )
        found = functions.weighted(weights, value)
        return self.out(found)

    def _cached(self, key: Array, value: Array, mask: Any) -> tuple[Any, Any, Any]:
        """Keys and values of all tokens so far, and the mask of those that there are not yet."""
        if self.cached_key is None:
            raise ValueError("the cache is not initialized: call init_cache first")
        *batch, length, _, _ = sizes_of(self.cached_key.value)
        at = self.cache_index.value
        start = (*(0,) * len(batch), at, 0, 0)
        for cache, new in ((self.cached_key, key), (self.cached_value, value)):
            cache.value = call("lax.dynamic_update_slice", cache.value, new, start)
        self.cache_index.value = at + 1
        seen = call("numpy.arange", length) <= at
        seen = call("numpy.broadcast_to", seen, (*batch, 1, 1, length))
        mask = functions.combined_masks(mask, seen, dtype=bool)
        return self.cached_key.value, self.cached_value.value, mask


# --- functions --------------------------------------------------------------------------------------------------------


@provide(f"{_NNX}.dot_product_attention")
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    is_causal: bool = False,
    **options: Any,
) -> Array:
    if is_causal or (dropout_rate and not deterministic):
        raise NotEvaluable("attention with dropout or a causal mask of its own")
    return functions.attention(query, key, value, bias, mask)


provide(f"{_NNX}.make_causal_mask")(functions.causal_mask)
provide(f"{_NNX}.make_attention_mask")(functions.attention_mask)
provide(f"{_NNX}.combine_masks")(functions.combined_masks)


provide(f"{_NNX}.max_pool")(functions.pooling("max"))
provide(f"{_NNX}.min_pool")(functions.pooling("min"))
provide(f"{_NNX}.avg_pool")(functions.average_pooled)
functions.provide_activations(_NNX)
