"""Shape strings: both dialects, round trips, columns."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shardtypes.lang import Dialect, ShapeSyntaxError, Size, parse
from tests.lang.strategies import assignments, cases, shape_texts, written

pytestmark = pytest.mark.once  # the language has no part in Python or JAX


@cases
@given(shape_texts())
def test_printing_and_parsing_again_changes_nothing(text: str) -> None:
    shape = parse(text)
    again = parse(str(shape))
    assert str(again) == str(shape)
    assert again.pending == shape.pending
    assert [(d.kind, d.size, d.axes) for d in again.dims] == [
        (d.kind, d.size, d.axes) for d in shape.dims
    ]


@cases
@given(written, assignments)
@example("-B//2", {"B": 3})
@example("0-B//2", {"B": 3})
@example("L-L//M-L", {"L": 3, "M": 2})
@example("B%M%B", {"B": 7, "M": 5})
def test_a_size_means_what_python_computes_also_when_printed_and_parsed_again(
    text: str, env: dict[str, int]
) -> None:
    """Python has the same operators: evaluated there, for these sizes, is what a size must be."""
    try:
        size = parse(text).dims[0].size
    except ShapeSyntaxError as error:
        known = {
            "division by zero",
            "a size that is always negative",
            "an expression too large for a size",
        }
        assert error.message in known
        if error.message == "a size that is always negative":
            assert evaluated(text, env) is None or evaluated(text, env) < 0
        return
    assert size is not None
    assert parse(str(size)).dims[0].size == parse(repr(size)).dims[0].size == size
    wanted = evaluated(text, env)
    if wanted is not None:
        assert size.evaluate(env) == wanted


def evaluated(text: str, env: dict[str, int]) -> int | None:
    try:
        return eval(text, dict(env))
    except ZeroDivisionError:
        return None


@cases
@given(shape_texts())
def test_spans_point_at_the_text(text: str) -> None:
    shape = parse(text)
    for dim in shape.dims:
        assert text[dim.span.start : dim.span.end].split() == [
            text[dim.span.start : dim.span.end]
        ]
        assert tuple(text[s.start : s.end] for s in dim.axis_spans) == dim.axes
    assert tuple(text[s.start : s.end] for s in shape.pending_spans) == shape.pending


@cases
@given(
    st.one_of(
        st.text(max_size=30),
        st.text("BL4_.*#/+-%(){}U:, td", max_size=20),
        st.binary(max_size=12),
    )
)
@example("(" * 5000)
@example("B*" * 3000 + "B")
@example("9" * 5000)
@example("{U:")
@example("B\x00")
@pytest.mark.parametrize("dialect", ["shardtypes", "jaxtyping", "kauldron"])
def test_any_text_parses_or_raises_the_error_of_the_language(
    dialect: Dialect, text: str | bytes
) -> None:
    try:
        parse(text, dialect)
    except ShapeSyntaxError as error:
        assert 0 <= error.column <= max(len(error.text), 10_000)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("B,L", 1, "unexpected ','"),
        ("B/", 2, "a mesh axis name was expected after '/'"),
        ("B /d", 2, "unexpected '/'"),
        ("B/d/4", 4, "a mesh axis name was expected after '/'"),
        ("B L+", 4, "a size was expected"),
        ("(B+1", 4, "')' was expected"),
        ("(B/d)", 2, "sharding inside parentheses"),
        ("_x+1", 2, "an anonymous size cannot be computed with"),
        ("... B *xs", 6, "a second dimension that matches any number of dimensions"),
        (".../d", 4, "any number of dimensions cannot be sharded over one axis"),
        ("B {U:}", 5, "a mesh axis name was expected"),
        ("B {V:t}", 2, "'{' that opens no pending sums"),
        ("3x", 0, "neither a name nor an integer"),
        ("B//0", 1, "division by zero"),
        ("B [4]", 2, "unexpected '['"),
        ("B -1", 2, "a size that is always negative"),
        ("B #(3-4)/d", 3, "a size that is always negative"),
        ("B -L-1", 2, "a size that is always negative"),
        ("B B-", 4, "a size was expected"),
    ],
)
def test_an_error_has_a_column(text: str, column: int, message: str) -> None:
    with pytest.raises(ShapeSyntaxError) as caught:
        parse(text)
    assert (caught.value.column, caught.value.message) == (column, message)
    assert isinstance(caught.value, ValueError)
    assert repr(text) in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (copy.column, str(copy)) == (column, str(caught.value))


def test_the_parts_of_a_shape() -> None:
    shape = parse("M/t/d head//2/t #n ... {U:a,b}")
    heads = shape.dims[1]
    assert shape.dims[0].axes == ("t", "d")
    assert (heads.size, heads.axes) == (Size.of("head") // 2, ("t",))
    assert shape.dims[2].kind == "broadcast"
    assert (shape.rank, shape.variadic) == (None, 3)
    assert shape.pending == ("a", "b")
    assert shape.names == {"M", "head", "n"}
    assert shape.axes == ("t", "d", "t", "a", "b")


def test_bytes_leading_spaces_scalars_and_repeats() -> None:
    assert str(parse(b" B L L ")) == "B L L"
    assert parse("").rank == parse("  ").rank == 0
    with pytest.raises(ShapeSyntaxError):
        parse(b"\xff")


def test_bytes_and_text_of_the_same_shape_agree() -> None:
    assert str(parse(b"B/d 4")) == str(parse("B/d 4"))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("b d", ["size", "size"]),
        ("*batch c", ["variadic", "size"]),
        ("... #c", ["variadic", "broadcast"]),
        ("_ _x rows=4", ["anonymous", "anonymous", "size"]),
        ("?t {self.dim} min(a,b)", ["anonymous", "anonymous", "anonymous"]),
        ("d+1 d//2", ["size", "size"]),
        ("*#b", ["variadic"]),
        ("#rows=4 rows=#n", ["broadcast", "broadcast"]),
        ("all=*n rows=_ rows=", ["variadic", "anonymous", "anonymous"]),
        ("b/2 (b+1)/(2)", ["anonymous", "anonymous"]),
    ],
)
def test_the_dialect_of_jaxtyping(text: str, kinds: list[str]) -> None:
    assert [dim.kind for dim in parse(text, "jaxtyping").dims] == kinds


def test_the_dialect_of_kauldron() -> None:
    """What jaxtyping reads as one dimension may be several."""
    assert [dim.kind for dim in parse("b +other {shape}", "jaxtyping").dims] == [
        "size",
        "anonymous",
        "anonymous",
    ]
    assert [dim.kind for dim in parse("b +other d", "kauldron").dims] == [
        "size",
        "variadic",
        "size",
    ]
    assert [dim.kind for dim in parse("{shape} d", "kauldron").dims] == [
        "variadic",
        "size",
    ]
    assert parse("*b d", "kauldron").rank is None


def test_a_sharding_in_a_jaxtyping_string_is_an_error_that_says_how_to_write_it() -> (
    None
):
    with pytest.raises(ShapeSyntaxError) as caught:
        parse("b/data d", "jaxtyping")
    assert caught.value.column == 1
    assert "annotate with shardtypes" in str(caught.value)
