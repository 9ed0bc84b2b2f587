"""What is known of sizes on a path, and three-valued comparison with witnesses.

*Different* is only ever said with a witness: sizes that satisfy everything known, for which the two really differ.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from shardtypes.lang.frozen import frozen
from shardtypes.lang.meant_sizes import are_meant_equal
from shardtypes.lang.size import Size, Sizes

_LIMIT = 4000  # assignments tried before a search gives up
_SMALL = (2, 3, 5, 4, 7, 6, 8, 12, 11, 16, 24, 13, 1, 32, 48, 60, 120)


@frozen
class Equal:
    """The two sizes agree for all sizes that satisfy the facts."""


@frozen
class Different:
    """The two sizes differ for ``witness``, an assignment that satisfies the facts."""

    witness: dict[str, int] = field(hash=False)


@frozen
class Undecided:
    """Neither could be shown."""


Verdict: TypeAlias = Equal | Different | Undecided


@frozen
class Fact:
    """``left == right``, ``left`` divides ``right``, or ``left >= right``."""

    kind: Literal["equal", "divides", "at least"]
    left: Size
    right: Size

    @property
    def symbols(self) -> frozenset[str]:
        return self.left.symbols | self.right.symbols

    @property
    def splits(self) -> bool:
        """Whether it says that devices, whose numbers are the symbols ``|axis|``, split a size evenly."""
        names = self.left.symbols
        return (
            self.kind == "divides"
            and bool(names)
            and all(name.startswith("|") for name in names)
        )

    def holds(self, sizes: Sizes) -> bool:
        left = self.left.evaluate(sizes)
        right = self.right.evaluate(sizes)
        if self.kind == "equal":
            return left == right
        if self.kind == "divides":
            return right % left == 0
        return left >= right


@frozen
class Facts:
    """What holds at a point of a program. Immutable: adding a fact gives new facts.

    ``vocabularies`` are sets of names that were chosen apart from each other, such as those of a signature and those of
    a class from elsewhere: names of two such sets may stand for one size, so they are never called different.
    ``numbers`` are those that annotations write themselves: a name beside them is another size. ``once`` are the names
    that annotations write a single time, so that they tie no two dimensions to each other.
    """

    items: tuple[Fact, ...] = ()
    vocabularies: tuple[frozenset[str], ...] = ()
    numbers: frozenset[int] = frozenset()
    once: frozenset[str] = frozenset()

    def equal(self, a: int | Size, b: int | Size) -> Facts:
        """Add ``a == b``."""
        return self._add(Fact("equal", Size.of(a), Size.of(b)))

    def divides(self, divisor: int | Size, size: int | Size) -> Facts:
        """Add that ``divisor`` divides ``size``."""
        return self._add(Fact("divides", Size.of(divisor), Size.of(size)))

    def at_least(self, a: int | Size, b: int | Size) -> Facts:
        """Add ``a >= b``."""
        return self._add(Fact("at least", Size.of(a), Size.of(b)))

    def even(self, size: Size) -> Facts:
        """Add that every ``a//b`` in ``size`` comes out even: what ``reshape(a//b, b)`` relies on."""
        facts = self
        for operation in size.operations():
            if operation.op == "//":
                facts = facts.divides(operation.args[1], operation.args[0])
        return facts

    def _add(self, fact: Fact) -> Facts:
        if fact in self.items:
            return self
        return replace(self, items=(*self.items, fact))

    def speaking(self, *vocabularies: Iterable[str]) -> Facts:
        """Add vocabularies; those that share a name become one."""
        merged = list(self.vocabularies)
        for names in vocabularies:
            words = frozenset(names)
            apart = [other for other in merged if words.isdisjoint(other)]
            merged = [
                *apart,
                words.union(
                    *(other for other in merged if not words.isdisjoint(other))
                ),
            ]
        return replace(
            self, vocabularies=tuple(sorted((v for v in merged if v), key=sorted))
        )

    def writing(self, names: Sizes, numbers: Iterable[int]) -> Facts:
        """Add the names that annotations write, and how often, and the numbers. To be told before `speaking`."""
        earlier = frozenset[str]().union(*self.vocabularies)
        once = {
            name for name, count in names.items() if count == 1 and name not in earlier
        }
        return replace(
            self,
            numbers=self.numbers | frozenset(numbers),
            once=self.once.difference(names) | once,
        )

    def comparable(self, symbols: Iterable[str]) -> bool:
        """Whether no two of the symbols come from vocabularies that have nothing in common."""
        symbols = set(symbols)
        return (
            sum(not vocabulary.isdisjoint(symbols) for vocabulary in self.vocabularies)
            <= 1
        )

    def simplify(self, *sizes: Size) -> tuple[Size, ...]:
        """The sizes rewritten by the facts that can be solved for one symbol: equal results are equal sizes."""
        for fact in self.items:
            rule = _solve(fact)
            if rule is not None:
                sizes = tuple(size.substitute(rule) for size in sizes)
        return sizes

    def about(
        self, symbols: Iterable[str], evenly: bool = True
    ) -> tuple[list[Fact], set[str]]:
        """The facts that bear on the symbols, directly or through other facts, and all symbols in them. Those that
        devices split a size ``evenly`` may be left out."""
        reached = set(symbols)
        facts = [f for f in self.items if evenly or not f.splits]
        while True:
            related = [f for f in facts if not f.symbols.isdisjoint(reached)]
            more = reached.union(*(f.symbols for f in related))
            if more == reached:
                return related, reached
            reached = more


def _solve(fact: Fact) -> dict[str, Size] | None:
    """A symbol and what it equals by the fact. ``4 divides L`` makes L four times a new symbol ``L//4``."""
    if fact.kind == "divides":
        name = fact.right.symbol_name
        if name is None or name in fact.left.symbols:
            return None
        return {name: fact.left * Size.symbol(f"{name}//{fact.left}")}
    if fact.kind == "at least":
        return None
    difference = fact.left - fact.right
    for monomial, coefficient in difference.terms:
        if len(monomial) == 1 and not monomial[0].op and abs(coefficient) == 1:
            name = monomial[0].name
            rest = difference - Size({monomial: coefficient})
            if name not in rest.symbols:
                return {name: -rest if coefficient == 1 else rest}
    return None


def find_witness(
    predicate: Callable[[Sizes], bool],
    sizes: Iterable[Size],
    facts: Facts | None = None,
) -> dict[str, int] | None:
    """Sizes that satisfy ``predicate`` and the facts, small ones first, or None if the bounded search finds none.

    All of ``sizes`` evaluate to at least 1 (a constant 0 is let through), every division in them comes out even, and
    every slice has as many entries as it asks for: who writes ``L//2`` means an even L, and who writes ``table[:L]`` a
    table of L rows or more. None as well when an opaque symbol bears on the answer, or symbols of two
    vocabularies.
    """
    sizes = list(sizes)
    facts = facts or Facts()
    own = frozenset().union(*(s.symbols for s in sizes))
    related, symbols = facts.about(own)
    # that the same devices split sizes of two vocabularies does not make either a matter of the other
    if any(name.startswith("?") for name in symbols) or not facts.comparable(
        facts.about(own, evenly=False)[1]
    ):
        return None
    operations = [operation for size in sizes for operation in size.operations()]
    even = []
    for operation in operations:
        if operation.op == "//":
            numerator, divisor = operation.args
            # (L+1)//2 rounds up on purpose
            if all(monomial for monomial, _ in numerator.terms):
                even.append((divisor, numerator))
    whole = [operation.args for operation in operations if operation.op == "part"]
    positive = [s for s in sizes if s.constant is None]

    def fits(assignment: Sizes) -> bool:
        try:
            return (
                all(fact.holds(assignment) for fact in related)
                and all(
                    n.evaluate(assignment) % d.evaluate(assignment) == 0
                    for d, n in even
                )
                and all(
                    wanted.evaluate(assignment) <= there.evaluate(assignment)
                    for wanted, there in whole
                )
                and all(s.evaluate(assignment) >= 1 for s in positive)
                and predicate(assignment)
            )
        except ZeroDivisionError:
            return False

    rules, free = _eliminate(related, symbols)
    everything = [*sizes, *(f.left for f in related), *(f.right for f in related)]
    for trial in _assignments(sorted(free), everything):
        assignment = _complete(trial, rules)
        if assignment is not None and fits(assignment):
            return {name: assignment[name] for name in sorted(symbols)}
    return None


def _eliminate(
    facts: Iterable[Fact], symbols: set[str]
) -> tuple[list[tuple[str, Size]], set[str]]:
    """Symbols that the facts give from others, in an order that can be evaluated, and the symbols left to choose."""
    rules: list[tuple[str, Size]] = []
    free = set(symbols)
    for fact in facts:
        done = dict(rules)
        left = fact.left.substitute(done)
        right = fact.right.substitute(done)
        for name, size in (_solve(Fact(fact.kind, left, right)) or {}).items():
            rules = [(n, s.substitute({name: size})) for n, s in rules]
            rules.append((name, size))
            free = (free | size.symbols) - {name}
    return rules, free


def _complete(
    trial: dict[str, int], rules: list[tuple[str, Size]]
) -> dict[str, int] | None:
    assignment = dict(trial)
    for name, size in rules:
        try:
            assignment[name] = size.evaluate(trial)
        except ZeroDivisionError:
            return None
        if assignment[name] < 1:
            return None
    return assignment


def _assignments(names: list[str], sizes: list[Size]) -> Iterator[dict[str, int]]:
    """At most ``_LIMIT`` assignments: distinct primes first, then small sizes and ones made of the constants met."""
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
    if len(names) <= len(primes):
        yield dict(zip(names, primes, strict=False))
    constants = sorted(
        {
            abs(c)
            for s in sizes
            for part in _parts(s)
            for _, c in part.terms
            if 1 < abs(c) < 10**6
        }
    )
    near: list[int] = []
    for constant in constants[:8]:
        near += [constant, 2 * constant, 3 * constant, constant + 1, constant - 1]
    values = list(dict.fromkeys([*_SMALL, *near]))
    if len(values) ** len(names) <= _LIMIT:
        choices = itertools.product(range(len(values)), repeat=len(names))
        for choice in sorted(choices, key=sum):
            yield {name: values[i] for name, i in zip(names, choice, strict=True)}
        return
    chooser = random.Random(0)  # a fixed sequence of trials
    for _ in range(_LIMIT):
        trial = {}
        for name in names:
            place = int(chooser.expovariate(0.3))
            trial[name] = values[min(place, len(values) - 1)]
        yield trial


def _parts(size: Size) -> Iterator[Size]:
    yield size
    for operation in size.operations():
        yield from operation.args


def _are_multiples(a: Size, b: Size) -> bool:
    """Whether both are multiples of one product of symbols, as 3*n and n are: apart unless there is nothing at all."""
    if len(a.terms) != 1 or len(b.terms) != 1:
        return False
    first, _ = a.terms[0]
    second, _ = b.terms[0]
    return first == second and not any(atom.op for atom in first)


def _fit_some_mesh(a: Size, b: Size) -> bool:
    """Whether two sizes made of mesh axes alone, as ``2*|t|`` and 8, agree on some mesh: it may be meant for that."""
    names = a.symbols | b.symbols
    if not names or not all(name.startswith("|") for name in names):
        return False

    def agree(sizes: Sizes) -> bool:
        return min(sizes.values()) > 1 and a.evaluate(sizes) == b.evaluate(sizes)

    return find_witness(agree, (a, b)) is not None


@lru_cache(maxsize=8192)
def compare(a: Size, b: Size, facts: Facts | None = None) -> Verdict:
    """Whether two sizes are equal for all sizes, different for some (with a witness), or undecided.

    Sizes that differ for some, and agree for what the program may be meant for, are undecided as well.
    """
    if a == b:
        return Equal()
    facts = facts or Facts()
    left, right = facts.simplify(a, b)
    if left == right:
        return Equal()
    difference = (a - b).constant
    if a.is_opaque or b.is_opaque:
        if difference is not None or _are_multiples(a, b):
            return Different({})
        return Undecided()
    if _fit_some_mesh(left, right):
        return Undecided()
    witness = find_witness(
        lambda sizes: a.evaluate(sizes) != b.evaluate(sizes), (a, b), facts
    )
    if witness is None or _are_meant_equal(a, b, facts):
        return Undecided()
    return Different(witness)


def _are_meant_equal(a: Size, b: Size, facts: Facts) -> bool:
    equalities = replace(
        facts, items=tuple(fact for fact in facts.items if fact.kind == "equal")
    )
    left, right = equalities.simplify(a, b)
    return are_meant_equal(left, right, facts.numbers, facts.once)


@lru_cache(maxsize=8192)
def broadcast(
    a: Size, b: Size, facts: Facts | None = None
) -> Size | Different | Undecided:
    """The size that two dimensions broadcast to by NumPy's rule, or why there is none."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    verdict = compare(a, b, facts)
    if isinstance(verdict, Equal):
        return a
    if isinstance(verdict, Different):
        if a.is_opaque or b.is_opaque:
            return Undecided()

        def fails(sizes: Sizes) -> bool:
            left = a.evaluate(sizes)
            right = b.evaluate(sizes)
            return left != right and left != 1 and right != 1

        witness = find_witness(fails, (a, b), facts)
        if witness is not None:
            return Different(witness)
    for size in (a, b):
        if (size.constant or 0) > 1:
            return size
    return Undecided()
