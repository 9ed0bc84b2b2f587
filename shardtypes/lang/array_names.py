"""The names that make array annotations when subscripted, and the dtype or family of dtypes that each stands for."""

from __future__ import annotations

SHARDTYPES_DTYPES: dict[str, str | None] = {
    "bool_": "bool", "bf16": "bfloat16", "key": "key", "floating": "floating", "integer": "integer",
    "signed": "signedinteger", "unsigned": "unsignedinteger", "complexfloating": "complexfloating",
    "inexact": "inexact", "number": "number", "anydtype": None,
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"i{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"u{n}": f"uint{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"f8_{kind}": f"float8_{kind}" for kind in (
        "e3m4", "e4m3", "e4m3b11fnuz", "e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")},
    "f4_e2m1fn": "float4_e2m1fn", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
"""``f32`` → ``float32``; None for any dtype."""

JAXTYPING_DTYPES: dict[str, str | None] = {
    "Float": "floating", "Int": "signedinteger", "UInt": "unsignedinteger", "Integer": "integer",
    "Bool": "bool", "Complex": "complexfloating", "Inexact": "inexact", "Num": "number", "Real": "real",
    "Shaped": None, "Key": "key", "BFloat16": "bfloat16",
    **{f"Float{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"Int{n}": f"int{n}" for n in (2, 4, 8, 16, 32, 64)},
    **{f"UInt{n}": f"uint{n}" for n in (2, 4, 8, 16, 32, 64)},
    "Complex64": "complex64", "Complex128": "complex128",
}  # fmt: skip
"""``Float`` of ``Float[Array, "batch dim"]`` → ``floating``; None for any dtype."""
