"""The dtype names of jaxtyping. To a type checker each of them is ``typing.Annotated`` under another name."""

from __future__ import annotations

from typing import Final

MODULE: Final = "jaxtyping"

# jaxtyping's name → our annotation class.
JAXTYPING: Final[dict[str, str]] = {
    "Shaped": "anydtype",
    "Bool": "bool_",
    "Key": "key",
    "Num": "number",
    "Inexact": "inexact",
    "Float": "floating",
    "Complex": "complexfloating",
    "Integer": "integer",
    "Int": "signed",
    "UInt": "unsigned",
    "BFloat16": "bf16",
    "Float16": "f16",
    "Float32": "f32",
    "Float64": "f64",
    "Complex64": "c64",
    "Complex128": "c128",
    **{f"Int{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"UInt{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}
