"""Symbolic sizes: witnesses fail in JAX, and results agree with JAX at every assignment tried."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from shardlint import ops
from shardlint.ops.application import find_model
from shardlint.ops.registry import constant
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    SequenceValue,
    SliceValue,
    Value,
)
from shardtypes.lang import Size, format_shape, parse
from shardtypes.semantics.lowerings import LOWERINGS


def sym(text: str, dtype: str = "float32") -> ArrayValue:
    return ArrayValue(
        tuple(Dimension(dim.size, ()) for dim in parse(text).dims),
        dtype,
        False,
        frozenset(),
    )


def integer(text: str) -> IntValue:
    return IntValue(parse(text).dims[0].size if text != "-1" else Size.const(-1))


def concrete(text: str, sizes: dict[str, int]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(
        tuple(d.size.evaluate(sizes) for d in parse(text).dims), jnp.float32
    )


def sizes_of(text: str, sizes: dict[str, int]) -> int:
    return integer(text).size.evaluate(sizes)


def reshape(shape: str):
    names = shape.split()
    return (
        lambda ctx, x: ops.method(
            x, "reshape", [integer(name) for name in names], {}, ctx
        ),
        lambda env, x: x.reshape([sizes_of(name, env) for name in names]),
    )


def function(
    name: str,
    *rest: object,
    sequence: bool = False,
    first: str | None = None,
    **kwargs: object,
):
    """A ``jnp`` function of the arrays, as a model call and as a JAX call."""
    before = [] if first is None else [first]

    def model(ctx: ops.OpContext, *xs: Value) -> Value:
        args = [SequenceValue(xs, "list")] if sequence else list(xs)
        known = {key: constant(value) for key, value in kwargs.items()}
        return ops.apply(
            f"jax.numpy.{name}",
            [*map(Literal, before), *args, *map(constant, rest)],
            known,
            ctx,
        )

    def real(env: dict[str, int], *xs: object) -> object:
        args = [list(xs)] if sequence else list(xs)
        return getattr(jnp, name)(*before, *args, *rest, **kwargs)

    return model, real


FAILING = [
    ("ST204", function("add"), ["B L", "L B"]),
    ("ST204", function("multiply"), ["B L", "B"]),
    ("ST204", function("add"), ["B 4", "B 5"]),
    ("ST204", function("matmul"), ["B L", "F L"]),
    ("ST204", function("matmul"), ["B H L K", "B L K H"]),
    ("ST204", function("dot"), ["B L M", "F M"]),
    ("ST205", function("einsum", first="bl,lm->bm"), ["B L", "M L"]),
    ("ST205", function("einsum", first="blm,mf->blf"), ["B L", "M F"]),
    ("ST205", function("einsum", first="bl->bx"), ["B L"]),
    ("ST206", reshape("B L H"), ["B L M"]),
    ("ST206", reshape("B*L M M"), ["B L M"]),
    ("ST206", reshape("-1 -1"), ["B L"]),
    ("ST208", function("sum", axis=2), ["B L"]),
    ("ST208", function("transpose", (0, 1)), ["B L M"]),
    ("ST208", function("squeeze", 1), ["B L"]),
    ("ST208", function("expand_dims", 4), ["B L"]),
    ("ST209", function("concatenate", sequence=True, axis=1), ["B L", "F L"]),
    ("ST209", function("stack", sequence=True), ["B L", "B M"]),
    ("ST209", function("where"), ["B L", "B L", "L B"]),
    ("ST213", function("min"), ["B L", "B L"]),
    (
        "ST214",
        (
            lambda ctx, x: ops.index(x, constant((0, 0, 0)), ctx),
            lambda env, x: x[0, 0, 0],
        ),
        ["B L"],
    ),
]


@pytest.mark.parametrize(("code", "both", "shapes"), FAILING)
def test_witness_fails_in_jax(code, both, shapes):
    model, real = both
    with pytest.raises(ops.OpError) as caught:
        model(ops.OpContext(), *map(sym, shapes))
    assert caught.value.code == code
    names = {
        name
        for shape in shapes
        for dim in parse(shape).dims
        for name in dim.size.symbols
    }
    env = {
        **{name: 7 + i for i, name in enumerate(sorted(names))},
        **caught.value.witness,
    }
    with pytest.raises((TypeError, ValueError, IndexError)):
        jax.eval_shape(
            lambda *xs: real(env, *xs), *(concrete(shape, env) for shape in shapes)
        )


WORKING = [
    (function("add"), ["B L M", "M"], "B L M"),
    (function("add"), ["B 1 M", "L 1"], "B L M"),
    (function("matmul"), ["B L M", "M F"], "B L F"),
    (function("einsum", first="blm,mf->blf"), ["B L M", "M F"], "B L F"),
    (function("einsum", first="b...m,mf"), ["B L M", "M F"], "L B F"),
    (function("sum", axis=-1, keepdims=True), ["B L"], "B 1"),
    (function("concatenate", sequence=True, axis=1), ["B L", "B M"], "B L+M"),
    (function("stack", sequence=True, axis=-1), ["B L", "B L"], "B L 2"),
    (reshape("B -1"), ["B L M"], "B L*M"),
    (reshape("B*L M"), ["B L M"], "B*L M"),
    (reshape("B L 4 -1"), ["B L 4*H"], "B L 4 H"),
    (reshape("B L//4 4"), ["B L"], "B L//4 4"),
    (function("swapaxes", 0, -1), ["B L M"], "M L B"),
    (function("squeeze", 1), ["B 1 M"], "B M"),
    (function("tile", (2, 1)), ["B L"], "2*B L"),
    (function("repeat", 3, axis=1), ["B L"], "B 3*L"),
]


@pytest.mark.parametrize(("both", "shapes", "expected"), WORKING)
def test_symbolic_result_agrees(both, shapes, expected):
    model, real = both
    result = model(ops.OpContext(), *map(sym, shapes))
    assert isinstance(result, ArrayValue)
    assert format_shape([dim.size for dim in result.dims]) == expected
    for env in (
        {"B": 2, "L": 8, "M": 3, "F": 5, "H": 7},
        {"B": 3, "L": 4, "M": 5, "F": 2, "H": 1},
    ):
        truth = jax.eval_shape(
            partial(real, env), *(concrete(shape, env) for shape in shapes)
        )
        assert truth.shape == tuple(dim.size.evaluate(env) for dim in result.dims)


@pytest.mark.parametrize(
    "bounds",
    [(None, 3), (1, None), (None, -1), (-2, None), (2, 5), (-4, -1), (None, None, 2)],
)
def test_slices_clamp(bounds):
    """``x[:3]`` of a dimension L has min(L, 3) elements, whatever L is."""
    known = slice(*bounds)
    parts = [known.start, known.stop, known.step]
    index = SliceValue(
        *(Literal(None) if part is None else constant(part) for part in parts)
    )
    result = ops.index(sym("L"), index, ops.OpContext())
    assert isinstance(result, ArrayValue)
    for n in range(1, 8):
        assert result.dims[0].size.evaluate({"L": n}) == len(range(n)[known])


def test_unknown_never_fails():
    nothing = ArrayValue(None)
    names = {
        name for name in (*ops.MODELS, *LOWERINGS) if name.startswith("jax.numpy.")
    }
    assert len(names) > 350
    for name in names:
        signature = find_model(name).signature
        most = len(signature.positional)
        given = [nothing] * min(2, most)
        given += [nothing] * (len(signature.needed) - len(given))
        ops.apply(name, given, {}, ops.OpContext())


def test_messages():
    with pytest.raises(ops.OpError) as caught:
        ops.binary("+", sym("B L"), sym("B M"), ops.OpContext())
    assert str(caught.value) == "+: shapes 'B L' and 'B M' do not broadcast"
    assert caught.value.witness == {"L": 2, "M": 3}
    with pytest.raises(ops.OpError) as caught:
        ops.apply("jax.numpy.min", [sym("B"), sym("B")], {}, ops.OpContext())
    assert "use jnp.minimum for the elementwise function" in str(caught.value)


ADVICE = [
    (
        function("divide"),
        ["B L M", "B L"],
        "'B L 1' does: use keepdims=True, or [..., None]",
        ["B L M", "B L 1"],
    ),
    (function("add"), ["B L", "L B"], "transpose the second", ["B L", "B L"]),
    (function("matmul"), ["B L", "F L"], "transpose the right operand", ["B L", "L F"]),
    (function("matmul"), ["L B", "L F"], "transpose the left operand", ["B L", "L F"]),
    (function("matmul"), ["L F", "B L"], "swap the operands", ["B L", "L F"]),
    (
        function("einsum", first="bl,lm->bm"),
        ["L M", "B L"],
        "swap the operands",
        ["B L", "L M"],
    ),
]


@pytest.mark.parametrize(("both", "shapes", "advice", "better"), ADVICE)
def test_advice_is_good(both, shapes, advice, better):
    """What a message suggests runs in JAX."""
    model, real = both
    with pytest.raises(ops.OpError) as caught:
        model(ops.OpContext(), *map(sym, shapes))
    assert caught.value.message.endswith(advice)
    env = {"B": 2, "L": 3, "M": 5, "F": 7}
    jax.eval_shape(partial(real, env), *(concrete(shape, env) for shape in better))


def test_advice_on_joining():
    with pytest.raises(ops.OpError) as caught:
        function("concatenate", sequence=True, axis=1)[0](
            ops.OpContext(), sym("B L"), sym("M L")
        )
    assert caught.value.message.endswith("use axis=0")


@pytest.mark.parametrize(
    "shapes", [["B L", "B M"], ["B L M", "M L B"], ["B L M", "K L"]]
)
def test_no_advice_where_nothing_is_evident(shapes):
    with pytest.raises(ops.OpError) as caught:
        ops.binary("+", *map(sym, shapes), ops.OpContext())
    assert caught.value.message.endswith("do not broadcast")
