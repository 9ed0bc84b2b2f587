"""Sizes that differ for some call and agree for those that a program is meant for."""

from __future__ import annotations

import itertools
import operator as op

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from shardtypes.lang import Facts, Size, parse
from shardtypes.lang.facts import Different, Undecided, compare
from shardtypes.lang.meant_sizes import are_meant_equal

NAMES = ["B", "L", "M"]


def size(text: str) -> Size:
    found = parse(text).dims[0].size
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("M", "16"),
        ("H*W", "784"),
        ("H*W", "49"),
        ("B*H*W", "784*B"),
        ("(B*H*W)//784", "B"),
        ("2*M", "16"),
        ("M+1", "17"),
        ("joined", "H*D"),
        ("joined", "2*F"),
        ("joined//2", "F"),
        ("joined", "D//2"),
        ("joined", "D-D//2"),
        ("joined", "(D+1)//2"),
        ("joined", "(D+3)//4"),
        ("joined", "H*((D+1)//2)"),
        ("joined", "(H*D)//2"),
        ("joined", "3*(D//4)"),
        ("joined", "M+1"),
        ("joined-1", "M"),
        ("joined+1", "2*M"),
        ("joined", "B+L"),
        ("joined+L", "M"),
        ("joined", "784*M+3"),
        ("2*joined", "M"),
        ("H*joined", "M"),
        ("joined", "D//2+1"),
        ("joined", "(D+2)//2"),
        ("joined", "(D+3)//2"),
        ("joined", "D//L"),
        ("joined", "D//784"),
    ],
)
def test_a_name_stands_for_what_the_program_works_on(a: str, b: str) -> None:
    facts = Facts(once=frozenset({"joined"}))
    assert (
        compare(size(a), size(b), facts)
        == compare(size(b), size(a), facts)
        == Undecided()
    )


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("L", "M"),
        ("B*L", "B*M"),
        ("2*M", "17"),
        ("H*W", "7"),
        ("B*H*W", "7*B"),
        ("B*L", "1"),
        ("2*M", "M"),
        ("M-1", "M"),
        ("M", "L+1"),
        ("M", "H*D"),
        ("joined", "M"),
        ("joined", "joined*M"),
        ("D//2", "L//2"),
        ("M", "D//2"),
        ("joined", "joined//2"),
        ("joined", "joined-1"),
        ("joined-1", "M-1"),
        ("joined//2", "M//2"),
        ("B*joined", "B*M"),
        ("joined+L", "M+L"),
        ("B*joined", "B"),
        ("B+joined", "B"),
        ("2*joined", "2*M+1"),
        ("M+1", "L"),
        ("M", "3"),
    ],
)
def test_no_call_makes_these_right(a: str, b: str) -> None:
    facts = Facts(numbers=frozenset({3}), once=frozenset({"joined"}))
    assert isinstance(compare(size(a), size(b), facts), Different)
    assert isinstance(compare(size(b), size(a), facts), Different)


def test_a_name_is_one_size() -> None:
    facts = Facts().equal("M", 16)
    assert isinstance(compare(size("M"), size("17"), facts), Different)
    assert compare(size("M"), size("17")) == Undecided()


def test_names_that_occur_again_are_no_longer_single() -> None:
    facts = Facts().writing({"joined": 1, "M": 2}, [3]).speaking(["joined", "M"])
    assert (facts.once, facts.numbers) == ({"joined"}, {3})
    inner = facts.writing({"joined": 1, "M": 1, "K": 1}, [4])
    assert (inner.once, inner.numbers) == ({"K"}, {3, 4})


def test_a_field_is_named_where_its_class_is_written() -> None:
    facts = Facts(once=frozenset({"rows_plus_1"}))
    rows, starts = Size.of("Batch.rows"), Size.of("Batch.rows_plus_1")
    assert compare(rows, starts - 1, facts) == Undecided()
    assert isinstance(compare(rows, starts, facts), Different)


def test_a_slice_is_as_long_as_it_asks_for() -> None:
    facts = Facts(once=frozenset({"rows"}))
    rows = Size.part(size("B"), size("rows"))
    assert isinstance(compare(rows, size("M"), facts), Different)
    assert (
        compare(Size.part(size("rows"), size("B")), size("M+1"), facts) == Undecided()
    )


@st.composite
def computed(draw: st.DrawFn, first: str, divided: bool = True) -> Size:
    """What a program computes of a dimension: sums, products and parts of it, some more or less."""
    found = Size.symbol(first)
    others = ["B", *({"L", "M"} & {first})]
    for _ in range(draw(st.integers(0, 2))):
        if divided and draw(st.booleans()):
            found = found // draw(st.integers(2, 3))
        else:
            other = draw(st.sampled_from([*map(Size.of, others), Size.of(2)]))
            found = draw(st.sampled_from([op.add, op.mul]))(found, other)
    return found + draw(st.integers(-2, 2))


def _are_even(sizes: list[Size], values: dict[str, int]) -> bool:
    """Whether what is divided comes out even."""
    for size in sizes:
        for operation in size.operations():
            numerator, divisor = operation.args
            if numerator.evaluate(values) % divisor.evaluate(values):
                return False
    return True


@given(computed("L"), computed("M"))
@example(Size.of("L"), Size.of("M") - 1)
@example(Size.of("L") * Size.of("L"), Size.of("M") * Size.of("M") // 2)
@example(Size.of("L"), Size.of("M"))
@example(Size.of("L") * Size.of("L") // 2, Size.of("B") + Size.of("M") // 2)
def test_a_single_name_may_be_what_makes_sizes_equal(a: Size, b: Size) -> None:
    """It is let off where sizes above one make it right, unless the program does the same to another name."""
    verdict = compare(a, b, Facts(once=frozenset({"L"})))
    symbols = sorted(a.symbols | b.symbols)
    agree = any(
        a.evaluate(sizes) == b.evaluate(sizes) > 0 and _are_even([a, b], sizes)
        for choice in itertools.product(
            *(range(2, 20 if name == "L" else 6) for name in symbols)
        )
        for sizes in [dict(zip(symbols, choice, strict=True))]
    )
    # what the divisions of both come out even for
    same = [{"B": 36 * i, "L": 36 * j, "M": 36 * j} for i in (1, 2) for j in (1, 2, 3)]
    twins = all(a.evaluate(sizes) == b.evaluate(sizes) for sizes in same)
    if twins and not {*a.operations(), *b.operations()}:
        assert isinstance(verdict, Different)
    elif agree and not twins:
        assert verdict == Undecided()
    if isinstance(verdict, Different):
        assert a.evaluate(verdict.witness) != b.evaluate(verdict.witness)
        assert isinstance(compare(a, b), Different)


@given(computed("L", divided=False), computed("M", divided=False))
def test_names_that_others_share_are_told_apart(a: Size, b: Size) -> None:
    """What is let off is let off for a name that occurs once, and for nothing else."""
    assert isinstance(compare(a, b, Facts(once=frozenset({"other"}))), Different)


@given(
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 60),
)
def test_products_reach_the_numbers_that_evaluation_says(
    names: list[str], factor: int, number: int
) -> None:
    product = Size.const(factor)
    for name in names:
        product = product * Size.symbol(name)
    symbols = sorted(product.symbols)
    assume(product.symbol_name is None or number > 1)
    values = itertools.product(range(2, number + 1), repeat=len(symbols))
    reached = any(
        product.evaluate(dict(zip(symbols, choice, strict=True))) == number
        for choice in values
    )
    assert are_meant_equal(product, Size.const(number), (), ()) == reached
