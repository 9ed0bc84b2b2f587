"""Kinds of dtypes that an operation takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from shardtypes.lang import dtypes
from shardtypes.lang.frozen import frozen
from shardtypes.semantics.registry import Refused

if TYPE_CHECKING:
    from shardtypes.semantics.array import Arrays, Params
    from shardtypes.semantics.primitive import DtypeRule


@frozen
class Kinds:
    """Some of ``bool unsigned signed floating complex``, and what messages call them."""

    words: str
    kinds: tuple[str, ...]

    def require(self, dtype: str | None) -> None:
        """Raises Refused for a dtype that is certainly of no such kind."""
        if dtypes.is_kind(dtype, *self.kinds) is False:
            raise Refused(f"takes {self.words}, got {dtypes.written(dtype)}", "dtypes")

    def checked(self, rule: DtypeRule) -> DtypeRule:
        """The rule of a primitive for the dtypes of results, of operands that are all of these kinds."""
        if self == ANY:
            return rule

        taken = {name for name, kind in dtypes.KIND_OF.items() if kind in self.kinds}

        def of_taken(operands: Arrays, params: Params) -> Sequence[str | None]:
            for operand in operands:
                if operand.dtype not in taken:
                    self.require(operand.dtype)
            return rule(operands, params)

        return of_taken


_WHOLE = ("unsigned", "signed")
COMPLEX = Kinds("complex numbers", ("complex",))
FLOATS = Kinds("floats", ("floating",))
INEXACT = Kinds("floats or complex numbers", ("floating", "complex"))
UNSIGNED = Kinds("unsigned integers", ("unsigned",))
INTEGERS = Kinds("integers", _WHOLE)
BITS = Kinds("integers or booleans", ("bool", *_WHOLE))
REAL = Kinds("integers or floats", (*_WHOLE, "floating"))
ORDERED = Kinds("booleans, integers or floats", ("bool", *_WHOLE, "floating"))
SIGNED = Kinds("signed numbers", ("signed", "floating", "complex"))
ANY = Kinds("anything", ("bool", *_WHOLE, "floating", "complex"))
NUMBERS = Kinds("numbers", (*_WHOLE, "floating", "complex"))
