"""``flax.nnx``: streams of random keys, in guarded code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from shardlint.evaluation.layers.functions import call
from shardlint.evaluation.layers.nnx_graph import clone
from shardlint.evaluation.layers.nnx_objects import (
    Module,
    RngCount,
    RngKey,
    modules_in,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.convert import asarray

_NNX = "flax.nnx"


class RngStream(Module):
    """``nnx.RngStream``: each call gives another key, made of the first and of how many there were."""

    def __init__(self, key: Any, *, tag: str = "default") -> None:
        self.tag = tag
        self.key = RngKey(_as_key(key), tag=tag)
        self.count = RngCount(asarray(0, "uint32"), tag=tag)

    def __call__(self) -> Any:
        made = call("random.fold_in", self.key.value, self.count.value)
        self.count.value = self.count.value + asarray(1, "uint32")
        return made

    def fork(self, *, split: Any = None) -> RngStream:
        """A stream of its own, or several at once."""
        key = self()
        return RngStream(
            key if split is None else call("random.split", key, split), tag=self.tag
        )

    def __getattr__(self, name: str) -> Any:
        return _drawing(self, name)


class Rngs(Module):
    """``nnx.Rngs``: streams by name; names that have none take from the default."""

    def __init__(self, default: Any = None, **streams: Any) -> None:
        if isinstance(default, dict):
            streams = {**default, **streams}
            default = None
        if default is not None:
            self.default = _stream(default, "default")
        for name, given in streams.items():
            setattr(self, name, _stream(given, name))

    def __call__(self) -> Any:
        return self["default"]()

    def __getitem__(self, name: str) -> RngStream:
        streams = vars(self)
        if name in streams:
            found: RngStream = streams[name]
            return found
        if "default" not in streams:
            raise AttributeError(f"no stream {name!r}")
        default: RngStream = streams["default"]
        return default

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if f"jax.random.{name}" in LOWERINGS:
            return _drawing(self, name)
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in vars(self)

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __len__(self) -> int:
        return len(vars(self))

    def items(self) -> Any:
        return vars(self).items()

    def fork(self, *, split: Any = None) -> Rngs:
        made = object.__new__(type(self))
        for name, stream in vars(self).items():
            setattr(made, name, stream.fork(split=split))
        return made


for _cls in (RngStream, Rngs):
    provide(f"{_NNX}.{_cls.__name__}")(_cls)


def _as_key(given: Any) -> Array:
    if isinstance(given, Array):
        return given
    return call("random.key", given)


def _stream(given: Any, tag: str) -> RngStream:
    return given if isinstance(given, RngStream) else RngStream(given, tag=tag)


def _drawing(source: Callable[[], Any], name: str) -> Callable[..., Any]:
    """``rngs.normal(shape)``: a draw with the next key."""
    whole = f"random.{name}"
    if f"jax.{whole}" not in LOWERINGS:
        raise AttributeError(name)
    return lambda *args, **kwargs: call(whole, source(), *args, **kwargs)


def key_for(given: Any, collection: str) -> Any:
    """The next key of streams, of a stream, or a key that was given."""
    if isinstance(given, Rngs):
        return given[collection]()
    return given() if isinstance(given, RngStream) else given


@provide(f"{_NNX}.split_rngs")
def split_rngs(given: Any = None, *, splits: Any, only: Any = ...) -> Any:
    """Give a module, or the arguments of a function, as many keys as there are copies of it."""
    if given is None or (callable(given) and not isinstance(given, Module)):
        return _splitting(given, splits)
    for _, module in modules_in(given):
        if isinstance(module, RngStream):
            _split_stream(module, splits)
    return given


def _splitting(function: Any, splits: Any) -> Any:
    def decorate(wrapped: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            made = [_with_split(arg, splits) for arg in args]
            named = {name: _with_split(arg, splits) for name, arg in kwargs.items()}
            return wrapped(*made, **named)

        run.__wrapped__ = wrapped  # type: ignore[attr-defined]  # for whoever asks where it is defined
        return run

    return decorate if function is None else decorate(function)


def _with_split(arg: Any, splits: Any) -> Any:
    if not isinstance(arg, Module):
        return arg
    return split_rngs(clone(arg), splits=splits)


def _split_stream(stream: RngStream, splits: Any) -> None:
    shape = (splits,) if isinstance(splits, int) else tuple(splits)
    stream.key.value = call("random.split", stream(), shape)
    stream.count.value = call("numpy.zeros", shape, "uint32")
