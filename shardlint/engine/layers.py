"""Layers of flax and equinox whose result follows from their arguments: ``Dense``, ``Linear``, ``Embed``, norms."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.ops.arrays import sizes_argument
from shardlint.ops.registry import static_int
from shardlint.values import ArrayValue, Dimension, IntValue, Literal, SequenceValue, Unknown, Value, WrappedValue
from shardtypes.lang import Different, Size, compare, format_shape
from shardtypes.lang.frozen import frozen

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


@frozen
class _Layer:
    """``kind`` says what the layer does; ``names`` are the parameters of its constructor, ``into`` and ``out`` those
    of them that give the size of the last dimension before and after. A ``single`` layer takes one example."""

    kind: str
    names: tuple[str, ...] = ()
    into: str = ""
    out: str = ""
    single: bool = False


_POOLS = frozenset(f"flax.linen.{name}" for name in ("avg_pool", "max_pool", "min_pool"))
_SAME = _Layer("same")
_ONE = ("in_features", "out_features", "use_bias")
LAYERS = {
    "flax.linen.Dense": _Layer("last", ("features",), "", "features"),
    "flax.linen.Embed": _Layer("embed", ("num_embeddings", "features"), "", "features"),
    "flax.linen.Conv": _Layer("conv", ("features", "kernel_size"), "", "features"),
    "flax.linen.ConvTranspose": _Layer("conv", ("features", "kernel_size"), "", "features"),
    **{f"flax.linen.{name}": _SAME for name in "LayerNorm RMSNorm BatchNorm GroupNorm InstanceNorm Dropout".split()},
    "flax.linen.DenseGeneral": _Layer("general", ("features", "axis"), "", "features"),
    "haiku.Linear": _Layer("last", ("output_size",), "", "output_size"),
    "haiku.nets.MLP": _Layer("last", ("output_sizes",), "", "output_sizes"),
    "haiku.Embed": _Layer("embed", ("vocab_size", "embed_dim"), "", "embed_dim"),
    **{f"haiku.{name}": _SAME for name in "LayerNorm RMSNorm BatchNorm GroupNorm InstanceNorm".split()},
    "flax.nnx.Linear": _Layer("last", ("in_features", "out_features"), "in_features", "out_features"),
    "flax.nnx.Embed": _Layer("embed", ("num_embeddings", "features"), "", "features"),
    "flax.nnx.Conv": _Layer("conv", ("in_features", "out_features"), "in_features", "out_features"),
    **{f"flax.nnx.{name}": _SAME for name in "LayerNorm RMSNorm BatchNorm GroupNorm Dropout".split()},
    "equinox.nn.Linear": _Layer("last", _ONE, "in_features", "out_features", True),
    "equinox.nn.MLP": _Layer("last", ("in_size", "out_size"), "in_size", "out_size", True),
    "equinox.nn.Embedding": _Layer("embed", ("num_embeddings", "embedding_size"), "", "embedding_size", True),
    "equinox.nn.GRUCell": _Layer("cell", ("input_size", "hidden_size"), "input_size", "hidden_size", True),
    **{f"equinox.nn.{name}": _SAME for name in "LayerNorm RMSNorm GroupNorm Dropout Identity".split()},
}


def make(qualname: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """The layer that a constructor makes, or what one of the functions beside them gives; None for any other."""
    if qualname in _POOLS:
        return _pooled({**dict(zip(("inputs", "window_shape"), args, strict=False)), **kwargs})
    if qualname == "haiku.get_parameter":
        sizes = sizes_argument({**dict(zip(("name", "shape"), args, strict=False)), **kwargs}.get("shape", Unknown()))
        return ArrayValue(None if sizes is None else tuple(map(Dimension, sizes)))
    layer = LAYERS.get(qualname)
    if layer is None:
        return None
    options = {**dict(zip(layer.names, args, strict=False)), **kwargs}
    return WrappedValue(qualname, Unknown(f"a {qualname}"), tuple(options.items()))


def call(
    it: Interpreter, frame: Frame, made: WrappedValue, args: list[Value], at: int, places: tuple[int, ...]
) -> Value:
    """The result of applying a layer to its first argument; an argument of another width is reported."""
    layer, options = LAYERS[made.kind], dict(made.options)
    value = args[0] if args else Unknown("no argument")
    if not isinstance(value, ArrayValue):
        return Unknown(f"what {made.kind} is applied to is not known")
    if layer.kind == "same":
        return value if value.dtype == "float32" else replace(value, dtype=None, weak=False)
    out, dims = Dimension(_size(options.get(layer.out))), value.dims
    if layer.kind == "cell":
        return ArrayValue((out,), None)
    if dims is None:
        return ArrayValue(None)
    name = made.kind.rpartition(".")[2]
    wanted = _size(options.get(layer.into))
    if layer.kind == "embed":
        return ArrayValue((*dims, out), None) if not (layer.single and dims) else ArrayValue(None)
    if layer.single and (layer.into and options.get(layer.into) == Literal("scalar")):
        return ArrayValue(None)
    if not dims:
        return ArrayValue(None)
    last = dims[-1].size
    if wanted is not None and last is not None and (not layer.single or len(dims) == 1):
        verdict = compare(wanted, last, frame.facts)
        if isinstance(verdict, Different):
            shape = format_shape([d.size for d in dims])
            message = f"{name} takes {wanted} input features, but the argument is {shape!r}"
            it.report(frame, "ST202", places[0] if places else at, message, verdict.witness)
            return Unknown("an error was reported here")
    if layer.kind == "general":
        return _general(dims, options)
    if layer.kind == "conv":
        return ArrayValue((*(Dimension(None) for _ in dims[:-1]), out), None)
    if layer.single and len(dims) != 1:
        return ArrayValue(None)  # a matrix product that may fit by chance
    return ArrayValue((*dims[:-1], out), None)


def _general(dims: tuple[Dimension, ...], options: dict[str, Value]) -> ArrayValue:
    """``DenseGeneral``: ``features`` in the place of the last dimensions, which ``axis`` names."""
    features = sizes_argument(options.get("features", Unknown()))
    given = options.get("axis", IntValue(Size.const(-1)))
    axes = sorted(static_int(item) or 0 for item in (given.items if isinstance(given, SequenceValue) else (given,)))
    last = axes == list(range(-len(axes), 0)) and len(axes) <= len(dims) and "batch_dims" not in options
    if features is None or not last:
        return ArrayValue(None)
    return ArrayValue((*dims[: len(dims) - len(axes)], *map(Dimension, features)))


def _pooled(given: dict[str, Value]) -> Value:
    """A mean or maximum over windows, of which only batch and channels are known."""
    value, window = given.get("inputs"), given.get("window_shape")
    if not isinstance(value, ArrayValue) or value.dims is None or not isinstance(window, SequenceValue):
        return Unknown("what is pooled is not known")
    count, rank = len(window.items), len(value.dims)
    if rank < count + 1:
        return Unknown("fewer dimensions than windows")
    front, channels = value.dims[: rank - count - 1], value.dims[-1]
    return ArrayValue((*front, *[Dimension(None)] * count, channels), value.dtype)


def _size(value: Value | None) -> Size | None:
    if isinstance(value, SequenceValue) and value.items:  # the widths of several layers
        value = value.items[-1]
    return value.size if isinstance(value, IntValue) else None
