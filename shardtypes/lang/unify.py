"""Names bound to sizes, and the matching of shapes against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal

from shardtypes.lang.facts import Different, Facts, compare, find_witness
from shardtypes.lang.format import format_shape
from shardtypes.lang.frozen import frozen
from shardtypes.lang.messages import (
    stands_for,
    within_several,
    wrong_rank,
    wrong_size,
)
from shardtypes.lang.size import Size, Sizes
from shardtypes.lang.syntax import Dim, Shape


@frozen
class Mismatch:
    """A shape that does not fit.

    ``dim`` is the index in the value's shape (None for a wrong rank), ``want`` and ``got`` are what differs (ranks, or
    sizes), and ``witness`` is an assignment of sizes for which it fails.
    """

    kind: Literal["rank", "size"]
    dim: int | None
    want: str
    got: str
    witness: dict[str, int] = field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """What differs: ``dimension 1 is F, expected M``."""
        if self.dim is None:
            return wrong_rank(self.want, self.got)
        return wrong_size(self.dim, self.want, self.got)


class Bindings:
    """What each name of a signature stands for, with rollback.

    ``sizes`` maps names to sizes, ``variadics`` those of ``*name`` to tuples (None inside: unknown).
    """

    __slots__ = ("_trail", "sizes", "variadics")

    def __init__(self, sizes: Mapping[str, Size] | None = None) -> None:
        self.sizes: dict[str, Size] = dict(sizes or {})
        self.variadics: dict[str, tuple[Size | None, ...]] = {}
        self._trail: list[tuple[dict[str, object], str]] = []

    def get(self, name: str) -> Size | None:
        """The size that the name is bound to."""
        return self.sizes.get(name)

    def bind(self, name: str, size: Size) -> None:
        """Bind an unbound name; a bound one is a ValueError, for bindings never change."""
        self._bind(self.sizes, name, size)

    def bind_variadic(self, name: str, sizes: tuple[Size | None, ...]) -> None:
        """Bind the ``*name`` of a shape."""
        self._bind(self.variadics, name, sizes)

    def _bind(
        self,
        table: dict[str, object] | dict[str, Size] | dict[str, tuple[Size | None, ...]],
        name: str,
        value: object,
    ) -> None:
        if name in table:
            raise ValueError(f"{name} is already bound to {table[name]}")
        table[name] = value  # type: ignore[assignment]
        self._trail.append((table, name))  # type: ignore[arg-type]

    def mark(self) -> int:
        """A point to roll back to."""
        return len(self._trail)

    def rollback(self, mark: int) -> None:
        """Forget every binding made since ``mark``."""
        while len(self._trail) > mark:
            table, name = self._trail.pop()
            del table[name]


def unify(
    shape: Shape,
    sizes: Sequence[Size | None] | None,
    bindings: Bindings,
    facts: Facts | None = None,
    rigid: bool = False,
) -> Mismatch | None:
    """Match sizes against a shape: unbound names are bound, bound ones compared. None means that nothing is wrong.

    Unknown sizes (None), and an unknown rank (``sizes`` None), match anything and bind nothing. With ``rigid`` the
    names of the shape are symbols already and nothing is bound. On a mismatch all bindings made here are undone.
    """
    if sizes is None:
        return None
    facts = facts or Facts()
    mark = bindings.mark()
    pairs = _align(shape, sizes, bindings, rigid, facts)
    if isinstance(pairs, Mismatch):
        return pairs
    deferred: list[tuple[int, Dim, Size]] = []
    for index, dim, size in pairs:
        if size is None or dim.size is None:
            continue
        if not rigid and dim.size.symbol_name is None and _unbound(dim.size, bindings):
            deferred.append((index, dim, size))
            continue
        mismatch = _match(index, dim, size, bindings, facts, rigid)
        if mismatch is not None:
            bindings.rollback(mark)
            return mismatch
    for index, dim, size in deferred:
        mismatch = _match(index, dim, size, bindings, facts, rigid)
        if mismatch is not None:
            bindings.rollback(mark)
            return mismatch
    return None


def _unbound(size: Size, bindings: Bindings) -> list[str]:
    return sorted(size.symbols - bindings.sizes.keys())


def _align(
    shape: Shape,
    sizes: Sequence[Size | None],
    bindings: Bindings,
    rigid: bool,
    facts: Facts,
) -> list[tuple[int, Dim, Size | None]] | Mismatch:
    """Pair the sizes with the shape's dimensions; the variadic one takes what is left."""
    dims = shape.dims
    open_at = shape.variadic
    extra = len(sizes) - len(dims) + (open_at is not None)
    if extra < 0 or (extra > 0 and open_at is None):
        least = "at least " if open_at is not None else ""
        count = len(dims) - (open_at is not None)
        return Mismatch("rank", None, f"{least}{count}", str(len(sizes)))
    if open_at is None:
        places = range(len(dims))
        return list(zip(places, dims, sizes, strict=True))
    name = dims[open_at].name
    middle = tuple(sizes[open_at : open_at + extra])
    if name is not None and not rigid:
        earlier = bindings.variadics.get(name)
        if earlier is None:
            bindings.bind_variadic(name, middle)
        else:
            mismatch = _same(name, earlier, middle, open_at, len(sizes), facts)
            if mismatch is not None:
                return mismatch
    tail = len(dims) - open_at - 1
    before = [(i, dims[i], sizes[i]) for i in range(open_at)]
    after = [(len(sizes) - k, dims[-k], sizes[-k]) for k in range(tail, 0, -1)]
    return before + after


def _same(
    name: str,
    want: Sequence[Size | None],
    got: Sequence[Size | None],
    start: int,
    rank: int,
    facts: Facts,
) -> Mismatch | None:
    if len(want) != len(got):
        return Mismatch("rank", None, str(rank - len(got) + len(want)), str(rank))
    for index, (a, b) in enumerate(zip(want, got, strict=True)):
        if a is not None and b is not None:
            verdict = compare(a, b, facts)
            if isinstance(verdict, Different):
                return Mismatch(
                    "size",
                    start + index,
                    within_several(a, name),
                    str(b),
                    verdict.witness,
                )
    return None


def _match(
    index: int, dim: Dim, got: Size, bindings: Bindings, facts: Facts, rigid: bool
) -> Mismatch | None:
    assert dim.size is not None
    if dim.kind == "broadcast" and got == 1:
        return None
    want = dim.size
    if not rigid:
        unbound = _unbound(want, bindings)
        if not unbound:
            want = want.substitute(bindings.sizes)
        if unbound:
            return _solve(index, dim, got, unbound, bindings)
    verdict = compare(want, got, facts)
    if not isinstance(verdict, Different):
        return None
    witness = verdict.witness
    if dim.kind == "broadcast":
        if got.is_opaque or want.is_opaque:
            return None

        def fails(env: Sizes) -> bool:
            return got.evaluate(env) not in (1, want.evaluate(env))

        found = find_witness(fails, (want, got), facts)
        if found is None:
            return None
        witness = found
    shown = stands_for(dim.size, want)
    return Mismatch("size", index, shown, format_shape([got]), witness)


def _solve(
    index: int, dim: Dim, got: Size, unbound: list[str], bindings: Bindings
) -> Mismatch | None:
    """Bind the one unbound name of a linear size; with several, or a non-linear one, nothing can be said."""
    assert dim.size is not None
    if len(unbound) > 1:
        return None
    (name,) = unbound
    known = dim.size.substitute(
        {n: s for n, s in bindings.sizes.items() if n in dim.size.symbols}
    )
    if (
        name in {s for size in bindings.sizes.values() for s in size.symbols}
        and known != dim.size
    ):
        # after substitution the name could be the caller's symbol of the same name
        return None
    if name not in known.symbols:  # its factor is 0
        if (known - got).constant:
            return Mismatch("size", index, stands_for(dim.size, known), str(got))
        return None
    factor = Size.const(0)
    rest = Size.const(0)
    for monomial, coefficient in known.terms:
        inside = [a for a in monomial if a.op or a.name == name]
        if not any(
            a.name == name or (a.op and name in Size({(a,): 1}).symbols) for a in inside
        ):
            rest = rest + Size({monomial: coefficient})
        elif len(monomial) == 1 and monomial[0].name == name:
            factor = factor + coefficient
        else:
            return None
    quotient = (got - rest).divides_exactly(factor)
    if quotient is None:
        if (got - rest).constant is None:
            return None
        return Mismatch("size", index, str(dim.size), str(got))
    value = quotient.constant
    if value is not None and value < 0:
        return Mismatch("size", index, str(dim.size), str(got))
    bindings.bind(name, quotient)
    return None
