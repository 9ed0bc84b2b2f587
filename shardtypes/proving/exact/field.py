"""Numbers of a finite field, and functions of which nothing is known but that they are functions.

A number is a pair: its residue modulo the prime ``P``, and the one modulo the prime ``Q``, for ``P = 2 Q + 1``. Sums,
products and quotients are taken of both. A power of the base whose exponent is the second residue has just the first:
so ``exp(a + b)`` is ``exp(a) * exp(b)``, and everything else that is known of ``exp`` follows from that. Any other
function is opaque: its value is a number drawn for it and its arguments, always the same one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

Host = Any

Q = 1_073_741_789
P = 2 * Q + 1
_BASE = 4  # of order Q
_MIX = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


class NotExact(Exception):
    """What cannot be said in this arithmetic; the message says what."""


@dataclass(frozen=True)
class Residues:
    """Entries modulo P; modulo Q as well, unless a power of the base is in them."""

    p: Host
    q: Host | None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.p.shape)


def residues(array: Host) -> Residues:
    """Numbers as they are written in a program. Raises ``NotExact`` for those that are none."""
    array = np.asarray(array)
    if array.dtype.kind in "biu":
        whole = array.astype(np.int64)
        return Residues(whole % P, whole % Q)
    if array.dtype.kind != "f" or np.isnan(array).any():
        raise NotExact(
            "complex numbers" if array.dtype.kind == "c" else "a number that is none"
        )
    infinite = np.isinf(array)
    finite = np.where(infinite, 0.0, array)
    mantissas, exponents = np.frexp(finite)
    whole = np.ldexp(mantissas, 53).astype(np.int64)
    found = [
        whole % prime * _powers_of_two(prime)[exponents - 53 + _FAR] % prime
        for prime in (P, Q)
    ]
    if infinite.any():
        # As large as one likes, and the same everywhere.
        for number, prime in enumerate((P, Q)):
            signed = np.where(array > 0, _INFINITE, prime - _INFINITE)
            found[number] = np.where(infinite, signed, found[number])
    return Residues(found[0], found[1])


_FAR = 1200
_INFINITE = 715_827_881
_tables: dict[Any, Host] = {}


def _powers_of_two(prime: int) -> Host:
    if prime not in _tables:
        half = pow(2, -1, prime)
        least = pow(half, _FAR, prime)
        found = [least]
        for _ in range(2 * _FAR):
            found.append(found[-1] * 2 % prime)
        _tables[prime] = np.array(found, np.int64)
    return _tables[prime]


def scalar(value: Fraction) -> tuple[int, int]:
    """A rational number modulo P and modulo Q."""
    return tuple(
        value.numerator * pow(value.denominator, -1, prime) % prime for prime in (P, Q)
    )  # type: ignore[return-value]


def on_both(function: Callable[..., Host], *arguments: Residues) -> Residues:
    """A function of residues and their prime, modulo P; modulo Q as well, where all arguments have that."""
    p = function(*[one.p for one in arguments], P)
    if any(one.q is None for one in arguments):
        return Residues(p, None)
    q = function(*[one.q for one in arguments], Q)
    return Residues(p, q)


def times(a: Residues, b: Residues) -> Residues:
    return on_both(lambda x, y, prime: x * y % prime, a, b)


def one_minus(a: Residues) -> Residues:
    return minus(1, a)


def minus(number: int, a: Residues) -> Residues:
    """A number minus others."""
    return on_both(lambda x, prime: (number - x) % prime, a)


def difference(a: Residues, b: Residues) -> Residues:
    return on_both(lambda x, y, prime: (x - y) % prime, a, b)


def scaled(a: Residues, factor: Fraction) -> Residues:
    by_p, by_q = scalar(factor)
    return times(a, Residues(by_p, by_q))


def inverse(a: Residues) -> Residues:
    """Raises ``NotExact`` where an entry is zero."""
    if not a.p.all() or (a.q is not None and not a.q.all()):
        raise NotExact("a division by zero")
    return on_both(lambda x, prime: _power(x, prime - 2, prime), a)


def power(a: Residues, exponent: int) -> Residues:
    """To a whole power."""
    if exponent < 0:
        return power(inverse(a), -exponent)
    return on_both(lambda x, prime: _power(x, exponent, prime), a)


def _power(array: Host, exponent: int, prime: int) -> Host:
    found = np.ones_like(array)
    while exponent:
        if exponent & 1:
            found = found * array % prime
        array = array * array % prime
        exponent >>= 1
    return found


def exponential(a: Residues) -> Residues | None:
    """The base to the power of a number; None of one that has a power in it already."""
    if a.q is None:
        return None
    if "low" not in _tables:
        _tables["low"] = _run_of_powers(_BASE)
        _tables["high"] = _run_of_powers(pow(_BASE, 1 << 15, P))
    low = _tables["low"][a.q & 0x7FFF]
    high = _tables["high"][a.q >> 15]
    return Residues(low * high % P, None)


def _run_of_powers(base: int) -> Host:
    found = [1]
    for _ in range((1 << 15) - 1):
        found.append(found[-1] * base % P)
    return np.array(found, np.int64)


def linear(function: Any, arguments: list[Residues]) -> list[Residues]:
    """A function that adds and moves entries, of whole numbers, on both residues."""
    on_p = function([one.p for one in arguments])
    if any(one.q is None for one in arguments):
        return [Residues(array % P, None) for array in on_p]
    on_q = function([one.q for one in arguments])
    return [Residues(a % P, b % Q) for a, b in zip(on_p, on_q, strict=True)]


def bilinear(function: Any, a: Residues, b: Residues) -> Residues:
    """A sum of products of two operands; ``function`` takes it of floats that are small enough to be exact."""
    return on_both(partial(_in_halves, function), a, b)


def _in_halves(function: Any, a: Host, b: Host, prime: int) -> Host:
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)

    def part(x: Host, y: Host) -> Host:
        found = np.asarray(function(x, y))
        if found.dtype != np.float64 or (found.size and float(np.max(found)) >= 2**53):
            raise NotExact("a sum of too many products")
        return found.astype(np.int64) % prime

    high = part(a_high, b_high)
    low = part(a_low, b_low)
    middle = (part(a_high, b_low) + part(a_low, b_high)) % prime
    upper = (high * 65536 + middle) % prime
    return (upper * 65536 + low) % prime


def _halves(array: Host) -> tuple[Host, Host]:
    """The upper and the lower sixteen bits."""
    high = array >> 16
    low = array & 0xFFFF
    return high.astype(np.float64), low.astype(np.float64)


# --- opaque functions -------------------------------------------------------------------------------------------


def opaque(tag: str, seed: int, arguments: list[Residues]) -> Residues:
    """What a function is of its arguments, entry by entry."""
    state = _seeded(tag, seed)
    with np.errstate(over="ignore"):
        for one in arguments:
            state = _mixed((state * _MIX[2]) ^ one.p.astype(np.uint64))
    return drawn_from(state)


def symmetric(tag: str, seed: int, arguments: list[Residues]) -> Residues:
    """What a function is of its arguments in any order."""
    with np.errstate(over="ignore"):
        total = sum(signature(tag, seed, one) for one in arguments)
    return drawn_from(_mixed(total))


def signature(tag: str, seed: int, one: Residues, place: Host | None = None) -> Host:
    """A number for each entry, and for its ``place``; those of several entries are added up."""
    with np.errstate(over="ignore"):
        state = _seeded(tag, seed) ^ one.p.astype(np.uint64)
        if place is not None:
            state = _mixed(state) + place.astype(np.uint64) * _MIX[0]
        return _mixed(_mixed(state) * _MIX[1])


def drawn_from(state: Host) -> Residues:
    first = _mixed(state)
    second = _mixed(state ^ _MIX[0])
    return Residues(
        (first % np.uint64(P)).astype(np.int64),
        (second % np.uint64(Q)).astype(np.int64),
    )


def fresh(shape: tuple[int, ...], seed: int, whose: tuple[int, int]) -> Residues:
    """Numbers of which nothing is known; ``whose`` they are tells them from all others."""
    rng = np.random.default_rng([seed, *whose])
    return Residues(
        rng.integers(0, P, shape, np.int64), rng.integers(0, Q, shape, np.int64)
    )


def _seeded(tag: str, seed: int) -> Host:
    text = tag.encode()
    low = zlib.crc32(text)
    high = zlib.crc32(text[::-1])
    code = low | high << 32
    number = (code + seed * 0x632BE59BD9B4E019) & (2**64 - 1)
    return _mixed(np.array(number, np.uint64))


def _mixed(state: Host) -> Host:
    with np.errstate(over="ignore"):
        state = np.asarray(state, np.uint64) + _MIX[0]
        state = (state ^ (state >> np.uint64(30))) * _MIX[1]
        state = (state ^ (state >> np.uint64(27))) * _MIX[2]
        return state ^ (state >> np.uint64(31))
