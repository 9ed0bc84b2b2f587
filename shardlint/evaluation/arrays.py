"""Attributes of arrays, dtypes and NumPy's arrays in guarded code, and NumPy itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import (
    MARK,
    Resolver,
    entries_made,
    refuse_size,
)
from shardlint.evaluation.outside import KNOWN, guarded, provide
from shardlint.evaluation.python import methods, plain_class
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.local_sizes import axes_of, computed, plain
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.convert import DType, asarray
from shardtypes.semantics.lowerings.indexing import At
from shardtypes.semantics.lowerings.shapes import entries_of

_METHODS = frozenset(
    """all any argmax argmin argsort astype clip conj conjugate cumprod cumsum dot max mean min prod ptp repeat round
    sort squeeze std sum swapaxes take var diagonal trace searchsorted""".split()
)
_SAME = frozenset(
    {"block_until_ready", "copy", "__array__", "copy_to_host_async", "addressable_data"}
)


def of_array(array: Array, name: str) -> Any:
    """``array.name``, as a ``jax.Array`` has it."""
    if name == "shape":
        return local_shape(array)
    if name == "ndim":
        return array.rank
    if name == "size":
        return entries_of(array)
    if name == "dtype":
        return DType(array.dtype or "float32")
    if name == "at":
        return At(array)
    if name == "T":
        return LOWERINGS["jax.numpy.transpose"](array)
    if name == "mT":
        return LOWERINGS["jax.numpy.matrix_transpose"](array)
    if name in ("real", "imag"):
        return LOWERINGS[f"jax.numpy.{name}"](array)
    if name in ("nbytes", "itemsize"):
        return DType(array.dtype or "float32").itemsize * (
            entries_of(array) if name == "nbytes" else 1
        )
    if name in _SAME:
        return lambda *args: array
    if name == "item":
        return lambda *args: array.numbers().item(*args)
    if name == "tolist":
        return lambda: array.numbers().tolist()
    if name == "__array__":
        return array.__array__
    return _method(array, name)


def local_shape(array: Array) -> tuple[Any, ...]:
    """The shape, whose sizes know over which axes of devices their dimensions are sharded."""
    return tuple(plain(size) for size in array.dims)


def _method(array: Array, name: str) -> Callable[..., Any]:
    own = LOWERINGS.get(f"jax.Array.{name}")
    if own is None and name in _METHODS:
        own = LOWERINGS.get(f"jax.numpy.{name}")
    if own is None:
        raise NotEvaluable(f"the attribute {name} of an array")
    function = own

    def method(*args: Any, **kwargs: Any) -> Any:
        return guarded(f".{name}", function, (array, *args), kwargs)

    method.__name__ = f".{name}"
    return method


# --- dtypes ---------------------------------------------------------------------------------------------------------

DType.is_value = True  # type: ignore[attr-defined]  # a name that is read, not called on the way
for _name in dtypes.CONCRETE:
    provide(f"jax.numpy.{_name}")(DType(dtypes.canonical(_name)))
for _name, _other in (
    ("bool_", "bool"),
    ("float_", "float32"),
    ("int_", "int32"),
    ("complex_", "complex64"),
    ("single", "float32"),
    ("double", "float32"),
    ("uint", "uint32"),
):
    provide(f"jax.numpy.{_name}")(DType(_other))
for _name in ("pi", "e", "inf", "nan", "euler_gamma"):
    provide(f"jax.numpy.{_name}")(getattr(np, _name))
for _module in ("jax.numpy", "numpy"):
    KNOWN[f"{_module}.newaxis"] = None


@provide("jax.numpy.dtype")
def _dtype(given: Any) -> DType:
    return DType(asarray(0, given).dtype or "float32")


class Limits:
    """``jnp.finfo`` and ``jnp.iinfo``."""

    def __init__(self, dtype: Any) -> None:
        name = (
            asarray(
                0,
                dtype
                if not isinstance(dtype, Array)
                else DType(dtype.dtype or "float32"),
            ).dtype
            or "float32"
        )
        info = _bounds(name)
        (
            self.min,
            self.max,
            self.eps,
            self.tiny,
            self.smallest_normal,
            self.bits,
            self.dtype,
        ) = (
            *info,
            info[3],
            dtypes.bits(name),
            DType(name),
        )


setattr(Limits, MARK, True)
provide("jax.numpy.finfo")(Limits)
provide("jax.numpy.iinfo")(Limits)


def _bounds(name: str) -> tuple[float, float, float, float]:
    if dtypes.is_kind(name, "floating"):
        if name == "bfloat16":
            return -3.3895313892515355e38, 3.3895313892515355e38, 2.0**-7, 2.0**-126
        info = np.finfo(np.float16 if name == "float16" else np.float32)
        return float(info.min), float(info.max), float(info.eps), float(info.tiny)
    whole = np.iinfo(name if dtypes.bits(name) >= 8 else "int8")
    return int(whole.min), int(whole.max), 1, 1


@provide("jax.numpy.issubdtype")
def _is_subdtype(one: Any, other: Any) -> bool:
    name = one.name if isinstance(one, DType) else str(one)
    kind = getattr(other, "qualname", "").rpartition(".")[2]
    family = {
        "floating": "floating",
        "inexact": "inexact",
        "integer": "integer",
        "signedinteger": "signedinteger",
        "unsignedinteger": "unsignedinteger",
        "complexfloating": "complexfloating",
        "number": "number",
    }.get(kind)
    if family is None:
        if isinstance(other, DType):
            return other.name == name
        raise NotEvaluable("issubdtype of something unknown")
    return name in dtypes.FAMILIES[family]


# --- NumPy ----------------------------------------------------------------------------------------------------------

_NUMPY = """abs absolute add all allclose amax amin angle any append arange arccos arccosh arcsin arcsinh arctan arctan2
arctanh argmax argmin argpartition argsort argwhere around array array_equal array_split asarray ascontiguousarray
atleast_1d atleast_2d atleast_3d average bincount bitwise_and bitwise_or bitwise_xor broadcast_arrays broadcast_shapes
broadcast_to cbrt ceil clip column_stack concatenate conj copy cos cosh count_nonzero cov cross cumprod cumsum deg2rad
diag diagonal diff digitize divide dot dsplit dstack einsum empty empty_like equal exp exp2 expand_dims expm1 eye fabs
flip fliplr flipud floor floor_divide fmax fmin fmod full full_like gcd geomspace gradient greater greater_equal
histogram
hsplit hstack hypot identity imag indices inner interp intersect1d invert isclose isfinite isin isinf isnan isscalar
kron
lcm less less_equal lexsort linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor
logspace matmul max maximum mean median meshgrid min minimum mod moveaxis multiply nan_to_num nanmax nanmean nanmin
nansum
ndim negative nonzero not_equal ones ones_like outer pad partition percentile power prod ptp quantile rad2deg ravel real
reciprocal remainder repeat reshape resize roll rollaxis rot90 round searchsorted shape sign sin sinc sinh size sort
split
sqrt square squeeze stack std subtract sum swapaxes take take_along_axis tan tanh tensordot tile trace transpose tri
tril
triu true_divide trunc unique unravel_index ravel_multi_index var vdot vsplit vstack where zeros zeros_like
float32 float64 float16 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool_ complex64 complex128 pi e inf nan
ndarray
dtype finfo iinfo integer floating generic number errstate
linalg.norm linalg.inv linalg.det linalg.solve linalg.eigh linalg.svd linalg.qr linalg.cholesky random.default_rng
random.RandomState random.seed random.rand random.randn random.randint random.normal random.uniform random.permutation
random.choice random.random random.shuffle testing.assert_allclose testing.assert_array_equal
fft.fft fft.ifft fft.fftn fft.fftfreq fft.rfft fft.irfft fft.fft2 fft.ifft2""".split()


def _found(name: str) -> Any:
    value: Any = np
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


_SEEDED = frozenset("random.default_rng random.seed random.RandomState".split())
"""Functions whose numbers are no sizes."""


def _checked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy that refuses to make something beyond all bounds."""

    def call(*args: Any, **kwargs: Any) -> Any:
        for arg in (*args, *kwargs.values()):
            sizes = arg if isinstance(arg, (tuple, list)) else (arg,)
            numbers = [abs(size) for size in sizes if type(size) is int]
            if name not in _SEEDED:
                refuse_size(math.prod(numbers))
        args = tuple(map(plain_class, args))
        kwargs = {key: plain_class(arg) for key, arg in kwargs.items()}
        arrays = [arg for arg in args if isinstance(arg, np.ndarray)]
        if len(arrays) > 1:
            refuse_size(_entries(name, function, arrays, args))
        value = function(*args, **kwargs)
        return computed(value, *args) if isinstance(value, np.number) else value

    return call


_OUTER = frozenset("outer kron tensordot einsum meshgrid".split())
"""Functions whose results may have as many entries as their operands multiplied."""


def _entries(
    name: str, function: Any, arrays: Sequence[Any], args: Sequence[Any]
) -> int:
    """At most how many entries a function makes of arrays; 0 where it makes no more than they have."""
    if name == "einsum" and isinstance(args[0], str) and "." not in args[0]:
        return _entries_of_einsum(args[0], arrays)
    if name in _OUTER:
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
    return math.prod(a) if is_local else np.prod(a, *args, **kwargs)


def _size(a: Any, *args: Any, **kwargs: Any) -> Any:
    """``numpy.size``, which keeps what is known of local sizes."""
    return (
        LOWERINGS["jax.numpy.size"](a, *args, **kwargs)
        if isinstance(a, Array)
        else np.size(a, *args, **kwargs)
    )


_OF_SIZES = {"prod": _prod, "size": _size}
for _name in _NUMPY:
    _value = _OF_SIZES.get(_name) or _found(_name)
    if _value is None:
        continue
    if isinstance(_value, type) or not callable(_value):
        provide(f"numpy.{_name}")(_value)
    else:
        provide(f"numpy.{_name}")(_checked(_name, _value))

_HIDDEN = frozenset(
    "base ctypes data dump dumps tofile setflags getfield tobytes newbyteorder".split()
)


def of_numpy(value: Any, name: str) -> Any:
    if name.startswith("_") or name in _HIDDEN:
        raise NotEvaluable(f"the attribute {name} of an array of NumPy")
    found = getattr(value, name)
    if name != "astype":
        return found
    return lambda dtype, **options: found(plain_class(dtype), **options)


def register(resolver: Resolver) -> None:
    """Attributes of arrays and dtypes."""
    table = resolver.of_type
    table[Array] = of_array
    table[At] = methods("get set add subtract multiply mul divide power min max apply")
    table[DType] = methods("name itemsize kind")
    for cls in (
        np.ndarray,
        np.generic,
        np.dtype,
        np.random.Generator,
        np.random.RandomState,
        np.finfo,
        np.iinfo,
    ):
        table[cls] = of_numpy


def zeros_of(leaf: Any) -> Any:
    """An array of zeros for what only has a shape."""
    if isinstance(leaf, Struct):
        return LOWERINGS["jax.numpy.zeros"](leaf.shape, leaf.dtype)
    return leaf


class Struct:
    """``jax.ShapeDtypeStruct``."""

    def __init__(self, shape: Any, dtype: Any, **options: Any) -> None:
        self.shape = tuple(shape)
        self.dtype = DType(asarray(0, dtype).dtype or "float32")
        self.ndim = len(self.shape)


setattr(Struct, MARK, True)
provide("jax.ShapeDtypeStruct")(Struct)
