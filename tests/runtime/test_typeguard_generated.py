"""Checkers generated for functions under typeguard's decorator: they say what the general checks say."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import typeguard
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh

import shardtypes
from shardtypes import _stats, f32, switches
from shardtypes.annotation_checks import TypeCheckError
from tests.runtime.loading import load
from tests.runtime.test_generated import MANY, MESH, SIZES, is_array, types, values


@pytest.fixture(autouse=True)
def calls_before() -> Iterator[None]:
    """Restore after how many calls a checker is generated."""
    before = switches.calls_before_generated
    yield
    switches.calls_before_generated = before


FUNCTION = """
def f({parameters}, r: R) -> S:
    v: V = made
    return r
"""


@st.composite
def calls(draw: Any, mesh: Mesh | None = None) -> tuple[dict[str, Any], str, Any]:
    """What a function's annotations mean, its source, and arguments, of which it returns the last."""
    kinds = draw(st.lists(types(mesh is not None), min_size=2, max_size=4))
    sizes = {name: draw(SIZES) for name in "ABC"}
    arguments = tuple(draw(values(kind, sizes, mesh)) for kind in kinds)
    asks = draw(st.sampled_from(["A", "B C", "*N", "_"]))
    names = "abc"[: len(kinds) - 1]
    annotations = dict(zip((*names.upper(), "R"), kinds, strict=True))
    meanings = {
        **annotations,
        "S": kinds[-1] if draw(st.booleans()) else draw(types()),
        "V": f32[asks],
        "made": jnp.ones((2,) * len(asks.split())),
    }
    parameters = ", ".join(f"{name}: {name.upper()}" for name in names)
    return meanings, FUNCTION.format(parameters=parameters), arguments


def instrumented(meanings: dict[str, Any], source: str) -> Callable[..., Any]:
    """The function, as typeguard's import hook compiles it."""
    transformer = typeguard._transformer  # type: ignore[attr-defined]
    tree = transformer.TypeguardTransformer().visit(ast.parse(source))
    names = {**meanings, "__name__": "instrumented_here"}
    exec(compile(ast.fix_missing_locations(tree), "<instrumented>", "exec"), names)
    found: Callable[..., Any] = names["f"]
    return found


def outcome(function: Callable[..., Any], arguments: Any) -> tuple[Any, Any]:
    """What a call returns or says, and what is counted meanwhile."""
    _stats.reset()
    try:
        found: Any = id(function(*arguments))
    except TypeCheckError as error:
        found = type(error), str(error)
    return found, _stats.snapshot()["not_possible"]


def agree(meanings: dict[str, Any], source: str, arguments: Any) -> None:
    switches.calls_before_generated = sys.maxsize
    in_general = outcome(instrumented(meanings, source), arguments)
    switches.calls_before_generated = 0
    function = instrumented(meanings, source)
    assert outcome(function, arguments) == in_general
    assert outcome(function, arguments) == in_general  # the result is known by now


@pytest.mark.once
@MANY
@given(calls())
def test_they_agree_with_the_general_checks(case: Any) -> None:
    agree(*case)


@pytest.mark.long
@MANY
@given(calls(MESH), st.booleans())
def test_they_agree_on_a_mesh(case: Any, in_force: bool) -> None:
    if not in_force:
        agree(*case)
        return
    with jax.set_mesh(MESH):
        agree(*case)


@pytest.mark.long
@MANY
@given(calls())
def test_they_agree_in_a_trace(case: Any) -> None:
    meanings, source, arguments = case

    def traced(arrays: list[jax.Array]) -> None:
        left = iter(arrays)
        values = jax.tree.map(lambda x: next(left) if is_array(x) else x, arguments)
        agree(meanings, source, values)

    jax.make_jaxpr(traced)(
        [leaf for leaf in jax.tree.leaves(arguments) if is_array(leaf)]
    )


GUARDED = """
import typeguard
from typing import Annotated
import jax
from shardtypes import f32

@checked
def plain(x: f32["A B"], y: Annotated[jax.Array, f32["B"]]) -> f32["B"]:
    return y

@checked
def several(xs: list[f32["A"]], n: int, y: f32["A"] | None = None) -> tuple[f32["A"], int]:
    z: f32["A"] = xs[0]
    return xs[-1], n

@checked
def variable(x: f32["A"], y) -> f32["A"]:
    z: f32["A"] = y
    return y[:2]

@checked
def later(x: f32["A"], y) -> f32["K"]:
    k: f32["K"] = y
    return x

def by_hand(x: f32["A"]):
    return typeguard.check_argument_types()

def other_by_hand(x: f32["A"], y: f32["A"]):
    return typeguard.check_argument_types()
"""


def entered(call: Callable[[], Any]) -> set[str]:
    """The functions of this package that a call enters."""
    found: set[str] = set()

    def enter(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "shardtypes" in frame.f_code.co_filename:
            found.add(frame.f_code.co_name)

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("form", ["by position", "by name", "in a trace"])
def test_what_is_right_never_reaches_the_general_checks(
    tmp_path: Path, form: str
) -> None:
    """Else the tests above would compare these with themselves."""
    switches.calls_before_generated = 2
    plain = load(tmp_path, GUARDED, "typeguard.typechecked").plain
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    call = {
        "by position": lambda: plain(x, y),
        "by name": lambda: plain(y=y, x=x),
        "in a trace": lambda: jax.make_jaxpr(lambda *a: plain(*a))(x, y),
    }[form]
    general = {"_call_of", "_check_sizes"}
    for _ in range(2):
        assert entered(call) >= general
    call()
    assert entered(call).isdisjoint(general)


def test_sizes_are_kept_for_what_comes_after_the_arguments(tmp_path: Path) -> None:
    """The annotated variable and the result are compared with the arguments."""
    switches.calls_before_generated = 0
    module = load(tmp_path, GUARDED, "typeguard.typechecked")
    x, y = jnp.ones(2), jnp.ones(3)
    for _ in range(2):
        assert module.several([x, x], 1)[0] is x
        assert module.several([x], 1, x)[1] == 1
        with pytest.raises(typeguard.TypeCheckError, match="expected A = 2"):
            module.several([x, y], 1)
        with pytest.raises(typeguard.TypeCheckError, match=r"parameter 'y'.*A = 2"):
            module.several([x], 1, y)
        with pytest.raises(typeguard.TypeCheckError, match="int"):
            module.several([x], "1")
        module.variable(x, x)
        with pytest.raises(
            shardtypes.ShapeError,
            match=r"^variable: variable 'z': dimension 0 is 3, expected A = 2",
        ) as raised:
            module.variable(x, y)
        assert "A = 2, bound by variable: parameter 'x'" in str(raised.value)
        with pytest.raises(shardtypes.ShapeError, match=r"^variable: the result: dim"):
            module.variable(jnp.ones(3), y)


def test_sizes_that_variables_name_are_compared_with_the_result(
    tmp_path: Path,
) -> None:
    """No argument names them."""
    switches.calls_before_generated = 0
    module = load(tmp_path, GUARDED, "typeguard.typechecked")
    for _ in range(2):
        module.later(jnp.ones(3), jnp.ones(3))
        with pytest.raises(
            shardtypes.ShapeError, match=r"^later: the result: .*expected K = 3"
        ):
            module.later(jnp.ones(2), jnp.ones(3))


def test_functions_that_ask_by_hand_are_told_apart(tmp_path: Path) -> None:
    """One function of typeguard's asks for all of them."""
    switches.calls_before_generated = 0
    module = load(tmp_path, GUARDED, "typeguard.typechecked")
    x, y = jnp.ones(2), jnp.ones(3)
    for _ in range(2):
        assert module.by_hand(x) and module.other_by_hand(x, x)
        with pytest.raises(shardtypes.ShapeError, match="rank is 2"):
            module.by_hand(jnp.ones((2, 2)))
        with pytest.raises(shardtypes.ShapeError, match="expected A = 2"):
            module.other_by_hand(x, y)
