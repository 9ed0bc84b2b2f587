"""Sizes that differ for some call and agree for those that a program is meant for."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
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
        ("joined", "M+1"),
        ("D//2", "L//2"),
        ("M", "D//2"),
        ("joined", "D//2+1"),
        ("joined", "(D+2)//2"),
        ("joined", "(D+3)//2"),
        ("joined", "D//L"),
        ("joined", "joined//2"),
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
