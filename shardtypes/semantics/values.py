"""How the values of an operation's result depend on those of its operands."""

from __future__ import annotations

from fractions import Fraction

from shardtypes.lang.frozen import frozen
from shardtypes.semantics.relation import Monoid


@frozen
class Values:
    """How the values of a result depend on those of the operands, by operand number.

    ``jointly`` are those in which it is linear together, as a sum is; ``each`` those in which it is linear while the
    others are held, as a product is. ``controls`` only choose or place: indices, predicates. ``degrees`` says for a
    positive factor of an operand which power of it the result has (``None``: no power), where linearity does not;
    ``together`` if that only holds when all operands have the factor (a maximum, a comparison). ``monotone`` are +1 or
    -1 where the result grows or falls with an operand. ``monoid`` is what reduced letters are combined with.
    ``moves`` tells that every entry of a result is an entry of an operand. A result that is its operands combined with
    ``idempotent`` takes a complete operand as well as a part.
    """

    jointly: frozenset[int] = frozenset()
    each: frozenset[int] = frozenset()
    controls: frozenset[int] = frozenset()
    degrees: tuple[Fraction | int | None, ...] = ()
    together: bool = False
    monotone: tuple[int, ...] = ()
    monoid: Monoid | None = None
    idempotent: Monoid | None = None
    moves: bool = False
