# ruff: noqa: UP045 - both spellings of an optional are what is tested
"""Annotations as values: wrong shape strings, unions, and other tools that look at them."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import typing
from pathlib import Path
from typing import Any, Optional

import jax
import jax.numpy as jnp
import optax
import pytest
import typeguard
from beartype import beartype
from beartype.roar import BeartypeCallHintParamViolation
from hypothesis import given, settings
from hypothesis import strategies as some

import shardtypes as st
from shardtypes import _stats, f32
from tests.runtime.loading import OURS, load

# (text, column of the first character that cannot be right)
WRONG: list[tuple[Any, int]] = [
    ("B/d M/d", 6),
    ("B//", 3),
    ("/", 0),
    ("B/", 2),
    ("B M (", 5),
    ("B {U:", 2),
    ("B/d/d", 4),
    ("B 1.5", 3),
    ("... ...", 4),
    (b"B\xff", 1),
    (3, 0),
    (None, 0),
    ([], 0),
    ({}, 0),
    (("a", "b"), 0),
]


@pytest.mark.parametrize(("text", "column"), WRONG, ids=repr)
def test_a_wrong_text_is_one_error_with_its_column(text: Any, column: int) -> None:
    for make in (
        lambda: f32[text],
        lambda: st.ShapeSpec.parse(text),
        lambda: st.DimSpec.parse(text),
        lambda: st.check(f32, text, jnp.ones(1)),
        lambda: st.Array[text, f32["B"]],
    ):
        with pytest.raises(st.ShapeStringError) as caught:
            make()
        assert caught.value.column == column
        assert isinstance(caught.value, ValueError) and isinstance(
            caught.value, st.ShardTypeError
        )
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.column) == (str(caught.value), column)


@settings(max_examples=200, deadline=None)
@given(
    some.one_of(
        some.text(), some.text(alphabet="Bdt /*+#_.{}U:,()0123456789"), some.binary()
    )
)
def test_any_text_is_an_annotation_or_that_error(text: str | bytes) -> None:
    try:
        annotation = f32[text]
    except st.ShapeStringError as error:
        assert error.column >= 0 and str(error)
    else:
        assert eval(repr(annotation), {"f32": f32}) == annotation


def test_a_wrong_text_is_shown_with_a_caret() -> None:
    with pytest.raises(st.ShapeStringError) as caught:
        f32["B/d M/d"]
    assert (
        str(caught.value)
        == "mesh axis 'd' is used twice for one array\n  B/d M/d\n        ^"
    )


def test_annotations_in_unions() -> None:
    for union in (
        f32["B"] | int,
        int | f32["B"],
        Optional[f32["B"]],
        f32["B"] | f32["B M"],
        f32["B"] | jax.Array,
    ):
        assert f32["B"] in typing.get_args(union)
    assert repr(f32["B"] | int) == "f32['B'] | int"
    assert (f32["B"] | f32["B"]) == f32["B"]
    assert (
        {f32["B"]: 1}[f32[b"B"]] == 1
        and f32["B"] != f32["M"]
        and f32["B"] != st.bf16["B"]
    )


def test_type_hints_and_signatures() -> None:
    def f(x: f32["B"], y: Optional[f32["B M"]] = None) -> tuple[f32["B"], ...]: ...

    hints = typing.get_type_hints(f)
    assert hints == {
        "x": f32["B"],
        "y": Optional[f32["B M"]],
        "return": tuple[f32["B"], ...],
    }
    f.__annotations__ = hints
    # Python 3.14 writes it with a bar
    assert str(inspect.signature(f)) in (
        "(x: f32['B'], y: Optional[f32['B M']] = None) -> tuple[f32['B'], ...]",
        "(x: f32['B'], y: f32['B M'] | None = None) -> tuple[f32['B'], ...]",
    )


def test_unions_are_checked_member_by_member() -> None:
    @st.typechecked
    def f(x: f32["B"] | int, *rest: f32["B"] | f32["M M"]) -> Optional[f32["B"]]:
        return rest[-1] if rest else None

    f(3)
    f(jnp.ones(3), jnp.ones(3))
    f(jnp.ones(3), jnp.ones((5, 5)), jnp.ones(3))
    with pytest.raises(st.ShapeError, match="f: the result: rank is 2, expected 1"):
        f(3, jnp.ones((2, 2)))
    with pytest.raises(st.ShardTypeError) as caught:
        f(jnp.ones(3), jnp.ones((3, 2)))
    assert str(caught.value) == (
        "f: parameter 'rest': it is none of f32['B'] | f32['M M']\n"
        "  rank is 2, expected 1\n    declared f32['B']\n    actual   f32[3, 2]\n"
        "    B = 3, bound by f: parameter 'x', dimension 0\n"
        "    pass an array of the declared number of dimensions, or correct the annotation\n"
        "  dimension 1 is 2, expected M = 3\n    declared f32['M M']\n    actual   f32[3, 2]\n"
        "    M = 3, bound by f: parameter 'rest', dimension 0\n"
        "    pass arrays that agree in M, or give the dimension another name"
    )
    with pytest.raises(st.ShardTypeError, match="is not an instance of int"):
        f(jnp.ones((3, 3)))


def test_a_failed_member_binds_nothing() -> None:
    with st.Scope() as scope:
        assert not isinstance(jnp.ones((4, 1, 2)), f32["*xs A A"])
        assert not isinstance(jnp.ones((4, 1, 2)), f32["C+1 A A"])
        assert scope.sizes == {}
        st.check(f32, "*xs A", jnp.ones((3, 2, 1)))


def test_under_beartype() -> None:
    """beartype checks that it is an array of the dtype; our own door checks the rest, above or below it."""

    @beartype
    def f(x: f32["B"], y: f32["B"] | None = None) -> f32["B"]:
        return x

    f(jnp.ones(3), jnp.ones(4))
    with pytest.raises(BeartypeCallHintParamViolation):
        f(jnp.ones(3, jnp.int32))

    for door in (st.typechecked(f), beartype(st.typechecked(f.__wrapped__))):
        with pytest.raises(st.ShapeError, match="expected B = 3"):
            door(jnp.ones(3), jnp.ones(4))


def test_annotated_arrays_under_beartype() -> None:
    @beartype
    def f(x: typing.Annotated[jax.Array, f32["B"]]) -> None: ...

    f(jnp.ones(3))


# As optax.OptState: what it refers to by name is known in the module only where it was written.
Elsewhere = int | typing.Iterable["NoSuchTree"] | typing.Mapping[str, "NoSuchTree"]


def step(w: f32["n"], s: Optional[Elsewhere]) -> tuple[f32["n"], Elsewhere]:
    return w[:1] if w.shape[0] == 3 else w, s


def optax_step(w: f32["n"], s: optax.OptState) -> tuple[f32["n"], optax.OptState]:
    return w[:1] if w.shape[0] == 3 else w, s


@pytest.mark.parametrize(
    "decorate", [st.typechecked, typeguard.typechecked], ids=["ours", "typeguard's"]
)
@pytest.mark.parametrize("f", [step, optax_step])
def test_a_name_that_only_another_module_knows_leaves_the_rest_checked(
    decorate: Any, f: Any
) -> None:
    checked = decorate(f)
    _stats.reset()
    checked(jnp.ones(2), 3)
    assert any(
        reason.startswith(
            f"part of the annotation of {f.__name__}(return) not checked: name"
        )
        for reason in _stats.snapshot()["not_possible"]
    )
    with pytest.raises(
        st.ShapeError,
        match=r"item 0 of .*step: the result: dimension 0 is 1, expected n = 3",
    ):
        checked(jnp.ones(3), 3)


def test_such_a_name_in_fields_locals_and_rest_leaves_the_rest_checked() -> None:
    @st.typechecked
    @dataclasses.dataclass
    class Train:
        w: f32["n"]
        pair: tuple[f32["n"], Elsewhere]

    @st.typechecked
    def local(x: f32["n"]) -> None:
        y: tuple[f32["n"], Elsewhere] = (x[1:], 3)
        del y

    @st.typechecked
    def rest(*pairs: tuple[f32["n"], Elsewhere]) -> None:
        return

    @st.typechecked
    def call(train: list[Train]) -> None:
        return

    one, two = jnp.ones(1), jnp.ones(2)
    right = Train(two, (two, [two]))
    call([right])
    rest((two, 3), (two, 4))
    with st.enabled(False):
        wrong = Train(two, (one, [two]))
    for fails in (
        lambda: Train(two, (one, [two])),
        lambda: call([right, wrong]),
        lambda: local(two),
        lambda: rest((two, 3), (one, 4)),
    ):
        with pytest.raises(st.ShapeError, match=r"dimension 0 is 1, expected n = 2"):
            fails()


def test_a_name_that_is_defined_later_is_known_then() -> None:
    holder = dataclasses.make_dataclass("Holder", [("a", list["DefinedLater"])])
    holder.__module__ = __name__
    checked = st.typechecked(lambda x: x)
    checked.__wrapped__.__annotations__["x"] = holder
    checked(holder([jnp.ones(1)]))
    globals()["DefinedLater"] = f32["2"]
    try:
        with pytest.raises(st.ShapeError, match="dimension 0 is 1, expected 2"):
            checked(holder([jnp.ones(1)]))
    finally:
        del globals()["DefinedLater"]


NOTES = """
import dataclasses
import jax
import jax.numpy as jnp
from shardtypes import f32


@dataclasses.dataclass
class Config:
    width: "as many as there are"
    w: f32["B"]


@checked
def noted(x: f32["B"], how: "one of three modes" = "fast", other: "jax.Nope" = None) -> "an array":
    return x


@checked
def held(config: Config, x: f32["B"]) -> f32["B"]:
    return x + config.w
"""


@pytest.mark.parametrize("way", OURS)
def test_notes_in_the_place_of_types(tmp_path: Path, way: str) -> None:
    """They are no types, and none of the reader's business: what else is annotated is checked, and they are counted."""
    module = load(tmp_path, NOTES, way)
    one, two = jnp.ones(1), jnp.ones(2)
    _stats.reset()
    module.noted(two, "slow")
    module.held(module.Config(3, two), two)
    with pytest.raises(st.ShapeError, match="dimension 0 is 2, expected B = 1"):
        module.held(module.Config(3, two), one)
    reasons = " ".join(_stats.snapshot()["not_possible"])
    assert "noted(how) not checked: 'one of three modes' is no Python expression" in (
        reasons
    )
    assert "noted(other) not checked: module 'jax' has no attribute 'Nope'" in reasons
    assert "Config.width not checked: 'as many as there are' is no Python" in reasons
    assert st.trace(module.noted).ok is None
    assert "must be an expression" in st.trace(module.held).reason
