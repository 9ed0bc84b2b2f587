"""Layers of flax, haiku and equinox whose result follows from their arguments: dense ones, convolutions, attention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from shardlint.engine.frames import Frame
from shardlint.engine.plain import operand
from shardlint.ops.arrays import sizes_argument
from shardlint.ops.registry import static_int
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)
from shardtypes.lang import Different, Size, compare, format_shape
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


@frozen
class _Layer:
    """``kind`` says what the layer does; ``names`` are the parameters of its constructor, ``into`` and ``out`` those
    of them that give the size of the last dimension before and after. A ``single`` layer takes one example; of
    ``spatial`` dimensions it takes this many."""

    kind: str
    names: tuple[str, ...] = ()
    into: str = ""
    out: str = ""
    single: bool = False
    spatial: int = 0


_SAME = _Layer("same")
_ONE = ("in_features", "out_features", "use_bias")
_HEADS = ("num_heads", "in_features", "qkv_features", "out_features")
_KERNEL = ("features", "kernel_size", "strides", "padding")
_INTO_KERNEL = ("in_features", "out_features", "kernel_size", "strides", "padding")
_CHANNELS = ("in_channels", "out_channels", "kernel_size")
LAYERS = {
    "flax.linen.Dense": _Layer("last", ("features",), "", "features"),
    "flax.linen.Embed": _Layer("embed", ("num_embeddings", "features"), "", "features"),
    "flax.linen.Conv": _Layer("conv", _KERNEL, "", "features"),
    "flax.linen.ConvTranspose": _Layer("conv", _KERNEL, "", "features"),
    "flax.linen.ConvLocal": _Layer("conv", _KERNEL, "", "features"),
    **dict.fromkeys(
        [
            f"flax.linen.{name}"
            for name in "LayerNorm RMSNorm BatchNorm GroupNorm InstanceNorm Dropout PReLU".split()
        ],
        _SAME,
    ),
    "flax.linen.DenseGeneral": _Layer("general", ("features", "axis"), "", "features"),
    **dict.fromkeys(
        [
            f"flax.linen.{name}"
            for name in "MultiHeadDotProductAttention MultiHeadAttention SelfAttention".split()
        ],
        _Layer("attention", ("num_heads",), "", "out_features"),
    ),
    "haiku.Linear": _Layer("last", ("output_size",), "", "output_size"),
    "haiku.nets.MLP": _Layer("last", ("output_sizes",), "", "output_sizes"),
    "haiku.Embed": _Layer("embed", ("vocab_size", "embed_dim"), "", "embed_dim"),
    **{
        f"haiku.Conv{n}D": _Layer(
            "conv",
            ("output_channels", "kernel_shape", "stride"),
            "",
            "output_channels",
            spatial=n,
        )
        for n in (1, 2, 3)
    },
    **{
        f"haiku.{name}": _SAME
        for name in "LayerNorm RMSNorm BatchNorm GroupNorm InstanceNorm".split()
    },
    "flax.nnx.Linear": _Layer(
        "last", ("in_features", "out_features"), "in_features", "out_features"
    ),
    "flax.nnx.Embed": _Layer("embed", ("num_embeddings", "features"), "", "features"),
    "flax.nnx.Conv": _Layer("conv", _INTO_KERNEL, "in_features", "out_features"),
    "flax.nnx.ConvTranspose": _Layer(
        "conv",
        ("in_features", "out_features", *_KERNEL[1:]),
        "in_features",
        "out_features",
    ),
    "flax.nnx.LinearGeneral": _Layer(
        "general", ("in_features", "out_features"), "", "out_features"
    ),
    "flax.nnx.MultiHeadAttention": _Layer(
        "attention", _HEADS, "in_features", "out_features"
    ),
    **{
        f"flax.nnx.{name}": _SAME
        for name in "LayerNorm RMSNorm BatchNorm GroupNorm InstanceNorm Dropout".split()
    },
    "equinox.nn.Linear": _Layer("last", _ONE, "in_features", "out_features", True),
    "equinox.nn.MLP": _Layer(
        "last", ("in_size", "out_size"), "in_size", "out_size", True
    ),
    "equinox.nn.Embedding": _Layer(
        "embed", ("num_embeddings", "embedding_size"), "", "embedding_size", True
    ),
    "equinox.nn.GRUCell": _Layer(
        "cell", ("input_size", "hidden_size"), "input_size", "hidden_size", True
    ),
    "equinox.nn.MultiheadAttention": _Layer(
        "queries", ("num_heads", "query_size"), "query_size", "output_size", True
    ),
    **{
        f"equinox.nn.{name}{n}d": _Layer(
            "channels", _CHANNELS, "in_channels", "out_channels", True, n
        )
        for name in ("Conv", "ConvTranspose")
        for n in (1, 2, 3)
    },
    **{
        f"equinox.nn.{name}{n}d": _Layer("pool", (), "", "", True, n)
        for name in ("AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool")
        for n in (1, 2, 3)
    },
    **{
        f"equinox.nn.{name}": _SAME
        for name in "LayerNorm RMSNorm GroupNorm Dropout Identity PReLU".split()
    },
}


#: What ``make`` knows.
MADE = frozenset([*LAYERS, "haiku.get_parameter"])


def make(qualname: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The layer that a constructor makes, or what one of the functions beside them gives; None for any other."""
    if qualname == "haiku.get_parameter":
        sizes = sizes_argument(
            {**dict(zip(("name", "shape"), args, strict=False)), **kwargs}.get(
                "shape", Unknown()
            )
        )
        return ArrayValue(None if sizes is None else tuple(map(Dimension, sizes)))
    layer = LAYERS.get(qualname)
    if layer is None:
        return None
    options = {**dict(zip(layer.names, args, strict=False)), **kwargs}
    return WrappedValue(qualname, Unknown(f"a {qualname}"), tuple(options.items()))


def call(
    it: Interpreter,
    frame: Frame,
    made: WrappedValue,
    args: list[Value],
    at: int,
    places: tuple[int, ...],
) -> Value:
    """The result of applying a layer to its first argument; an argument of another width is reported."""
    layer, options = LAYERS[made.kind], dict(made.options)
    value = operand(args[0]) if args else Unknown("no argument")
    if not isinstance(value, ArrayValue):
        if it.view is not None:  # nothing tells how it lies there
            return Unknown(f"what {made.kind} is applied to is not known")
        value = ArrayValue(None)
    wrong = _other_width(frame, layer, options, value.dims)
    if wrong is not None:
        assert value.dims is not None
        wanted, verdict = wrong
        name = made.kind.rpartition(".")[2]
        given = format_shape([d.size for d in value.dims])
        message = f"{name} takes {wanted} input features, but the argument is {given!r}"
        it.report(frame, "ST202", places[0] if places else at, message, verdict.witness)
        return Unknown("an error was reported here")
    return _RULES[layer.kind](layer, options, value)


def _other_width(
    frame: Frame,
    layer: _Layer,
    options: dict[str, Value],
    dims: tuple[Dimension, ...] | None,
) -> tuple[Size, Different] | None:
    """The width that a layer takes, if that of its argument certainly is another."""
    wanted = _size(options.get(layer.into))
    if wanted is None or not dims or layer.kind not in ("last", "conv"):
        return None
    if layer.single and len(dims) != 1:
        return None
    last = dims[-1].size
    verdict = None if last is None else compare(wanted, last, frame.facts)
    return (wanted, verdict) if isinstance(verdict, Different) else None


# --- what layers give: from the layer, the arguments of its constructor, and what it is applied to -------------------

_Rule: TypeAlias = Callable[[_Layer, "dict[str, Value]", ArrayValue], ArrayValue]


def _same(layer: _Layer, options: dict[str, Value], value: ArrayValue) -> ArrayValue:
    return value if value.dtype == "float32" else replace(value, dtype=None, weak=False)


def _last(layer: _Layer, options: dict[str, Value], value: ArrayValue) -> ArrayValue:
    """The last dimension becomes another."""
    if not value.dims:
        return ArrayValue(None)
    if layer.single and (
        len(value.dims) != 1 or options.get(layer.into) == Literal("scalar")
    ):
        return ArrayValue(None)  # a matrix product that may fit by chance
    return ArrayValue((*value.dims[:-1], _out(layer, options)), None)


def _embedded(
    layer: _Layer, options: dict[str, Value], value: ArrayValue
) -> ArrayValue:
    """There is one dimension more."""
    if value.dims is None or (layer.single and value.dims):
        return ArrayValue(None)
    return ArrayValue((*value.dims, _out(layer, options)), None)


def _convolved(
    layer: _Layer, options: dict[str, Value], value: ArrayValue
) -> ArrayValue:
    """``(…, height, width, channels)``: any number of dimensions before those that the kernel moves along."""
    if not value.dims:
        return ArrayValue(None)
    front = value.dims[:-1]
    kernel = options.get("kernel_size")
    spatial = len(kernel.items) if isinstance(kernel, SequenceValue) else layer.spatial
    if not spatial or spatial > len(front):
        return ArrayValue(
            (*(Dimension(None) for _ in front), _out(layer, options)), None
        )
    along = (
        front[-spatial:] if _is_padded(layer, options) else [Dimension(None)] * spatial
    )
    return ArrayValue((*front[:-spatial], *along, _out(layer, options)), None)


def _is_padded(layer: _Layer, options: dict[str, Value]) -> bool:
    """Whether a convolution gives as many positions as it takes: flax pads by itself, and no steps are left out."""
    padded = options.get("padding", Literal("SAME")) == Literal("SAME")
    return (
        padded
        and not layer.spatial
        and options.keys().isdisjoint({"strides", "input_dilation"})
    )


def _channels_first(
    layer: _Layer, options: dict[str, Value], value: ArrayValue
) -> ArrayValue:
    """``(channels, height, width)``, and nothing else."""
    return ArrayValue((_out(layer, options), *[Dimension(None)] * layer.spatial), None)


def _pooled_first(
    layer: _Layer, options: dict[str, Value], value: ArrayValue
) -> ArrayValue:
    """The same channels."""
    channels = value.dims[0] if value.dims else Dimension(None)
    return ArrayValue((channels, *[Dimension(None)] * layer.spatial), None)


def _cell(layer: _Layer, options: dict[str, Value], value: ArrayValue) -> ArrayValue:
    return ArrayValue((_out(layer, options),), None)


def _attended(
    layer: _Layer, options: dict[str, Value], value: ArrayValue
) -> ArrayValue:
    """As the queries are, but for the last dimension where another size is given."""
    if not value.dims:
        return ArrayValue(None)
    given = options.get(layer.out, Literal(None))
    width = value.dims[-1] if given == Literal(None) else _out(layer, options)
    return ArrayValue((*value.dims[:-1], width), None)


def _queried(layer: _Layer, options: dict[str, Value], value: ArrayValue) -> ArrayValue:
    """A row for each query."""
    given = options.get(layer.out, Literal(None))
    width = Dimension(
        _size(options.get(layer.into if given == Literal(None) else layer.out))
    )
    return ArrayValue((value.dims[0] if value.dims else Dimension(None), width), None)


def _general(layer: _Layer, options: dict[str, Value], value: ArrayValue) -> ArrayValue:
    """``DenseGeneral``: ``features`` in the place of the last dimensions, which ``axis`` names."""
    dims = value.dims
    features = sizes_argument(options.get(layer.out, Unknown()))
    given = options.get("axis", IntValue(Size.const(-1)))
    axes = sorted(
        static_int(item) or 0
        for item in (given.items if isinstance(given, SequenceValue) else (given,))
    )
    if (
        dims is None
        or features is None
        or options.keys() & {"batch_dims", "batch_axis"}
    ):
        return ArrayValue(None)
    if axes != list(range(-len(axes), 0)) or len(axes) > len(dims):
        return ArrayValue(None)
    return ArrayValue((*dims[: len(dims) - len(axes)], *map(Dimension, features)))


_RULES: dict[str, _Rule] = {
    "same": _same,
    "last": _last,
    "embed": _embedded,
    "conv": _convolved,
    "channels": _channels_first,
    "pool": _pooled_first,
    "cell": _cell,
    "attention": _attended,
    "queries": _queried,
    "general": _general,
}


def _out(layer: _Layer, options: dict[str, Value]) -> Dimension:
    return Dimension(_size(options.get(layer.out)))


def _size(value: Value | None) -> Size | None:
    if isinstance(value, SequenceValue) and value.items:  # the widths of several layers
        value = value.items[-1]
    return value.size if isinstance(value, IntValue) else None
