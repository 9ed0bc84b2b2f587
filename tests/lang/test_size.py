"""The dimension algebra against integer evaluation."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shardtypes.lang import (
    Different,
    Equal,
    Facts,
    Size,
    Undecided,
    broadcast,
    compare,
    find_witness,
    parse,
)
from tests.lang.strategies import Expression, assignments, cases, expressions

pytestmark = pytest.mark.once  # whole numbers and names alone

B, L, M = Size.of("B"), Size.of("L"), Size.of("M")


def value_or_none(expression: Expression, sizes: dict[str, int]) -> int | None:
    try:
        return expression.value(sizes)
    except ZeroDivisionError:
        return None


@cases
@given(expressions, assignments)
def test_the_normal_form_keeps_the_value(
    expression: Expression, sizes: dict[str, int]
) -> None:
    expected = value_or_none(expression, sizes)
    assume(expected is not None)
    assert expression.size.evaluate(sizes) == expected


@cases
@given(expressions, expressions, assignments)
def test_substitution_commutes_with_evaluation(
    a: Expression, b: Expression, sizes: dict[str, int]
) -> None:
    inner = value_or_none(b, sizes)
    assume(inner is not None and inner >= 1)  # as every symbol is
    expected = value_or_none(a, {**sizes, "B": inner or 0})
    assume(expected is not None)
    substituted = a.size.substitute({"B": b.size})
    assume(not substituted.is_opaque)  # too large to compute with
    try:
        got = substituted.evaluate(sizes)
    except ZeroDivisionError:
        assume(False)
    assert got == expected


@cases
@given(expressions, assignments)
def test_what_is_certainly_nonnegative_is(a: Expression, sizes: dict[str, int]) -> None:
    value = value_or_none(a, sizes)
    assume(value is not None and a.size.is_nonnegative)
    assert (value or 0) >= 0


@pytest.mark.parametrize(
    "text", ["D//2", "D-1", "D%3", "D-D//2", "2*D-D//2-1", "(D*L)//(L+1)", "D*L-1"]
)
def test_nonnegative_sizes_that_programs_have(text: str) -> None:
    size = parse(text).dims[0].size
    assert size is not None
    assert size.is_nonnegative
    assert Size.maximum(0, size) == size
    assert not (size - 1000).is_nonnegative


def test_names_of_vocabularies_that_have_nothing_in_common_are_not_told_apart() -> None:
    facts = Facts().speaking(["B", "M"], ["d_model", "d_ff"], ["B", "H"])
    names = {
        name: Size.symbol(name) for name in ("B", "M", "H", "d_model", "d_ff", "free")
    }

    def verdict(a: str, b: str) -> type:
        return type(compare(names[a], names[b], facts))

    assert (
        verdict("M", "H")
        is verdict("d_model", "d_ff")
        is verdict("M", "free")
        is Different
    )
    assert verdict("M", "d_model") is verdict("H", "d_ff") is Undecided
    assert broadcast(names["M"], names["d_model"], facts) == Undecided()
    joined = facts.speaking(["M", "d_ff"])
    assert isinstance(compare(names["B"], names["d_model"], joined), Different)


@cases
@given(expressions)
def test_a_size_prints_as_an_expression_that_means_the_same(
    expression: Expression,
) -> None:
    text = str(expression.size)
    assume(not text.startswith("-") and "//-" not in text and "(-" not in text)
    # always negative, which no shape may say
    assume(not (-expression.size - 1).is_nonnegative)
    dim = parse(text).dims[0]
    assert dim.size == expression.size


@cases
@given(expressions, expressions, assignments)
def test_comparison_never_contradicts_evaluation(
    a: Expression, b: Expression, sizes: dict[str, int]
) -> None:
    verdict = compare(a.size, b.size)
    if isinstance(verdict, Equal):
        left, right = value_or_none(a, sizes), value_or_none(b, sizes)
        assume(left is not None and right is not None)
        assert left == right
    elif isinstance(verdict, Different):
        assert a.size.evaluate(verdict.witness) != b.size.evaluate(verdict.witness)


@cases
@given(expressions, expressions, assignments)
def test_broadcasting_follows_the_rule_of_numpy(
    a: Expression, b: Expression, sizes: dict[str, int]
) -> None:
    outcome = broadcast(a.size, b.size)
    if isinstance(outcome, Different):
        left, right = a.size.evaluate(outcome.witness), b.size.evaluate(outcome.witness)
        assert left != right and 1 not in (left, right)
    elif isinstance(outcome, Size):
        left_, right_ = value_or_none(a, sizes), value_or_none(b, sizes)
        assume(
            left_ is not None
            and right_ is not None
            and (left_ == right_ or 1 in (left_, right_))
        )
        assert left_ is not None and right_ is not None
        assert outcome.evaluate(sizes) == (right_ if left_ == 1 else left_)


@cases
@given(st.lists(expressions, min_size=1, max_size=3), assignments)
def test_minimum_and_maximum(parts: list[Expression], sizes: dict[str, int]) -> None:
    values = [value_or_none(p, sizes) for p in parts]
    assume(None not in values)
    known = [v for v in values if v is not None]
    assert Size.minimum(*(p.size for p in parts)).evaluate(sizes) == min(known)
    assert Size.maximum(*(p.size for p in parts)).evaluate(sizes) == max(known)


@cases
@given(expressions, expressions, assignments)
def test_part(wanted: Expression, whole: Expression, sizes: dict[str, int]) -> None:
    values = value_or_none(wanted, sizes), value_or_none(whole, sizes)
    if values[0] is None or values[1] is None:
        return
    part = Size.part(wanted.size, whole.size)
    assert part.evaluate(sizes) == min(values[0], values[1])
    known = {name: Size.const(size) for name, size in sizes.items()}
    assert part.substitute(known).constant == min(values[0], values[1])


def test_a_part_is_meant_to_be_as_long_as_it_is_asked_for() -> None:
    assert isinstance(compare(Size.part(L, M), L), Undecided)
    assert compare(Size.part(L, M), M) == Different({"L": 2, "M": 3})
    assert isinstance(compare(Size.minimum(L, M), L), Different)
    assert isinstance(compare(Size.part(L, M), B), Different)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (B * L, L * B),
        ((L // 4) * 4 + L % 4, L),
        ((B * L * 6) // (L * 3), 2 * B),
        ((L // 2) // 3, L // 6),
        ((L + 4) // 4, L // 4 + 1),
        ((B * L + B) // (L + 1), B),
        (Size.minimum(L, L + 3), L),
        (Size.minimum(L, 1), Size.of(1)),
        (Size.part(L, L + 3), L),
        (Size.part(L + 3, L), L),
        (Size.part(1, L), Size.of(1)),
        (Size.part(L, Size.part(L, M)), Size.part(L, M)),
        (Size.part(Size.minimum(L, M), M), Size.minimum(L, M)),
    ],
)
def test_laws(a: Size, b: Size) -> None:
    assert a == b
    assert hash(a) == hash(b)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (B * L + 1, "B*L+1"),
        (L // 2, "L//2"),
        ((L // 4) * 4, "4*(L//4)"),
        (L % 4, "L%4"),
        ((L + 1) // 2, "(L+1)//2"),
        (L - M, "L-M"),
        (Size.minimum(L, 3), "min(3,L)"),
        (Size.part(L, 3), "min(3,L)"),
        (Size.of(0), "0"),
    ],
)
def test_printing(size: Size, text: str) -> None:
    assert str(size) == text


def test_facts_decide() -> None:
    """4 divides L, so L//4*4 is L; B == M, so they agree."""
    assert isinstance(compare(L // 4 * 4, L), Different) is False
    assert compare(L // 4 * 4, L, Facts().divides(4, L)) == Equal()
    assert isinstance(compare(B, M), Different)
    assert compare(B, M, Facts().equal(B, M)) == Equal()
    assert compare(B, M, Facts().equal(B, 2 * L).equal(M, 2 * L)) == Equal()


def test_a_witness_satisfies_the_facts() -> None:
    facts = Facts().divides(8, L).at_least(B, 20).equal(M, B + 1)
    witness = find_witness(lambda env: env["L"] != env["M"], (L, M), facts)
    assert witness is not None
    assert (
        witness["L"] % 8 == 0
        and witness["B"] >= 20
        and witness["M"] == witness["B"] + 1
    )


def test_a_division_in_a_size_means_that_it_comes_out_even() -> None:
    """Who writes L//2 for a ceiling means an even L: rounding alone is never reported."""
    assert not isinstance(compare(L // 2, (L + 1) // 2), Different)
    assert isinstance(compare(L // 2, L // 3), Different)


def test_opaque_sizes_are_never_different_by_name() -> None:
    unknown = Size.symbol("?n")
    assert not isinstance(compare(unknown, B), Different)
    assert not isinstance(broadcast(unknown, B), Different)
    assert isinstance(compare(unknown, unknown + 1), Different)


def test_sizes_travel_between_processes() -> None:
    size = (B * L + 3) // M
    assert pickle.loads(pickle.dumps(size)) == size


def test_division_by_zero_is_pythons_error() -> None:
    with pytest.raises(ZeroDivisionError):
        B // Size.of(0)


def test_what_is_too_large_to_compute_with_is_given_up() -> None:
    """Forty sums multiplied are more terms than there is memory: an opaque size, the same one every time."""

    def product(count: int) -> Size:
        size = Size.of(1)
        for index in range(count):
            size = size * (
                Size.of(f"D{index % 12}") + Size.of(f"D{(index * 5 + 1) % 12}") + index
            )
        return size

    assert not product(3).is_opaque
    assert product(40).is_opaque
    assert product(40) == product(40) != product(41)
    nested = Size.of("A")
    for index in range(500):
        nested = (nested * Size.of("B") + index) // (Size.of("C") + index)
    assert nested.is_opaque
