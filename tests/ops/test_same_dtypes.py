"""Functions of ``jax.lax`` that refuse arrays of two dtypes: those that JAX refuses, all of them, and no others."""

from __future__ import annotations

import inspect
from functools import cache

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from shardlint.engine import analyze
from shardlint.events import Event
from shardlint.lower import lower
from shardlint.project import Project
from tests.ops.oracle import in_jax

_SCATTERS = (
    "scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max".split()
)
_NUMBERS = "lax.ScatterDimensionNumbers((0,), (0,), (0,))"
_IMAGES = ("1 3 8 8", "4 3 2 2")
_SQUARES = ("4 4", "4 4")
#: Calls of functions that take more than two arrays: the shapes of x and y, and the rest of the call.
CALLS: dict[str, tuple[str, str, str]] = {
    "dynamic_update_slice": ("4 4", "2 2", "x, y, (0, 0)"),
    "dynamic_update_slice_in_dim": ("4 4", "2 4", "x, y, 0, 0"),
    "dynamic_update_index_in_dim": ("4 4", "4", "x, y, 0, 0"),
    "select": (*_SQUARES, "jnp.zeros((4, 4), bool), x, y"),
    "select_n": (*_SQUARES, "jnp.zeros((4, 4), bool), x, y"),
    "concatenate": (*_SQUARES, "[x, y], 0"),
    "clamp": ("4 4", "", "y, x, y"),
    "pad": ("4 4", "", "x, y, [(0, 0, 0)] * 2"),
    "conv": (*_IMAGES, "x, y, (1, 1), 'SAME'"),
    "conv_general_dilated": (
        *_IMAGES,
        "x, y, (1, 1), 'SAME', preferred_element_type=jnp.float32",
    ),
    "conv_with_general_padding": (*_IMAGES, "x, y, (1, 1), 'SAME', None, None"),
    "conv_transpose": ("1 8 3", "2 3 4", "x, y, (1,), 'SAME'"),
    "conv_general_dilated_local": (
        "1 3 8 8",
        "4 12 8 8",
        "x, y, (1, 1), 'SAME', (2, 2)",
    ),
    "dot_general": (*_SQUARES, "x, y, (((1,), (0,)), ((), ()))"),
    "ragged_dot": ("4 4", "2 4 4", "x, y, jnp.array([2, 2])"),
    "batch_matmul": ("2 4 4", "2 4 4", "x, y"),
    "reduce_window": ("4 4", "", "x, y, lax.add, (2, 2), (1, 1), 'VALID'"),
    "reduce": ("4 4", "", "x, y, lax.add, (0,)"),
    "betainc": (*_SQUARES, "x, x, y"),
    **dict.fromkeys(
        _SCATTERS, ("4 4", "4", "x, jnp.zeros((1,), jnp.int32), y, " + _NUMBERS)
    ),
}
#: They refuse some pairs of dtypes only, or have no model.
APART = {
    "pow": "powers may be integers",
    "random_gamma_grad": "takes a sample of fewer bits",
    "betainc": "no model",
    "igamma_grad_a": "no model",
    "mulhi": "no model",
    "reduce": "no model: its sum is that of a function",
}
FUNCTIONS = sorted(
    name
    for name, one in vars(lax).items()
    if callable(one)
    and not inspect.isclass(one)
    and not name.startswith("_")
    and not name.endswith("_p")
)
_WRITTEN = {
    jnp.float32: "f32",
    jnp.bfloat16: "bf16",
    jnp.int32: "i32",
    jnp.int16: "i16",
}
_PAIRS = ((jnp.float32, jnp.bfloat16), (jnp.int32, jnp.int16))


def expression(name: str) -> tuple[str, str, str]:
    """The shapes of x and y, and a call with them."""
    one, other, given = CALLS.get(name, (*_SQUARES, "x, y"))
    return one, other, f"lax.{name}({given})"


def accepted(name: str, first: type, second: type) -> bool:
    one, other, text = expression(name)
    arrays = [
        jax.ShapeDtypeStruct(tuple(map(int, shape.split())), dtype)
        for shape, dtype in ((one, first), (other, second))
    ]
    code = compile(f"lambda x, y: {text}", "<call>", "eval")
    return not isinstance(
        in_jax(eval(code, {"lax": lax, "jnp": jnp}), arrays, {}), Exception
    )


def refuses(name: str) -> bool:
    """Whether a function takes two arrays of one dtype, and refuses them with two."""
    usual = next((pair for pair in _PAIRS if accepted(name, pair[0], pair[0])), None)
    return usual is not None and not accepted(name, *usual)


def found(program: str) -> list[Event]:
    head = "import jax.numpy as jnp\nfrom jax import lax\nfrom shardtypes import *\n"
    module = lower((head + program).encode(), "program", "program.py").module
    return analyze(Project({"program": module}), module)


@cache
def refused() -> frozenset[str]:
    return frozenset(filter(refuses, FUNCTIONS))


def test_those_that_refuse_otherwise_are_listed() -> None:
    assert set(APART) <= refused()


def test_two_dtypes_are_found() -> None:
    wrong: list[str] = []
    for name in sorted(refused() - set(APART) | {"pow"}):
        one, other, text = expression(name)
        a, b = next(pair for pair in _PAIRS if accepted(name, pair[0], pair[0]))
        for first, second in ((a, a), (a, b), (b, a)):
            program = f"def f(x: {_WRITTEN[first]}['{one}'], y: {_WRITTEN[second]}['{other}']):\n    return {text}\n"
            codes = [event.code for event in found(program)]
            if codes != ([] if accepted(name, first, second) else ["ST212"]):
                wrong.append(f"{codes} of {program}")
    assert not wrong, "\n".join(wrong)


def test_many_functions_refuse_two_dtypes() -> None:
    assert len(refused() - set(APART)) > 40


#: Python's numbers have dtypes of their own: what JAX says of each with an array of that dtype.
NUMBERS = [
    ("f32['4']", "lax.max(x, 0.0)", False), ("bf16['4']", "lax.max(x, 0.0)", True),
    ("f32['4']", "lax.max(x, 0)", True), ("i32['4']", "lax.add(x, 1)", False), ("i16['4']", "lax.add(x, 1)", True),
    ("i32['4']", "lax.mul(x, 1.5)", True), ("bf16['4']", "lax.pad(x, 0.0, [(1, 1, 0)])", True),
    ("f32['4']", "lax.pad(x, 0.0, [(1, 1, 0)])", False), ("f32['4']", "lax.pow(x, 2)", False),
    ("bf16['4']", "lax.pow(x, 2.0)", True), ("bf16['4']", "lax.clamp(0.0, x, 1.0)", True),
    ("f32['4']", "lax.clamp(0.0, x, 1.0)", False), ("bf16['4']", "lax.div(x, x.shape[0])", True),
    ("bf16['4']", "lax.dynamic_update_index_in_dim(x, 1.0, 0, 0)", True),
]  # fmt: skip


@pytest.mark.parametrize(("annotation", "text", "wrong"), NUMBERS)
def test_numbers_of_python_are_not_promoted_either(
    annotation: str, text: str, wrong: bool
) -> None:
    dtype = next(
        dtype
        for dtype, written in _WRITTEN.items()
        if annotation.startswith(written + "[")
    )
    truth = in_jax(
        eval(f"lambda x: {text}", {"lax": lax}), [jax.ShapeDtypeStruct((4,), dtype)], {}
    )
    assert isinstance(truth, TypeError) == wrong
    assert [
        event.code for event in found(f"def f(x: {annotation}):\n    return {text}\n")
    ] == ["ST212"] * wrong


#: Right, or right for some who call: an annotated number may be an array, and x64 makes Python's numbers larger.
OPEN = [
    "def f(x: bf16['4'], scale: float):\n    return lax.mul(x, scale)\n",
    "def f(x: f64['4']):\n    return lax.mul(x, 2.0)\n",
    "def f(x, y: f32['4']):\n    return lax.add(x, y)\n",
    "def f(x: bf16['4'], y: f32['4']):\n    return lax.add(x, y.astype(x.dtype))\n",
    "def f(x: Float['4'], y: f32['4']):\n    return lax.add(x, y)\n",
    "def f(x: bf16['4']):\n    return lax.reduce_window(x, 0.0, lax.add, (2,), (2,), 'VALID')\n",
    "def f(x: f32['4'], i: i32['4']):\n"
    "    return lax.reduce_window((x, i), (0.0, 0), lambda a, b: a, (2,), (2,), 'VALID')\n",
]


@pytest.mark.parametrize("program", OPEN)
def test_what_may_be_right_is_not_reported(program: str) -> None:
    assert found(program) == []


MESSAGES = {
    "def f(x: f32['8 4'], y: bf16['2 4']):\n    return lax.dynamic_update_slice(x, y, (0, 0))\n": (
        "lax.dynamic_update_slice: operand is float32, update is bfloat16"
    ),
    "def f(x: f32['4'], y: i32['4']):\n    return lax.concatenate([x, x, y], 0)\n": (
        "lax.concatenate: operands[0] is float32, operands[2] is int32"
    ),
    "def f(x: bf16['4']):\n    return lax.max(x, 0.0)\n": (
        "lax.max: x is bfloat16, y is a Python number of float32"
    ),
}


@pytest.mark.parametrize("program", MESSAGES)
def test_the_message_is_word_for_word(program: str) -> None:
    advice = "; jax.lax does not promote; cast one with .astype"
    assert [event.message for event in found(program)] == [MESSAGES[program] + advice]


def test_several_operands_have_dtypes_of_their_own() -> None:
    start = "def f(x: f32['4'], i: i32['4']):\n    return lax.reduce_window((x, i), "
    (event,) = found(f"{start}(0.0, 0.0), lambda a, b: a, (2,), (2,), 'VALID')\n")
    wanted = "lax.reduce_window: operand[1] is int32, init_value[1] is a Python number of float32"
    assert event.message.startswith(wanted)
