"""Attributes of arrays and dtypes in guarded code."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import (
    MARK,
    Resolver,
)
from shardlint.evaluation.outside import KNOWN, guarded, provide
from shardlint.evaluation.pieces import sharding_of, shards_of
from shardlint.evaluation.python import methods
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.local_sizes import plain
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
    if name in ("addressable_shards", "global_shards"):
        return shards_of(array)
    if name == "sharding":
        return sharding_of(array)
    if name in _SAME:
        return lambda *args: array
    if name == "item":
        return lambda *args: array.numbers().item(*args)
    if name == "tolist":
        return lambda: array.numbers().tolist()
    if name == "__array__":
        return array.__array__
    return Method(array, name)


def local_shape(array: Array) -> tuple[Any, ...]:
    """The shape, whose sizes know over which axes of devices their dimensions are sharded."""
    return tuple(plain(size) for size in array.dims)


class Method:
    """A method of an array, which is the function ``qualname`` of JAX applied to it."""

    __slots__ = ("_function", "array", "name", "qualname")

    def __init__(self, array: Array, name: str) -> None:
        names = [f"jax.Array.{name}"]
        if name in _METHODS:
            names.append(f"jax.numpy.{name}")
        found = next((one for one in names if one in LOWERINGS), None)
        if found is None:
            raise NotEvaluable(f"the attribute {name} of an array")
        self.array = array
        self.name = name
        self.qualname = found
        self._function = LOWERINGS[found]

    @property
    def __name__(self) -> str:
        return f".{self.name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return guarded(self.__name__, self._function, (self.array, *args), kwargs)


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
KNOWN["jax.numpy.newaxis"] = None


@provide("jax.numpy.dtype")
def _dtype(dtype: Any, align: bool = False, copy: bool = False) -> DType:
    return DType(asarray(0, dtype).dtype or "float32")


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


@provide("jax.numpy.iinfo")
def _integer_limits(int_type: Any) -> Limits:
    return Limits(int_type)


def _bounds(name: str) -> tuple[float, float, float, float]:
    if dtypes.is_kind(name, "floating"):
        if name == "bfloat16":
            return -3.3895313892515355e38, 3.3895313892515355e38, 2.0**-7, 2.0**-126
        info = np.finfo(np.float16 if name == "float16" else np.float32)
        return float(info.min), float(info.max), float(info.eps), float(info.tiny)
    whole = np.iinfo(name if dtypes.bits(name) >= 8 else "int8")
    return int(whole.min), int(whole.max), 1, 1


@provide("jax.numpy.issubdtype")
def _is_subdtype(arg1: Any, arg2: Any) -> bool:
    name = arg1.name if isinstance(arg1, DType) else str(arg1)
    kind = getattr(arg2, "qualname", "").rpartition(".")[2]
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
        if isinstance(arg2, DType):
            return arg2.name == name
        raise NotEvaluable("issubdtype of something unknown")
    return name in dtypes.FAMILIES[family]


def register(resolver: Resolver) -> None:
    """Attributes of arrays and dtypes."""
    table = resolver.of_type
    table[Array] = of_array
    table[At] = methods("get set add subtract multiply mul divide power min max apply")
    table[Typed] = _of_type
    table[DType] = methods("name itemsize kind")


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


class Typed:
    """``jax.typeof``: the type of an array, as far as it is told."""

    def __init__(self, array: Array) -> None:
        self.shape = local_shape(array)
        self.dtype = DType(array.dtype or "float32")
        self.ndim = array.rank
        self.size = entries_of(array)
        self.weak_type = array.weak


def _of_type(typed: Typed, name: str) -> Any:
    if name in vars(typed):
        return getattr(typed, name)
    raise NotEvaluable(f"the attribute {name} of the type of an array")


@provide("jax.typeof")
def _type_of(x: Any) -> Typed:
    return Typed(asarray(x))
