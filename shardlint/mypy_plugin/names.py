"""The qualified names that the plugin knows."""

from __future__ import annotations

from typing import Final

JAX_ARRAY: Final = "jax._src.basearray.Array"

STATIC: Final = "shardtypes._static"
DIMS: Final = f"{STATIC}.dims"
INFERRED: Final = f"{STATIC}.inferred"
RETURNED: Final = f"{STATIC}.returned"
YIELDED: Final = f"{STATIC}.yielded"
ASSIGNED: Final = f"{STATIC}.assigned"
CALLED: Final = f"{STATIC}.called"
REVEALED: Final = f"{STATIC}.revealed"
ANNOTATION: Final = f"{STATIC}.annotation"
CONSTRUCTOR: Final = f"{STATIC}.constructor"
FAILED: Final = f"{STATIC}.failed"
FINDINGS: Final = f"{STATIC}.findings"
GLOBAL: Final = "global"
"""The note at the text of a shape that stands outside all functions."""
PREPARE: Final = f"{STATIC}.prepare"

DTYPES_MODULE: Final = "shardtypes.dtypes"
DTYPE_BASE: Final = "shardtypes.dtypes.ArrayDType"
TYPED_SHARD_MAP: Final = "shardtypes.mapped.typed_shard_map"
PYTREE_DATACLASS: Final = "shardtypes.pytrees.pytree_dataclass"
STACKED: Final = frozenset({"shardtypes.stacked.Array"})
ANNOTATED: Final = frozenset({"typing.Annotated", "typing_extensions.Annotated"})

# Annotation class → JAX's name of the dtype.
CONCRETE: Final[dict[str, str]] = {
    "bool_": "bool",
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "f8_e3m4": "float8_e3m4",
    "f8_e4m3": "float8_e4m3",
    "f8_e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8_e4m3fn": "float8_e4m3fn",
    "f8_e4m3fnuz": "float8_e4m3fnuz",
    "f8_e5m2": "float8_e5m2",
    "f8_e5m2fnuz": "float8_e5m2fnuz",
    "f8_e8m0fnu": "float8_e8m0fnu",
    "f4_e2m1fn": "float4_e2m1fn",
    "i2": "int2",
    "i4": "int4",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u2": "uint2",
    "u4": "uint4",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "c64": "complex64",
    "c128": "complex128",
    "key": "key",
}
FAMILIES: Final[dict[str, str]] = {
    "floating": "floating",
    "integer": "integer",
    "signed": "signedinteger",
    "unsigned": "unsignedinteger",
    "complexfloating": "complexfloating",
    "inexact": "inexact",
    "number": "number",
    "anydtype": "any",
}
DTYPES: Final = CONCRETE | FAMILIES
CLASS_OF_DTYPE: Final = {jax_name: name for name, jax_name in DTYPES.items()}
