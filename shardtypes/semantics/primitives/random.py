"""Random bits from keys: threefry, as JAX computes it where it is partitionable (its default).

Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011); ``jax.random``'s documentation.
A key of ``jax.random.PRNGKey`` is two unsigned 32-bit numbers in a last dimension, one of ``jax.random.key`` an entry
of dtype ``key``, which is held as one number of 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from shardtypes.lang.dtypes import KEY
from shardtypes.semantics.array import Array, Dim, Params, Shape
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Letters, fresh
from shardtypes.semantics.local_sizes import axes_of
from shardtypes.semantics.primitive import declare
from shardtypes.semantics.primitives.structure import plain
from shardtypes.semantics.registry import Unsupported
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.sizes import is_surely_less, known
from shardtypes.semantics.telling import Telling
from shardtypes.semantics.values import Values

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _rotated(x: Any, by: int) -> Any:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


def threefry(key: tuple[Any, Any], x: Any, y: Any) -> tuple[Any, Any]:
    """Twenty rounds on two words."""
    with np.errstate(over="ignore"):
        words = [key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA)]
        x, y = x + words[0], y + words[1]
        for group in range(5):
            for rotation in _ROTATIONS[group % 2]:
                x = x + y
                y = _rotated(y, rotation) ^ x
            x = x + words[(group + 1) % 3]
            y = y + words[(group + 2) % 3] + np.uint32(group + 1)
        return x, y


def _counts(shape: Sequence[int]) -> tuple[Any, Any]:
    """The number of each entry, as two words."""
    numbers = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(tuple(shape))
    return (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)


def _words(key: Any) -> tuple[Any, Any]:
    return key[..., 0].astype(np.uint32), key[..., 1].astype(np.uint32)


def _bits(key: Any, *, shape: Sequence[int]) -> Any:
    high, low = threefry(_words(key), *_counts(shape))
    return high ^ low


def _split(key: Any, *, shape: Sequence[int]) -> Any:
    return np.stack(threefry(_words(key), *_counts(shape)), axis=-1)


def _folded(key: Any, data: Any) -> Any:
    word = data.astype(np.int64).astype(np.uint32)
    return np.stack(threefry(_words(key), np.zeros_like(word), word), axis=-1)


def _of_shape(operands: Sequence[Array], params: Params) -> Letters:
    return Letters((plain("k", operands[0]),), (fresh("n", len(params["shape"])),))


def _keys_of_shape(operands: Sequence[Array], params: Params) -> Letters:
    return Letters((plain("k", operands[0]),), (fresh("n", len(params["shape"]) + 1),))


def _drawn_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [tuple(params["shape"])]


def _split_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    return [(*params["shape"], 2)]


_DRAWN = Values(degrees=(None, None))


def _wrapped(words: Any) -> Any:
    high, low = (words[..., k].astype(np.uint64) for k in (0, 1))
    return (high << np.uint64(32)) | low


def _unwrapped(key: Any) -> Any:
    return np.stack([key >> np.uint64(32), key & np.uint64(0xFFFFFFFF)], axis=-1)


def _without_last(operands: Sequence[Array], params: Params) -> Letters:
    dims = plain("k", operands[0])
    return Letters((dims,), (dims[:-1],))


def _with_words(operands: Sequence[Array], params: Params) -> Letters:
    dims = plain("k", operands[0])
    return Letters((dims,), ((*dims, ("word",)),))


random_wrap = declare(
    "random_wrap",
    letters=_without_last,
    shape=lambda operands, params, letters: [operands[0].dims[:-1]],
    dtype=lambda operands, params: [KEY],
    values=_DRAWN,
    evaluate=_wrapped,
    stacked=_wrapped,
)
random_unwrap = declare(
    "random_unwrap",
    letters=_with_words,
    shape=lambda operands, params, letters: [(*operands[0].dims, 2)],
    dtype=lambda operands, params: ["uint32"],
    values=_DRAWN,
    evaluate=_unwrapped,
    stacked=_unwrapped,
)


def is_typed(key: Array) -> bool:
    """Whether it is a key of ``jax.random.key``: one without dimensions is, whatever is told of its dtype. Where there
    are numbers, that is known."""
    return key.dtype == KEY or (key.shape == () and key.value is None)


def _data(key: Array) -> Array:
    """The two words of a key, typed or not."""
    if not is_typed(key):
        return key
    words: Array = random_unwrap(key)
    return words


def _of_each(operands: Sequence[Array], params: Params) -> frozenset[str]:
    """What is drawn with a key of each device's own, or for a local size, depends on the number of devices."""
    value = operands[0].value
    varying = (
        frozenset[str]() if value is None else frozenset(name for name, _ in value.axes)
    )
    return varying | axes_of(*params["shape"])


def _with_dimensions(key: Any, shape: Sequence[int]) -> Any:
    """The keys of all devices, beside numbers of this shape."""
    return key.reshape(len(key), *(1,) * len(shape), 2)


_bits_of_key = declare(
    "random_bits",
    stacked=lambda key, shape: _bits(_with_dimensions(key, shape), shape=shape),
    letters=_of_shape,
    shape=_drawn_shape,
    values=_DRAWN,
    evaluate=_bits,
    own=_of_each,
)
_tell = Telling[[Array, Shape]]("shardtypes_telling_draws")
"""The key and the shape of what is drawn, and of keys that are split."""
telling_draws = _tell.to


_MIDDLE = 1 << 31
Asked = Callable[[], bool]
_without: ContextVar[tuple[frozenset[str], Asked] | None] = ContextVar(
    "shardtypes_without_draws", default=None
)


@contextmanager
def without_own_draws(axes: frozenset[str], are_mapped: Asked) -> Iterator[None]:
    """In the block, what each device along these axes draws for itself is the middle of its distribution; and so is
    all that is drawn where ``are_mapped``: with one device along them, it cannot be told whose the draws are."""
    token = _without.set((axes, are_mapped) if axes else None)
    try:
        yield
    finally:
        _without.reset(token)


def alike(axes: Iterable[str]) -> frozenset[str]:
    """Those of the axes along which devices are to have nothing of their own, as the block says that this is in."""
    without = _without.get()
    return frozenset[str]() if without is None else without[0].intersection(axes)


def random_bits(key: Array, *, shape: Shape) -> Array:
    """32 random bits for each entry. Raises Unsupported for a negative size, which not all that draws refuses."""
    for size in shape:
        if is_surely_less(size, 0):
            raise Unsupported(f"{size} entries")
    _tell(key, shape)
    drawn: Array = _bits_of_key(_data(key), shape=shape)
    without = _without.get()
    if drawn.value is None or without is None:
        return drawn
    axes, are_mapped = without
    if not drawn.own & axes and not are_mapped():
        return drawn
    middle = np.full(tuple(map(known, shape)), _MIDDLE, np.uint32)
    return replace(drawn, value=Simulated.everywhere(middle), own=drawn.own - axes)


_split_key = declare(
    "random_split",
    stacked=lambda key, shape: _split(_with_dimensions(key, shape), shape=shape),
    letters=_keys_of_shape,
    shape=_split_shape,
    values=_DRAWN,
    evaluate=_split,
)


def random_split(key: Array, *, shape: Shape) -> Array:
    """As many keys as the shape says."""
    _tell(key, shape)
    keys: Array = _split_key(_data(key), shape=shape)
    return random_wrap(keys) if is_typed(key) else keys


_fold_in = declare(
    "random_fold_in",
    stacked=_folded,
    letters=lambda operands, params: Letters(
        (plain("k", operands[0]), ()), (plain("k", operands[0]),)
    ),
    shape=lambda operands, params, letters: [operands[0].dims],
    values=_DRAWN,
    evaluate=_folded,
)


def random_fold_in(key: Array, data: Array) -> Array:
    """A key for each number."""
    folded: Array = _fold_in(_data(key), data)
    return random_wrap(folded) if is_typed(key) else folded
