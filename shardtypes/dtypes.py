"""The dtypes of annotations: ``f32['batch embed']``, every dtype of JAX, and families such as ``floating``.

Each is a class; indexing one with a shape string gives an ``ArrayType``, cached, hashable and picklable, that typing
sees as an ordinary generic alias (``get_origin(f32['B']) is f32``).
"""

from __future__ import annotations

import operator
import types
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from shardtypes.accepted_dtypes import DTypeClass
from shardtypes.errors import ShapeStringError, ShardTypeError
from shardtypes.lang import Shape
from shardtypes.spec import ShapeSpec, Text, parse_text

if TYPE_CHECKING:
    from shardtypes.array_check import ArraySpec


class ArrayType(types.GenericAlias):
    """An array annotation, such as ``f32['batch/d embed']``. ``__args__`` holds the shape string as bytes, for typing
    takes strings to be forward references."""

    __slots__ = ("_spec",)

    def __instancecheck__(self, value: object) -> bool:
        """Whether the value has this dtype and shape, each name standing for one size; sharding included."""
        try:
            array_spec(self).check_here(value)
        except ShardTypeError:
            return False
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return operator.getitem, (self.__origin__, self.__args__[0])

    def __repr__(self) -> str:
        return f"{self.__origin__.__name__}[{self.__args__[0].decode()!r}]"


class ArrayDType(metaclass=DTypeClass):
    """What every dtype class of annotations derives from."""

    name: ClassVar[str] = ""
    """JAX's name of the dtype (``'bfloat16'``), or of the family as NumPy's hierarchy has it (``'floating'``)."""

    family: ClassVar[bool] = False

    def __class_getitem__(
        cls, shape: Text | ShapeSpec | tuple[Text] | tuple[type, Text]
    ) -> ArrayType:
        if type(shape) is bytes or type(shape) is str:
            return _array_type(cls, shape)
        if isinstance(shape, tuple) and len(shape) == 2:
            _require_array(cls, shape[0])
            return cls.__class_getitem__(shape[1])
        # typing rebuilds aliases from their argument tuple
        if isinstance(shape, tuple) and len(shape) == 1:
            shape = shape[0]
        if isinstance(shape, ShapeSpec):
            shape = str(shape)
        try:
            return _array_type(cls, shape)
        except TypeError:
            parse_text(shape)  # an unhashable argument: says what is wrong with it
            raise


def _require_array(dtype: type[ArrayDType], given: object) -> None:
    """Of ``f32[Array, 'batch']`` the first part says what checkers without a plugin take the value for."""
    import jax
    import numpy as np

    if given is jax.Array:
        return
    name = dtype.__name__
    if given is np.ndarray:
        raise ShapeStringError(
            f"{name}[…] annotates arrays of JAX, got numpy.ndarray: write {name}[Array, 'batch/d embed'] and pass what "
            "jax.numpy.asarray makes of the value, or annotate it with numpy.typing.NDArray"
        )
    raise ShapeStringError(
        f"{name}[…] takes a shape string, alone or after jax.Array, got {given!r} in front of it: "
        f"write {name}['batch/d embed'] or {name}[Array, 'batch/d embed']"
    )


@cache
def _array_type(dtype: type[ArrayDType], text: Text) -> ArrayType:
    shape = parse_text(text)
    if isinstance(text, str):
        return _array_type(dtype, text.encode())
    from shardtypes.array_check import ArraySpec  # takes JAX to import

    made = ArrayType(dtype, (text,))
    object.__setattr__(made, "_spec", ArraySpec.compile(dtype, shape, repr(made)))
    return made


def array_spec(annotation: ArrayType) -> ArraySpec:
    """The compiled form of an annotation (an alias forwards plain attribute access to its origin)."""
    return object.__getattribute__(annotation, "_spec")  # type: ignore[no-any-return]


def shape_of_type(annotation: ArrayType) -> Shape:
    """The parsed shape string of an annotation."""
    return array_spec(annotation).shape


def dtype_class(dtype: Any) -> type[ArrayDType]:
    """The annotation class of anything that names a dtype: ``f32``, ``jnp.float32``, ``'float32'``, ``np.dtype``."""
    if isinstance(dtype, DTypeClass):
        return dtype  # type: ignore[return-value]  # every class with this metaclass derives from ArrayDType
    import jax
    import jax.numpy as jnp

    if (
        isinstance(dtype, str)
        and dtype in globals()
        and isinstance(globals()[dtype], DTypeClass)
    ):
        return globals()[dtype]  # type: ignore[no-any-return]
    if dtype is jax.dtypes.prng_key or (
        not isinstance(dtype, str) and hasattr(dtype, "_rules")
    ):
        return key
    name = jnp.dtype(dtype).name
    for candidate in ALL_DTYPES:
        if not candidate.family and candidate.name == name:
            return candidate
    raise TypeError(f"no array annotation stands for the dtype {name!r}")


class bool_(ArrayDType):
    """An array of ``bool``: ``bool_['batch/d embed']``."""

    name = "bool"


class bf16(ArrayDType):
    """An array of ``bfloat16``: ``bf16['batch/d embed']``."""

    name = "bfloat16"


class f16(ArrayDType):
    """An array of ``float16``: ``f16['batch/d embed']``."""

    name = "float16"


class f32(ArrayDType):
    """An array of ``float32``: ``f32['batch/d embed']``."""

    name = "float32"


class f64(ArrayDType):
    """An array of ``float64``: ``f64['batch/d embed']``."""

    name = "float64"


class f8_e3m4(ArrayDType):
    """An array of ``float8_e3m4``: ``f8_e3m4['batch/d embed']``."""

    name = "float8_e3m4"


class f8_e4m3(ArrayDType):
    """An array of ``float8_e4m3``: ``f8_e4m3['batch/d embed']``."""

    name = "float8_e4m3"


class f8_e4m3b11fnuz(ArrayDType):
    """An array of ``float8_e4m3b11fnuz``: ``f8_e4m3b11fnuz['batch/d embed']``."""

    name = "float8_e4m3b11fnuz"


class f8_e4m3fn(ArrayDType):
    """An array of ``float8_e4m3fn``: ``f8_e4m3fn['batch/d embed']``."""

    name = "float8_e4m3fn"


class f8_e4m3fnuz(ArrayDType):
    """An array of ``float8_e4m3fnuz``: ``f8_e4m3fnuz['batch/d embed']``."""

    name = "float8_e4m3fnuz"


class f8_e5m2(ArrayDType):
    """An array of ``float8_e5m2``: ``f8_e5m2['batch/d embed']``."""

    name = "float8_e5m2"


class f8_e5m2fnuz(ArrayDType):
    """An array of ``float8_e5m2fnuz``: ``f8_e5m2fnuz['batch/d embed']``."""

    name = "float8_e5m2fnuz"


class f8_e8m0fnu(ArrayDType):
    """An array of ``float8_e8m0fnu``: ``f8_e8m0fnu['batch/d embed']``."""

    name = "float8_e8m0fnu"


class f4_e2m1fn(ArrayDType):
    """An array of ``float4_e2m1fn``: ``f4_e2m1fn['batch/d embed']``."""

    name = "float4_e2m1fn"


class i2(ArrayDType):
    """An array of ``int2``: ``i2['batch/d embed']``."""

    name = "int2"


class i4(ArrayDType):
    """An array of ``int4``: ``i4['batch/d embed']``."""

    name = "int4"


class i8(ArrayDType):
    """An array of ``int8``: ``i8['batch/d embed']``."""

    name = "int8"


class i16(ArrayDType):
    """An array of ``int16``: ``i16['batch/d embed']``."""

    name = "int16"


class i32(ArrayDType):
    """An array of ``int32``: ``i32['batch/d embed']``."""

    name = "int32"


class i64(ArrayDType):
    """An array of ``int64``: ``i64['batch/d embed']``."""

    name = "int64"


class u2(ArrayDType):
    """An array of ``uint2``: ``u2['batch/d embed']``."""

    name = "uint2"


class u4(ArrayDType):
    """An array of ``uint4``: ``u4['batch/d embed']``."""

    name = "uint4"


class u8(ArrayDType):
    """An array of ``uint8``: ``u8['batch/d embed']``."""

    name = "uint8"


class u16(ArrayDType):
    """An array of ``uint16``: ``u16['batch/d embed']``."""

    name = "uint16"


class u32(ArrayDType):
    """An array of ``uint32``: ``u32['batch/d embed']``."""

    name = "uint32"


class u64(ArrayDType):
    """An array of ``uint64``: ``u64['batch/d embed']``."""

    name = "uint64"


class c64(ArrayDType):
    """An array of ``complex64``: ``c64['batch/d embed']``."""

    name = "complex64"


class c128(ArrayDType):
    """An array of ``complex128``: ``c128['batch/d embed']``."""

    name = "complex128"


class key(ArrayDType):
    """An array of typed PRNG keys, as ``jax.random.key`` makes them: ``key['']``, ``key['batch']``."""

    name = "key"


class floating(ArrayDType):
    """An array of any float."""

    name = "floating"
    family = True


class integer(ArrayDType):
    """An array of any int, signed or not."""

    name = "integer"
    family = True


class signed(ArrayDType):
    """An array of any signed int."""

    name = "signedinteger"
    family = True


class unsigned(ArrayDType):
    """An array of any unsigned int."""

    name = "unsignedinteger"
    family = True


class complexfloating(ArrayDType):
    """An array of any complex."""

    name = "complexfloating"
    family = True


class inexact(ArrayDType):
    """An array of any float or complex."""

    name = "inexact"
    family = True


class number(ArrayDType):
    """An array of any number (not bool)."""

    name = "number"
    family = True


class anydtype(ArrayDType):
    """An array of any dtype, keys included."""

    name = "any"
    family = True


ALL_DTYPES: tuple[type[ArrayDType], ...] = tuple(ArrayDType.__subclasses__())
