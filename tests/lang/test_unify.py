"""Matching shapes: binding, rollback, witnesses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardtypes.lang import (
    Bindings,
    Facts,
    Mismatch,
    Size,
    format_shape,
    format_witness,
    parse,
    unify,
)
from tests.lang.strategies import Expression, assignments, cases, expressions

pytestmark = pytest.mark.once  # whole numbers and names alone


def sizes(*values: int | str | None) -> list[Size | None]:
    return [None if v is None else Size.of(v) for v in values]


def test_names_are_bound_and_compared() -> None:
    bindings = Bindings()
    assert unify(parse("B L"), sizes("batch", "length"), bindings) is None
    assert bindings.sizes == {"B": Size.of("batch"), "L": Size.of("length")}
    mismatch = unify(parse("L B"), sizes("batch", "batch"), bindings)
    assert isinstance(mismatch, Mismatch)
    assert (mismatch.kind, mismatch.dim, mismatch.want, mismatch.got) == (
        "size",
        0,
        "L = length",
        "batch",
    )
    assert mismatch.witness["batch"] != mismatch.witness["length"]


def test_a_mismatch_undoes_its_bindings() -> None:
    bindings = Bindings()
    assert unify(parse("A *rest B B"), sizes(1, 5, 2, 3), bindings) is not None
    assert bindings.sizes == {} and bindings.variadics == {}


@pytest.mark.parametrize(
    ("text", "values", "bound"),
    [
        ("d+1", (5,), {"d": 4}),
        ("2*d", (8,), {"d": 4}),
        ("d d+1", ("k", None), {"d": "k"}),
        ("d+1 d", (5, 4), {"d": 4}),
        ("a*b", (6,), {}),
        ("_ #n", (3, 1), {}),
        ("#n", (4,), {"n": 4}),
    ],
)
def test_linear_sizes_are_solved(
    text: str, values: tuple[int | str | None, ...], bound: dict[str, int | str]
) -> None:
    bindings = Bindings()
    assert unify(parse(text), sizes(*values), bindings) is None
    assert bindings.sizes == {name: Size.of(value) for name, value in bound.items()}


@pytest.mark.parametrize(
    ("text", "values"),
    [("2*d", (7,)), ("d+5", (4,)), ("d+1 d", (5, 5)), ("4", (5,)), ("A A", (2, 3))],
)
def test_what_no_binding_can_satisfy(text: str, values: tuple[int, ...]) -> None:
    assert unify(parse(text), sizes(*values), Bindings()) is not None


def test_a_size_whose_unbound_name_drops_out() -> None:
    known = Bindings({"L": Size.of(2)})
    assert unify(parse("B*(1//L)"), sizes(0), known) is None
    assert unify(parse("B*(1//L)"), sizes(3), known) is not None
    assert known.sizes == {"L": Size.of(2)}


def test_variadics() -> None:
    bindings = Bindings()
    assert unify(parse("*batch M"), sizes("B", "L", 8), bindings) is None
    assert bindings.variadics == {"batch": (Size.of("B"), Size.of("L"))}
    assert unify(parse("*batch"), sizes("B", "L"), bindings) is None
    wrong = unify(parse("*batch"), sizes("B", "Q"), bindings)
    assert wrong is not None and wrong.dim == 1
    assert unify(parse("*batch"), sizes("B"), bindings) is not None
    short = unify(parse("... A B"), sizes(1), Bindings())
    assert short is not None and short.kind == "rank"


def test_unknown_sizes_match_and_bind_nothing() -> None:
    bindings = Bindings()
    assert unify(parse("B L"), None, bindings) is None
    assert unify(parse("B B"), sizes(None, 3), bindings) is None
    assert bindings.sizes == {"B": Size.of(3)}


def test_a_promise_binds_nothing() -> None:
    bindings = Bindings()
    mismatch = unify(parse("B Qlen"), sizes("B", "Klen"), bindings, rigid=True)
    assert mismatch is not None
    assert mismatch.dim == 1 and mismatch.witness["Qlen"] != mismatch.witness["Klen"]
    assert (
        unify(
            parse("B Klen"),
            sizes("B", "Qlen"),
            bindings,
            Facts().equal("Klen", "Qlen"),
            rigid=True,
        )
        is None
    )
    assert bindings.sizes == {}


def test_a_binding_never_changes() -> None:
    bindings = Bindings({"B": Size.of(2)})
    with pytest.raises(ValueError, match="already bound"):
        bindings.bind("B", Size.of(3))


@cases
@given(st.lists(expressions, min_size=1, max_size=3), assignments)
def test_a_shape_matches_its_own_evaluation(
    parts: list[Expression], env: dict[str, int]
) -> None:
    """Whatever sizes the names have, a shape computed from them fits."""
    try:
        values = [part.size.evaluate(env) for part in parts]
    except ZeroDivisionError:
        return
    texts = [str(part.size) for part in parts]
    if any(v < 0 for v in values) or any("-" in t or "min" in t for t in texts):
        return
    shape = parse(" ".join(texts))
    known = Bindings({name: Size.of(value) for name, value in env.items()})
    assert unify(shape, sizes(*values), known) is None
    assert unify(shape, sizes(*values), Bindings()) is None


def test_formatting() -> None:
    text = format_shape(
        [Size.of("B"), None, Size.symbol("?k"), 4],
        [("d",), None, (), ("t", "m")],
        {"u"},
    )
    assert text == "B/d _ _ 4/t/m {U:u}"
    assert format_shape(None) == "..."
    assert format_witness({"L": 3, "B": 2}) == "B=2, L=3"
