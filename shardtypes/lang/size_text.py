"""Sizes as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, Self


class Factor(Protocol):
    """What stands between the ``*`` of a term; see ``size.Atom``."""

    @property
    def name(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def args(self) -> Sequence[Polynomial]: ...
    def __lt__(self, other: Self) -> bool: ...


class Polynomial(Protocol):
    """A sum of terms, each with its coefficient; see ``size.Size``."""

    @property
    def terms(self) -> Iterable[tuple[Sequence[Factor], int]]: ...
    @property
    def atoms(self) -> Iterable[Factor]: ...
    @property
    def symbol_name(self) -> str | None: ...
    @property
    def constant(self) -> int | None: ...
    def __mod__(self, other: Self) -> Self: ...


def shown(size: Polynomial) -> str:
    """A size as people write it: ``2*B+1``, ``L%4``, ``min(B,3)``."""
    for atom in sorted(size.atoms):
        if atom.op == "//":  # num - den*(num//den) is how a remainder is kept
            numerator, divisor = atom.args
            if size == numerator % divisor:
                return f"{_operand(numerator)}%{_operand(divisor)}"
    return shown_terms(size)


def shown_terms(size: Polynomial) -> str:
    """A size term by term, positive ones first; remainders as the differences that they are."""
    text = ""
    for monomial, coefficient in sorted(size.terms, key=lambda term: term[1] < 0):
        # A leading sign binds tighter than a division: -(B//2) is not -B//2.
        alone = len(monomial) == 1 and (
            coefficient == 1 or (coefficient == -1 and text != "")
        )
        factors = [_print_atom(a, alone) for a in monomial]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        if coefficient < 0:
            text += "-"
        elif text:
            text += "+"
        text += "*".join(factors)
    return text or "0"


def _print_atom(atom: Factor, alone: bool) -> str:
    if not atom.op:
        return atom.name
    if atom.op == "part":
        return f"min({','.join(map(str, sorted(atom.args, key=repr)))})"
    if atom.op != "//":
        return f"{atom.op}({','.join(map(str, atom.args))})"
    text = f"{_operand(atom.args[0])}//{_operand(atom.args[1])}"
    if alone:
        return text
    return f"({text})"


def _operand(size: Polynomial) -> str:
    constant = size.constant
    plain = size.symbol_name is not None or (constant is not None and constant >= 0)
    if plain:
        return str(size)
    return f"({size})"
