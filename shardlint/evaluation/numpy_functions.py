"""NumPy in guarded code: its functions, bounded, and the attributes of its arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import Resolver, entries_made, refuse_size
from shardlint.evaluation.outside import KNOWN, provide
from shardlint.evaluation.python import plain_class
from shardtypes.semantics.array import Array
from shardtypes.semantics.local_sizes import axes_of, computed
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.convert import DType
from shardtypes.semantics.special import held

_REFUSED = frozenset(
    """asmatrix bmat format_float_positional format_float_scientific frombuffer from_dlpack fromfile fromregex
    fromstring frompyfunc genfromtxt get_include get_printoptions getbufsize geterr geterrcall info load loadtxt
    may_share_memory nested_iters printoptions save savetxt savez savez_compressed set_printoptions setbufsize seterr
    seterrcall shares_memory show_config show_runtime test vectorize""".split()
)
"""Functions that read or write files or settings, or run what no guard sees."""

_CLASSES = """float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool bool_ half single double
complex64 complex128 int_ uint intp ndarray dtype finfo iinfo integer signedinteger unsignedinteger inexact floating
complexfloating generic number errstate ndindex ndenumerate""".split()
_CONSTANTS = "pi e inf nan euler_gamma".split()
_RANDOM = """default_rng RandomState seed rand randn randint normal uniform permutation choice random shuffle
standard_normal""".split()
_TESTING = """assert_allclose assert_almost_equal assert_array_almost_equal assert_array_equal assert_array_less
    assert_equal""".split()
_WINDOWS = "lib.stride_tricks.sliding_window_view"
_OF_UFUNCS = "accumulate at outer reduce reduceat".split()


def _usable() -> Iterator[tuple[str, Any]]:
    """The functions, classes and constants that a program may use, by name below ``numpy``."""
    chosen = [*_CLASSES, *_CONSTANTS, _WINDOWS]
    chosen += [f"random.{name}" for name in _RANDOM]
    chosen += [f"testing.{name}" for name in _TESTING]
    for name in chosen:
        value = _found(name)
        if value is not None:  # older releases lack some
            yield name, value
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        loaded = vars(module)  # getattr would import modules that no program asks for
        for name in module.__all__:
            value = loaded.get(name)
            if _is_function(value) and name not in _REFUSED:
                yield prefix + name, value
            if isinstance(value, np.ufunc):
                for method in _OF_UFUNCS:
                    yield f"{prefix}{name}.{method}", getattr(value, method)


def _found(name: str) -> Any:
    value: Any = np
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


_SEEDED = frozenset("random.default_rng random.seed random.RandomState".split())
"""Functions whose numbers are no sizes."""
_SQUARE = frozenset(
    """corrcoef cov diag diagflat eye identity mask_indices tri tril_indices triu_indices vander""".split()
)
"""Functions whose result may have as many entries as the square of a number, or of the entries of an array."""


_OF_NUMBERS = frozenset(
    """all allclose any argmax argmin argsort array asanyarray asarray ascontiguousarray average concatenate cumprod
    cumsum diff digitize hstack isin linalg.norm max mean median min percentile prod quantile searchsorted sort stack
    std sum unique var vstack where""".split()
)
"""Functions that take lists of numbers, where others take lists of sizes."""


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy that refuses to make something beyond all bounds."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for arg in (*args, *kwargs.values()):
            numbers = [abs(size) for size in _sizes(name, arg) if type(size) is int]
            if name not in _SEEDED:
                refuse_size(math.prod(numbers))
            if name in _SQUARE:
                refuse_size(max([*numbers, np.size(arg)]) ** 2)
        if isinstance(function, np.ufunc) or name.startswith("testing."):
            args = tuple(map(read, args))
        args = tuple(map(_plain, args))
        kwargs = {key: _plain(arg) for key, arg in kwargs.items()}
        arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
        if len(arrays) > 1:
            refuse_size(_entries(name, function, arrays, args))
        value = function(*args, **kwargs)
        return computed(value, *args) if isinstance(value, np.number) else value

    return call


def _sizes(name: str, arg: Any) -> Sequence[Any]:
    """What may be a size in an argument."""
    if not isinstance(arg, (tuple, list)):
        return (arg,)
    if name in _OF_NUMBERS:
        return ()
    return arg


def read(value: Any) -> Any:
    """The numbers of an array of JAX's, which leaves its operators to no function of NumPy."""
    return value.numbers() if isinstance(value, Array) else value


def _plain(value: Any) -> Any:
    """An argument as NumPy takes it: JAX's dtypes and guarded classes stand for dtypes of its own."""
    if isinstance(value, DType):
        return held(np.zeros((), np.float64), value.name).dtype
    return plain_class(value)


_OUTER = frozenset("outer kron tensordot einsum meshgrid".split())
"""Functions whose results may have as many entries as their operands multiplied."""


def _entries(
    name: str, function: Any, arrays: Sequence[Any], args: Sequence[Any]
) -> int:
    """At most how many entries a function makes of arrays; 0 where it makes no more than they have."""
    if name == "einsum" and isinstance(args[0], str) and "." not in args[0]:
        return _entries_of_einsum(args[0], arrays)
    if name.rpartition(".")[2] in _OUTER:
        return math.prod(array.size for array in arrays)
    if name in ("matmul", "dot"):
        return entries_made("@", *arrays[:2])
    if name == "where" or isinstance(function, np.ufunc):
        return max(entries_made("+", arrays[0], array) for array in arrays[1:])
    return 0


def _entries_of_einsum(subscripts: str, arrays: Sequence[Any]) -> int:
    """How many products ``numpy.einsum`` adds up; its result has no more entries."""
    sizes: dict[str, int] = {}
    operands = subscripts.replace(" ", "").partition("->")[0].split(",")
    for letters, array in zip(operands, arrays, strict=False):
        sizes.update(zip(letters, array.shape, strict=False))
    return math.prod(sizes.values())


def _prod(a: Any, *args: Any, **kwargs: Any) -> Any:
    """``numpy.prod``, which keeps what is known of local sizes."""
    is_local = isinstance(a, tuple) and not args and not kwargs and axes_of(*a)
    return math.prod(a) if is_local else _reduced("prod", a, *args, **kwargs)


def _size(a: Any, *args: Any, **kwargs: Any) -> Any:
    """``numpy.size``, which keeps what is known of local sizes."""
    return (
        LOWERINGS["jax.numpy.size"](a, *args, **kwargs)
        if isinstance(a, Array)
        else np.size(a, *args, **kwargs)
    )


def _windows(x: Any, *args: Any, **kwargs: Any) -> Any:
    """``sliding_window_view``, whose result shows an entry many times."""
    view = np.lib.stride_tricks.sliding_window_view(read(x), *args, **kwargs)
    refuse_size(view.size)
    return view


def _reduced(name: str, a: Any, *args: Any, **kwargs: Any) -> Any:
    """A reduction, which NumPy leaves to the method of what is no array of its own."""
    if isinstance(a, Array):
        return LOWERINGS[f"jax.numpy.{name}"](a, *args, **kwargs)
    return getattr(np, name)(a, *args, **kwargs)


_OF_ARRAYS = {
    name: functools.partial(_reduced, name)
    for name in "all amax amin any max min sum".split()
}
_OTHERS: dict[str, Callable[..., Any]] = {
    **_OF_ARRAYS,
    "prod": _prod,
    "size": _size,
    _WINDOWS: _windows,
}
for _name, _value in _usable():
    if _is_function(_value):
        _value = _checked(_name, _OTHERS.get(_name, _value))
    provide(f"numpy.{_name}")(_value)
KNOWN["numpy.newaxis"] = None

_HIDDEN = frozenset(
    "base ctypes data dump dumps tofile setflags getfield tobytes newbyteorder".split()
)


def of_numpy(value: Any, name: str) -> Any:
    if name.startswith("_") or name in _HIDDEN:
        raise NotEvaluable(f"the attribute {name} of an array of NumPy")
    found = getattr(value, name)
    if not _is_function(found):
        return found

    def call(*args: Any, **kwargs: Any) -> Any:
        options = {key: _plain(arg) for key, arg in kwargs.items()}
        return found(*map(_plain, args), **options)

    return call


def register(resolver: Resolver) -> None:
    """Attributes of NumPy's objects."""
    for cls in (
        np.ndarray,
        np.generic,
        np.dtype,
        np.random.Generator,
        np.random.RandomState,
        np.finfo,
        np.iinfo,
    ):
        resolver.of_type[cls] = of_numpy
