"""``equinox.nn``'s layers in guarded code: of one example each, features first."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.layers import functions
from shardlint.evaluation.layers.functions import call, per_dimension, sizes_in
from shardlint.evaluation.outside import provide
from shardlint.evaluation.trees import Equinox
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, sizes_of

_NN = "equinox.nn"
_SCALAR = "scalar"


def _static() -> Any:
    return dataclasses.field(metadata={"static": True})


def _drawn(key: Any, shape: Sequence[int], limit: float) -> Array:
    return call("random.uniform", key, tuple(shape), minval=-limit, maxval=limit)


# --- products ---------------------------------------------------------------------------------------------------------


@provide(f"{_NN}.Linear")
class Linear(Equinox):
    """``weight @ x + bias``."""

    weight: Any
    bias: Any
    in_features: Any = _static()
    out_features: Any = _static()
    use_bias: bool = _static()

    def __init__(
        self,
        in_features: Any,
        out_features: Any,
        use_bias: bool = True,
        dtype: Any = None,
        *,
        key: Any,
    ) -> None:
        rows = 1 if out_features == _SCALAR else out_features
        columns = 1 if in_features == _SCALAR else in_features
        limit = 1 / math.sqrt(columns)
        keys = call("random.split", key, 2)
        self.weight = _drawn(keys[0], (rows, columns), limit)
        self.bias = _drawn(keys[1], (rows,), limit) if use_bias else None
        self.in_features, self.out_features = in_features, out_features
        self.use_bias = use_bias

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        array = asarray(x)
        if self.in_features == _SCALAR:
            array = call("numpy.reshape", array, (1,))
        found = call("numpy.matmul", self.weight, array)
        if self.bias is not None:
            found = found + asarray(self.bias)
        if self.out_features != _SCALAR:
            return found
        return call("numpy.squeeze", found)


@provide(f"{_NN}.MLP")
class MLP(Equinox):
    """Layers with a function between them."""

    layers: Any
    activation: Any
    final_activation: Any
    use_bias: bool = _static()
    use_final_bias: bool = _static()
    in_size: Any = _static()
    out_size: Any = _static()
    width_size: Any = _static()
    depth: Any = _static()

    def __init__(
        self,
        in_size: Any,
        out_size: Any,
        width_size: int,
        depth: int,
        activation: Any = None,
        final_activation: Any = None,
        use_bias: bool = True,
        use_final_bias: bool = True,
        dtype: Any = None,
        *,
        scan: bool = False,
        key: Any,
    ) -> None:
        if scan:
            raise NotEvaluable("eqx.nn.MLP that scans over its layers")
        keys = call("random.split", key, depth + 1)
        sizes = [in_size, *[width_size] * depth, out_size]
        biases = [*[use_bias] * depth, use_final_bias]
        self.layers = tuple(
            Linear(sizes[k], sizes[k + 1], biases[k], key=keys[k])
            for k in range(depth + 1)
        )
        self.activation = _relu if activation is None else activation
        self.final_activation = _same if final_activation is None else final_activation
        self.use_bias, self.use_final_bias = use_bias, use_final_bias
        self.in_size, self.out_size = in_size, out_size
        self.width_size, self.depth = width_size, depth

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.final_activation(self.layers[-1](x))


def _relu(x: Any) -> Array:
    return call("nn.relu", x)


def _same(x: Any) -> Any:
    return x


@provide(f"{_NN}.Embedding")
class Embedding(Equinox):
    """Rows of a table."""

    weight: Any
    num_embeddings: Any = _static()
    embedding_size: Any = _static()

    def __init__(
        self,
        num_embeddings: Any = None,
        embedding_size: Any = None,
        weight: Any = None,
        dtype: Any = None,
        *,
        key: Any = None,
    ) -> None:
        shape = (num_embeddings, embedding_size)
        self.weight = call("random.normal", key, shape) if weight is None else weight
        self.num_embeddings, self.embedding_size = sizes_of(asarray(self.weight))

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return call("numpy.take", asarray(self.weight), asarray(x), axis=0)


# --- convolutions -----------------------------------------------------------------------------------------------------


class Conv(Equinox):
    """A convolution of ``(features, place…)``."""

    weight: Any
    bias: Any
    num_spatial_dims: Any = _static()
    in_channels: Any = _static()
    out_channels: Any = _static()
    kernel_size: Any = _static()
    stride: Any = _static()
    padding: Any = _static()
    dilation: Any = _static()
    groups: Any = _static()
    use_bias: Any = _static()
    padding_mode: Any = _static()

    def __init__(
        self,
        num_spatial_dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        use_bias: bool = True,
        padding_mode: str = "ZEROS",
        dtype: Any = None,
        *,
        key: Any,
    ) -> None:
        if padding_mode.upper() != "ZEROS":
            raise NotEvaluable(f"eqx.nn.Conv with padding mode {padding_mode}")
        window = per_dimension(kernel_size, num_spatial_dims)
        inputs = in_channels // groups
        limit = 1 / math.sqrt(inputs * math.prod(window))
        keys = call("random.split", key, 2)
        self.weight = _drawn(keys[0], (out_channels, inputs, *window), limit)
        ones = (1,) * num_spatial_dims
        self.bias = _drawn(keys[1], (out_channels, *ones), limit) if use_bias else None
        self.stride = per_dimension(stride, num_spatial_dims)
        self.dilation = per_dimension(dilation, num_spatial_dims)
        self.padding = functions.edges_of(padding, num_spatial_dims)
        self.groups, self.use_bias = groups, use_bias
        self.num_spatial_dims, self.kernel_size = num_spatial_dims, window
        self.in_channels, self.out_channels = in_channels, out_channels
        self.padding_mode = padding_mode

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        batch = call("numpy.expand_dims", asarray(x), 0)
        found = call(
            "lax.conv_general_dilated",
            batch,
            self.weight,
            self.stride,
            self.padding,
            rhs_dilation=self.dilation,
            feature_group_count=self.groups,
        )
        first = call("numpy.squeeze", found, axis=0)
        return first + asarray(self.bias) if self.bias is not None else first


def _of_rank(count: int) -> type[Conv]:
    """``Conv1d``, ``Conv2d``, ``Conv3d``."""

    class Ranked(Conv):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(count, *args, **kwargs)

    return Ranked


provide(f"{_NN}.Conv")(Conv)
for _count in (1, 2, 3):
    provide(f"{_NN}.Conv{_count}d")(_of_rank(_count))


# --- normalization ----------------------------------------------------------------------------------------------------


class _Norm(Equinox):
    weight: Any
    bias: Any
    shape: Any = _static()
    eps: Any = _static()
    use_weight: Any = _static()
    use_bias: Any = _static()

    def __init__(
        self,
        shape: Any,
        eps: float = 1e-5,
        use_weight: bool = True,
        use_bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.shape, self.eps = sizes_in(shape), eps
        self.use_weight, self.use_bias = use_weight, use_bias
        self.weight = call("numpy.ones", self.shape) if use_weight else None
        self.bias = call("numpy.zeros", self.shape) if use_bias else None

    def _scaled(self, found: Array) -> Array:
        if self.weight is not None:
            found = asarray(self.weight) * found
        return found + asarray(self.bias) if self.bias is not None else found

    def _checked(self, x: Any) -> Array:
        array = asarray(x)
        if sizes_of(array) != self.shape:
            raise ValueError(f"a norm of shape {self.shape} of {sizes_of(array)}")
        return array


@provide(f"{_NN}.LayerNorm")
class LayerNorm(_Norm):
    """All entries of one example."""

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        array = self._checked(x)
        centred = array - call("numpy.mean", array, keepdims=True)
        factor = call("lax.rsqrt", call("numpy.var", array, keepdims=True) + self.eps)
        return self._scaled(centred * factor)


@provide(f"{_NN}.RMSNorm")
class RMSNorm(_Norm):
    """The same without a mean."""

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        array = self._checked(x)
        factor = call("lax.rsqrt", call("numpy.mean", array * array) + self.eps)
        return self._scaled(array * factor)


@provide(f"{_NN}.GroupNorm")
class GroupNorm(Equinox):
    """Groups of the features of one example, with all places."""

    weight: Any
    bias: Any
    groups: Any = _static()
    channels: Any = _static()
    eps: Any = _static()
    channelwise_affine: Any = _static()

    def __init__(
        self,
        groups: int,
        channels: Any = None,
        eps: float = 1e-5,
        channelwise_affine: bool = True,
        dtype: Any = None,
    ) -> None:
        self.groups, self.channels, self.eps = groups, channels, eps
        self.channelwise_affine = channelwise_affine
        is_scaled = channelwise_affine and channels is not None
        self.weight = call("numpy.ones", (channels,)) if is_scaled else None
        self.bias = call("numpy.zeros", (channels,)) if is_scaled else None

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        array = asarray(x)
        shape = sizes_of(array)
        rows = call("numpy.reshape", array, (self.groups, -1))
        centred = rows - call("numpy.mean", rows, axis=1, keepdims=True)
        spread = call("numpy.var", rows, axis=1, keepdims=True)
        found = centred * call("lax.rsqrt", spread + self.eps)
        found = call("numpy.reshape", found, shape)
        if self.weight is None:
            return found
        own = (shape[0], *(1,) * (len(shape) - 1))
        weight = call("numpy.reshape", asarray(self.weight), own)
        return found * weight + call("numpy.reshape", asarray(self.bias), own)


# --- the rest ---------------------------------------------------------------------------------------------------------


@provide(f"{_NN}.Dropout")
class Dropout(Equinox):
    """Entries at random set to zero, in training."""

    p: Any
    inference: Any

    def __init__(self, p: float = 0.5, inference: bool = False) -> None:
        self.p, self.inference = p, inference

    def __call__(
        self, x: Any, *, key: Any = None, inference: Any = None, **options: Any
    ) -> Any:
        is_certain = self.inference if inference is None else inference
        if is_certain or self.p == 0:
            return x
        if key is None:
            raise RuntimeError("eqx.nn.Dropout without a key")
        return functions.dropped(x, key, self.p)


@provide(f"{_NN}.Lambda")
class Lambda(Equinox):
    """A function as a layer."""

    fn: Any

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        return self.fn(x)


@provide(f"{_NN}.Identity")
class Identity(Equinox):
    """What it is given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Arguments mean nothing."""

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        return x


@provide(f"{_NN}.Sequential")
class Sequential(Equinox):
    """Layers one after the other, each with a key of its own."""

    layers: Any

    def __init__(self, layers: Sequence[Any]) -> None:
        self.layers = tuple(layers)

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        count = len(self.layers)
        keys: Any = [None] * count
        if key is not None:
            split = call("random.split", key, count)
            keys = [split[k] for k in range(count)]
        for layer, one in zip(self.layers, keys, strict=True):
            x = layer(x, key=one)
        return x

    def __getitem__(self, place: Any) -> Any:
        found = self.layers[place]
        return Sequential(found) if isinstance(place, slice) else found

    def __len__(self) -> int:
        return len(self.layers)


class Pool(Equinox):
    """Windows of ``(features, place…)`` as one entry each."""

    kernel_size: Any = _static()
    stride: Any = _static()
    padding: Any = _static()

    def __init__(
        self,
        num_spatial_dims: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        use_ceil: bool = False,
    ) -> None:
        if use_ceil:
            raise NotEvaluable("eqx.nn pooling with use_ceil")
        self.kernel_size = per_dimension(kernel_size, num_spatial_dims)
        self.stride = per_dimension(stride, num_spatial_dims)
        self.padding = functions.edges_of(padding, num_spatial_dims)

    def _reduced(self, x: Any, start: float, combine: str) -> Array:
        return call(
            "lax.reduce_window",
            asarray(x),
            start,
            lambda a, b: call(combine, a, b),
            (1, *self.kernel_size),
            (1, *self.stride),
            ((0, 0), *self.padding),
        )


class MaxPool(Pool):
    """The largest entries."""

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        return self._reduced(x, -math.inf, "lax.max")


class AvgPool(Pool):
    """The means."""

    def __call__(self, x: Any, *, key: Any = None) -> Array:
        total = self._reduced(x, 0.0, "lax.add")
        count: int = math.prod(self.kernel_size)
        return total / count


def _pool_of_rank(base: type[Pool], count: int) -> Callable[..., Pool]:
    return lambda *args, **kwargs: base(count, *args, **kwargs)


for _count in (1, 2, 3):
    provide(f"{_NN}.MaxPool{_count}d")(_pool_of_rank(MaxPool, _count))
    provide(f"{_NN}.AvgPool{_count}d")(_pool_of_rank(AvgPool, _count))


@provide(f"{_NN}.MultiheadAttention")
class MultiheadAttention(Equinox):
    """Attention of ``(length, features)`` with projections of its own."""

    query_proj: Any
    key_proj: Any
    value_proj: Any
    output_proj: Any
    dropout: Any
    num_heads: Any = _static()
    query_size: Any = _static()
    key_size: Any = _static()
    value_size: Any = _static()
    output_size: Any = _static()
    qk_size: Any = _static()
    vo_size: Any = _static()

    def __init__(
        self,
        num_heads: int,
        query_size: int,
        key_size: Any = None,
        value_size: Any = None,
        output_size: Any = None,
        qk_size: Any = None,
        vo_size: Any = None,
        use_query_bias: bool = False,
        use_key_bias: bool = False,
        use_value_bias: bool = False,
        use_output_bias: bool = False,
        dropout_p: float = 0.0,
        inference: bool = False,
        dtype: Any = None,
        *,
        key: Any,
    ) -> None:
        keys = call("random.split", key, 4)
        depth = qk_size or query_size // num_heads
        own = vo_size or query_size // num_heads
        keyed, valued = num_heads * depth, num_heads * own
        self.query_proj = Linear(query_size, keyed, use_query_bias, key=keys[0])
        self.key_proj = Linear(key_size or query_size, keyed, use_key_bias, key=keys[1])
        self.value_proj = Linear(
            value_size or query_size, valued, use_value_bias, key=keys[2]
        )
        self.output_proj = Linear(
            valued, output_size or query_size, use_output_bias, key=keys[3]
        )
        self.dropout = Dropout(dropout_p, inference=inference)
        self.num_heads = num_heads
        self.query_size, self.qk_size, self.vo_size = query_size, depth, own
        self.key_size = key_size or query_size
        self.value_size = value_size or query_size
        self.output_size = output_size or query_size

    def __call__(
        self,
        query: Any,
        key_: Any,
        value: Any,
        mask: Any = None,
        *,
        key: Any = None,
        inference: Any = None,
        process_heads: Any = None,
    ) -> Array:
        is_dropped = self.dropout.p and not (inference or self.dropout.inference)
        if process_heads is not None or is_dropped:
            raise NotEvaluable("eqx.nn.MultiheadAttention with dropout or own heads")
        q = self._heads(self.query_proj, query)
        k = self._heads(self.key_proj, key_)
        v = self._heads(self.value_proj, value)
        scores = call("numpy.einsum", "shd,Shd->hsS", q / math.sqrt(sizes_of(q)[-1]), k)
        if mask is not None:
            scores = call("numpy.where", asarray(mask), scores, -1e30)
        weights = call("nn.softmax", scores)
        found = call("numpy.einsum", "hsS,Shd->shd", weights, v)
        flat = call("numpy.reshape", found, (sizes_of(q)[0], -1))
        return _projected(self.output_proj, flat)

    def _heads(self, projection: Linear, rows: Any) -> Array:
        found = _projected(projection, asarray(rows))
        return call("numpy.reshape", found, (sizes_of(found)[0], self.num_heads, -1))


def _projected(projection: Linear, rows: Array) -> Array:
    """A layer of each row."""
    kernel = call("numpy.transpose", projection.weight)
    return functions.dense(rows, kernel, projection.bias)
