"""What ``from shardtypes import …`` offers, for type checkers; at run time the names are loaded when first used."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardtypes.dtypes import bool_ as bool_
from shardtypes.dtypes import bf16 as bf16
from shardtypes.dtypes import f16 as f16
from shardtypes.dtypes import f32 as f32
from shardtypes.dtypes import f64 as f64
from shardtypes.dtypes import f8_e3m4 as f8_e3m4
from shardtypes.dtypes import f8_e4m3 as f8_e4m3
from shardtypes.dtypes import f8_e4m3b11fnuz as f8_e4m3b11fnuz
from shardtypes.dtypes import f8_e4m3fn as f8_e4m3fn
from shardtypes.dtypes import f8_e4m3fnuz as f8_e4m3fnuz
from shardtypes.dtypes import f8_e5m2 as f8_e5m2
from shardtypes.dtypes import f8_e5m2fnuz as f8_e5m2fnuz
from shardtypes.dtypes import f8_e8m0fnu as f8_e8m0fnu
from shardtypes.dtypes import f4_e2m1fn as f4_e2m1fn
from shardtypes.dtypes import i2 as i2
from shardtypes.dtypes import i4 as i4
from shardtypes.dtypes import i8 as i8
from shardtypes.dtypes import i16 as i16
from shardtypes.dtypes import i32 as i32
from shardtypes.dtypes import i64 as i64
from shardtypes.dtypes import u2 as u2
from shardtypes.dtypes import u4 as u4
from shardtypes.dtypes import u8 as u8
from shardtypes.dtypes import u16 as u16
from shardtypes.dtypes import u32 as u32
from shardtypes.dtypes import u64 as u64
from shardtypes.dtypes import c64 as c64
from shardtypes.dtypes import c128 as c128
from shardtypes.dtypes import key as key
from shardtypes.dtypes import floating as floating
from shardtypes.dtypes import integer as integer
from shardtypes.dtypes import signed as signed
from shardtypes.dtypes import unsigned as unsigned
from shardtypes.dtypes import complexfloating as complexfloating
from shardtypes.dtypes import inexact as inexact
from shardtypes.dtypes import number as number
from shardtypes.dtypes import anydtype as anydtype

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

class Array:
    """``Array['layers', T]``: an array type, or a class of arrays, with dimensions in front."""

    def __class_getitem__(cls, item: tuple[str | bytes, Any], /) -> Any: ...
