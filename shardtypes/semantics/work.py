"""How much is computed, told to who bounds it: a call of one function may compute as much as a long program."""

from __future__ import annotations

from shardtypes.semantics.telling import Telling

#: Of one primitive on small arrays; a leaf of a tree that is taken apart is one.
OF_PRIMITIVE = 10
#: That are multiplied and added up in one unit.
PRODUCTS = 20_000

tell = Telling[[int]]("shardtypes_work")
"""So much is about to be computed, in units of about ten microseconds."""
telling = tell.to
