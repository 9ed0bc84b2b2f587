"""``flax.linen``'s layers in guarded code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.layers import functions
from shardlint.evaluation.layers.boxes import Partitioned
from shardlint.evaluation.layers.functions import (
    KERNEL,
    ONES,
    ZEROS,
    Initializer,
    call,
    promoted_to,
    sizes_in,
)
from shardlint.evaluation.layers.linen_modules import Module, compact
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, sizes_of

_LINEN = "flax.linen"


def _reshaping(init: Initializer, flat: Sequence[int], shape: Sequence[int]) -> Any:
    """An initializer that fans in and out as a matrix does."""

    def made(key: Any, *args: Any) -> Any:
        found = init(key, tuple(flat), *args)
        if isinstance(found, Partitioned):
            return found.replace_boxed(call("numpy.reshape", found.value, shape))
        return call("numpy.reshape", found, shape)

    return made


# --- products and convolutions ----------------------------------------------------------------------------------------


@provide(f"{_LINEN}.Dense")
class Dense(Module):
    """``x @ kernel + bias``."""

    features: Any
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = float
    precision: Any = None
    kernel_init: Any = KERNEL
    bias_init: Any = ZEROS
    promote_dtype: Any = None
    dot_general: Any = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> Array:
        shape = (sizes_of(asarray(inputs))[-1], self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        bias = None
        if self.use_bias:
            bias = self.param("bias", self.bias_init, shape[1:], self.param_dtype)
        return functions.dense(*promoted_to(self.dtype, inputs, kernel, bias))


@provide(f"{_LINEN}.DenseGeneral")
class DenseGeneral(Module):
    """Several dimensions contracted, several made."""

    features: Any
    axis: Any = -1
    batch_dims: Any = ()
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = float
    kernel_init: Any = KERNEL
    bias_init: Any = ZEROS
    precision: Any = None
    promote_dtype: Any = None
    dot_general: Any = None
    dot_general_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> Array:
        if sizes_in(self.batch_dims):
            raise NotEvaluable("nn.DenseGeneral with batch dimensions")
        array = asarray(inputs)
        features = sizes_in(self.features)
        axes = functions.axes_in(self.axis, array.rank)
        contracted = tuple(sizes_of(array)[axis] for axis in axes)
        flat = (math.prod(contracted), math.prod(features))
        shape = (*contracted, *features)
        init = _reshaping(self.kernel_init, flat, shape)
        kernel = self.param("kernel", init, self.param_dtype)
        bias = None
        if self.use_bias:
            init = _reshaping(self.bias_init, flat[1:], features)
            bias = self.param("bias", init, self.param_dtype)
        x, kernel, bias = promoted_to(self.dtype, array, kernel, bias)
        return functions.dense_general(x, kernel, bias, axes)


@provide(f"{_LINEN}.Einsum")
class Einsum(Module):
    """An einsum of the inputs and a kernel."""

    shape: Any
    einsum_str: Any = None
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = float
    precision: Any = None
    kernel_init: Any = KERNEL
    bias_init: Any = ZEROS
    promote_dtype: Any = None
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any, einsum_str: Any = None) -> Array:
        if self.use_bias:
            raise NotEvaluable("nn.Einsum with a bias")
        text = self.einsum_str if einsum_str is None else einsum_str
        shape = tuple(self.shape)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        x, kernel = promoted_to(self.dtype, inputs, kernel)
        return call("numpy.einsum", text, x, kernel)


@provide(f"{_LINEN}.Conv")
class Conv(Module):
    """A convolution, features last."""

    features: Any
    kernel_size: Any
    strides: Any = 1
    padding: Any = "SAME"
    input_dilation: Any = 1
    kernel_dilation: Any = 1
    feature_group_count: int = 1
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = float
    precision: Any = None
    kernel_init: Any = KERNEL
    bias_init: Any = ZEROS
    promote_dtype: Any = None
    conv_general_dilated: Any = None
    conv_general_dilated_cls: Any = None

    @compact
    def __call__(self, inputs: Any) -> Array:
        if self.mask is not None:
            raise NotEvaluable("nn.Conv with a mask")
        size = sizes_of(asarray(inputs))[-1] // self.feature_group_count
        shape = (*sizes_in(self.kernel_size), size, self.features)
        kernel = self.param("kernel", self.kernel_init, shape, self.param_dtype)
        bias = None
        if self.use_bias:
            bias = self.param("bias", self.bias_init, shape[-1:], self.param_dtype)
        x, kernel, bias = promoted_to(self.dtype, inputs, kernel, bias)
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


@provide(f"{_LINEN}.ConvTranspose")
class ConvTranspose(Module):
    """A transposed convolution, features last."""

    features: Any
    kernel_size: Any
    strides: Any = None
    padding: Any = "SAME"
    kernel_dilation: Any = None
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = float
    precision: Any = None
    kernel_init: Any = KERNEL
    bias_init: Any = ZEROS
    transpose_kernel: bool = False
    promote_dtype: Any = None
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any) -> Array:
        if self.mask is not None or self.padding not in ("SAME", "VALID"):
            raise NotEvaluable("nn.ConvTranspose with a mask or circular padding")
        window = sizes_in(self.kernel_size)
        ends = (sizes_of(asarray(inputs))[-1], self.features)
        if self.transpose_kernel:
            ends = ends[::-1]
        kernel = self.param(
            "kernel", self.kernel_init, (*window, *ends), self.param_dtype
        )
        bias = None
        if self.use_bias:
            shape = (self.features,)
            bias = self.param("bias", self.bias_init, shape, self.param_dtype)
        x, kernel, bias = promoted_to(self.dtype, inputs, kernel, bias)
        return functions.transposed_convolution(
            x,
            kernel,
            bias,
            strides=self.strides,
            padding=self.padding,
            dilation=self.kernel_dilation,
            transpose_kernel=self.transpose_kernel,
        )


@provide(f"{_LINEN}.Embed")
class Embed(Module):
    """Rows of a table."""

    num_embeddings: Any
    features: Any
    dtype: Any = None
    param_dtype: Any = float
    embedding_init: Any = functions.embedding_init
    promote_dtype: Any = None

    def setup(self) -> None:
        shape = (self.num_embeddings, self.features)
        self.embedding = self.param(
            "embedding", self.embedding_init, shape, self.param_dtype
        )

    def __call__(self, inputs: Any) -> Array:
        (table,) = promoted_to(self.dtype, self.embedding)
        return functions.looked_up(table, inputs)

    def attend(self, query: Any) -> Array:
        """The products with all rows."""
        x, table = promoted_to(self.dtype, query, self.embedding)
        return functions.attended(x, table)


# --- normalization ----------------------------------------------------------------------------------------------------


def _scale_and_bias(
    module: Any, shape: Sequence[int], has_bias: bool
) -> tuple[Any, Any]:
    scale = bias = None
    if module.use_scale:
        scale = module.param(
            "scale", module.scale_init, tuple(shape), module.param_dtype
        )
    if has_bias:
        bias = module.param("bias", module.bias_init, tuple(shape), module.param_dtype)
    return scale, bias


class _LayerNorm(Module):
    """What layer and root mean square normalization share."""

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = float

    def _normalized(self: Any, x: Any, uses_mean: bool, mask: Any) -> Array:
        array = asarray(x)
        axes = functions.axes_in(self.feature_axes, array.rank)
        shape = tuple(sizes_of(array)[axis] for axis in axes)
        scale, bias = _scale_and_bias(self, shape, uses_mean and self.use_bias)
        found = functions.layer_normalized(
            array,
            scale,
            bias,
            epsilon=self.epsilon,
            reduction_axes=self.reduction_axes,
            feature_axes=self.feature_axes,
            axis_name=self.axis_name,
            groups=self.axis_index_groups,
            use_mean=uses_mean,
            is_fast=self.use_fast_variance,
            mask=mask,
        )
        return functions.as_asked(found, self.dtype)


@provide(f"{_LINEN}.LayerNorm")
class LayerNorm(_LayerNorm):
    """Each example's features by themselves."""

    use_bias: bool = True
    use_scale: bool = True
    bias_init: Any = ZEROS
    scale_init: Any = ONES
    reduction_axes: Any = -1
    feature_axes: Any = -1
    axis_name: Any = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Array:
        return self._normalized(x, True, mask)


@provide(f"{_LINEN}.RMSNorm")
class RMSNorm(_LayerNorm):
    """The same without a mean and a bias."""

    use_scale: bool = True
    scale_init: Any = ONES
    reduction_axes: Any = -1
    feature_axes: Any = -1
    axis_name: Any = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Array:
        return self._normalized(x, False, mask)


@provide(f"{_LINEN}.GroupNorm")
class GroupNorm(Module):
    """Each example's groups of features by themselves."""

    num_groups: Any = 32
    group_size: Any = None
    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = float
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Any = ZEROS
    scale_init: Any = ONES
    reduction_axes: Any = None
    axis_name: Any = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Array:
        if mask is not None:
            raise NotEvaluable("nn.GroupNorm with a mask")
        array = asarray(x)
        shape = sizes_of(array)[-1:]
        groups = self.num_groups
        if self.group_size is not None:
            groups = shape[0] // self.group_size
        scale, bias = _scale_and_bias(self, shape, self.use_bias)
        found = functions.group_normalized(
            array,
            scale,
            bias,
            groups=groups,
            epsilon=self.epsilon,
            reduction_axes=self.reduction_axes,
            axis_name=self.axis_name,
            index_groups=self.axis_index_groups,
            is_fast=self.use_fast_variance,
        )
        return functions.as_asked(found, self.dtype)


@provide(f"{_LINEN}.BatchNorm")
class BatchNorm(Module):
    """Features over the batch, in training; in use, by the statistics that training kept."""

    use_running_average: Any = None
    axis: Any = -1
    momentum: float = 0.99
    epsilon: float = 1e-5
    dtype: Any = None
    param_dtype: Any = float
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Any = ZEROS
    scale_init: Any = ONES
    axis_name: Any = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(
        self, x: Any, use_running_average: Any = None, *, mask: Any = None
    ) -> Array:
        is_kept = use_running_average
        if is_kept is None:
            is_kept = self.use_running_average
        array = asarray(x)
        features = functions.axes_in(self.axis, array.rank)
        reduced = tuple(k for k in range(array.rank) if k not in features)
        shape = tuple(sizes_of(array)[axis] for axis in features)
        mean_kept = self.variable("batch_stats", "mean", _full(0.0), shape)
        variance_kept = self.variable("batch_stats", "var", _full(1.0), shape)
        mean, variance = mean_kept.value, variance_kept.value
        if not is_kept:
            mean, variance = functions.statistics(
                array,
                reduced,
                axis_name=None if self.is_initializing() else self.axis_name,
                groups=self.axis_index_groups,
                is_fast=self.use_fast_variance,
                mask=mask,
                is_of_batch=True,
            )
            if not self.is_initializing():
                mean_kept.value = _moved(mean_kept.value, mean, self.momentum)
                variance_kept.value = _moved(
                    variance_kept.value, variance, self.momentum
                )
        scale, bias = _scale_and_bias(self, shape, self.use_bias)
        found = functions.normalized(
            array,
            mean,
            variance,
            scale,
            bias,
            reduced=reduced,
            features=features,
            epsilon=self.epsilon,
        )
        return functions.as_asked(found, self.dtype)


def _full(number: float) -> Callable[[Any], Array]:
    return lambda shape: call("numpy.full", shape, number)


def _moved(before: Any, now: Array, momentum: float) -> Array:
    """A running average."""
    return asarray(before) * momentum + now * (1 - momentum)


# --- the rest ---------------------------------------------------------------------------------------------------------


def _is_certain(given: Any, own: Any) -> bool:
    """Whether nothing is drawn, as the call or else the module says."""
    if given is None and own is None:
        raise ValueError("deterministic is not given")
    return bool(own if given is None else given)


@provide(f"{_LINEN}.Dropout")
class Dropout(Module):
    """Entries at random set to zero, in training."""

    rate: Any
    broadcast_dims: Any = ()
    deterministic: Any = None
    rng_collection: str = "dropout"

    @compact
    def __call__(self, inputs: Any, deterministic: Any = None, rng: Any = None) -> Any:
        if _is_certain(deterministic, self.deterministic) or self.rate == 0.0:
            return inputs
        key = self.make_rng(self.rng_collection) if rng is None else rng
        return functions.dropped(inputs, key, self.rate, self.broadcast_dims)


@provide(f"{_LINEN}.Sequential")
class Sequential(Module):
    """Layers one after the other."""

    layers: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.layers:
            raise ValueError("nn.Sequential without layers")
        return functions.in_turn(self.layers, *args, **kwargs)


def _part(cls: Any, name: str, **given: Any) -> Any:
    """A submodule of this name."""
    return cls(name=name, **given)


@provide(f"{_LINEN}.MultiHeadDotProductAttention")
@provide(f"{_LINEN}.MultiHeadAttention")
class MultiHeadDotProductAttention(Module):
    """Attention with projections of its own."""

    num_heads: int
    dtype: Any = None
    param_dtype: Any = float
    qkv_features: Any = None
    out_features: Any = None
    broadcast_dropout: bool = True
    dropout_rate: float = 0.0
    deterministic: Any = None
    precision: Any = None
    kernel_init: Any = KERNEL
    out_kernel_init: Any = None
    bias_init: Any = ZEROS
    out_bias_init: Any = None
    use_bias: bool = True
    attention_fn: Any = None
    decode: bool = False
    normalize_qk: bool = False
    force_fp32_for_softmax: bool = False
    qkv_dot_general: Any = None
    out_dot_general: Any = None
    qkv_dot_general_cls: Any = None
    out_dot_general_cls: Any = None

    @compact
    def __call__(
        self,
        inputs_q: Any,
        inputs_k: Any = None,
        inputs_v: Any = None,
        *,
        inputs_kv: Any = None,
        mask: Any = None,
        deterministic: Any = None,
        dropout_rng: Any = None,
        sow_weights: bool = False,
    ) -> Array:
        if self.decode or self.attention_fn is not None:
            raise NotEvaluable("attention that decodes, or by a function of its own")
        keys = inputs_kv if inputs_k is None else inputs_k
        keys = inputs_q if keys is None else keys
        values = inputs_kv if inputs_v is None else inputs_v
        values = keys if values is None else values
        width = sizes_of(asarray(inputs_q))[-1]
        own = self.qkv_features or width
        heads = (self.num_heads, own // self.num_heads)
        query = self._projection("query", heads)(inputs_q)
        key = self._projection("key", heads)(keys)
        value = self._projection("value", heads)(values)
        if self.normalize_qk:
            query = _part(LayerNorm, "query_ln", use_bias=False)(query)
            key = _part(LayerNorm, "key_ln", use_bias=False)(key)
        weights = functions.attention_weights(query, key, None, mask)
        weights = self._dropped(weights, deterministic, dropout_rng)
        found = functions.weighted(weights, value)
        out = _part(
            DenseGeneral,
            "out",
            features=self.out_features or width,
            axis=(-2, -1),
            kernel_init=self.out_kernel_init or self.kernel_init,
            bias_init=self.out_bias_init or self.bias_init,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
        )
        made: Array = out(found)
        return made

    def _projection(self, name: str, features: tuple[int, int]) -> Any:
        return _part(
            DenseGeneral,
            name,
            features=features,
            kernel_init=self.kernel_init,
            bias_init=self.bias_init,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
        )

    def _dropped(self, weights: Array, deterministic: Any, key: Any) -> Array:
        if self.dropout_rate == 0.0 or _is_certain(deterministic, self.deterministic):
            return weights
        drawn = self.make_rng("dropout") if key is None else key
        return functions.dropped_weights(
            weights, drawn, self.dropout_rate, self.broadcast_dropout
        )


@provide(f"{_LINEN}.SelfAttention")
class SelfAttention(MultiHeadDotProductAttention):
    """Attention of the inputs to themselves."""

    @compact
    def __call__(self, inputs_q: Any, mask: Any = None, **options: Any) -> Array:  # type: ignore[override]  # as flax
        found: Array = super().__call__(inputs_q, mask=mask, **options)
        return found


# --- functions --------------------------------------------------------------------------------------------------------


@provide(f"{_LINEN}.dot_product_attention")
@provide(f"{_LINEN}.attention.dot_product_attention")
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    **options: Any,
) -> Array:
    if dropout_rate and not deterministic:
        raise NotEvaluable("attention with dropout")
    return functions.attention(query, key, value, bias, mask)


@provide(f"{_LINEN}.dot_product_attention_weights")
def dot_product_attention_weights(
    query: Any, key: Any, bias: Any = None, mask: Any = None, **options: Any
) -> Array:
    if options.get("dropout_rate") and not options.get("deterministic"):
        raise NotEvaluable("attention with dropout")
    return functions.attention_weights(query, key, bias, mask)


provide(f"{_LINEN}.make_causal_mask")(functions.causal_mask)
provide(f"{_LINEN}.make_attention_mask")(functions.attention_mask)
provide(f"{_LINEN}.combine_masks")(functions.combined_masks)
provide(f"{_LINEN}.max_pool")(functions.pooling("max"))
provide(f"{_LINEN}.min_pool")(functions.pooling("min"))
provide(f"{_LINEN}.avg_pool")(functions.average_pooled)
functions.provide_activations(_LINEN)
