"""The dtypes as every type checker reads them: to each, ``f32[Array, 'batch/d embed']`` is an ``Array``.

At run time these are the classes of ``shardtypes`` itself, and both forms mean the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # As jaxtyping does it: a checker that is told of no plugin ignores the string.
    from typing import Annotated as anydtype
    from typing import Annotated as bf16
    from typing import Annotated as bool_
    from typing import Annotated as c64
    from typing import Annotated as c128
    from typing import Annotated as complexfloating
    from typing import Annotated as f4_e2m1fn
    from typing import Annotated as f8_e3m4
    from typing import Annotated as f8_e4m3
    from typing import Annotated as f8_e4m3b11fnuz
    from typing import Annotated as f8_e4m3fn
    from typing import Annotated as f8_e4m3fnuz
    from typing import Annotated as f8_e5m2
    from typing import Annotated as f8_e5m2fnuz
    from typing import Annotated as f8_e8m0fnu
    from typing import Annotated as f16
    from typing import Annotated as f32
    from typing import Annotated as f64
    from typing import Annotated as floating
    from typing import Annotated as i2
    from typing import Annotated as i4
    from typing import Annotated as i8
    from typing import Annotated as i16
    from typing import Annotated as i32
    from typing import Annotated as i64
    from typing import Annotated as inexact
    from typing import Annotated as integer
    from typing import Annotated as key
    from typing import Annotated as number
    from typing import Annotated as signed
    from typing import Annotated as u2
    from typing import Annotated as u4
    from typing import Annotated as u8
    from typing import Annotated as u16
    from typing import Annotated as u32
    from typing import Annotated as u64
    from typing import Annotated as unsigned
else:
    from shardtypes.dtypes import (
        anydtype,
        bf16,
        bool_,
        c64,
        c128,
        complexfloating,
        f4_e2m1fn,
        f8_e3m4,
        f8_e4m3,
        f8_e4m3b11fnuz,
        f8_e4m3fn,
        f8_e4m3fnuz,
        f8_e5m2,
        f8_e5m2fnuz,
        f8_e8m0fnu,
        f16,
        f32,
        f64,
        floating,
        i2,
        i4,
        i8,
        i16,
        i32,
        i64,
        inexact,
        integer,
        key,
        number,
        signed,
        u2,
        u4,
        u8,
        u16,
        u32,
        u64,
        unsigned,
    )

__all__ = [
    "anydtype",
    "bf16",
    "bool_",
    "c64",
    "c128",
    "complexfloating",
    "f4_e2m1fn",
    "f8_e3m4",
    "f8_e4m3",
    "f8_e4m3b11fnuz",
    "f8_e4m3fn",
    "f8_e4m3fnuz",
    "f8_e5m2",
    "f8_e5m2fnuz",
    "f8_e8m0fnu",
    "f16",
    "f32",
    "f64",
    "floating",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "inexact",
    "integer",
    "key",
    "number",
    "signed",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "unsigned",
]
