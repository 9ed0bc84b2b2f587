"""Whatever prints a shape prints one that reads back the same: every public face of the language."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from hypothesis import assume, given
from jax.sharding import AbstractMesh, AxisType

import shardtypes as st
from shardtypes import Array, DimSpec, ShapeSpec, f32, floating
from shardtypes.dtypes import ArrayType, shape_of_type
from shardtypes.lang import Shape, parse
from tests.lang.strategies import cases, shape_texts

NAMES: dict[str, Any] = {"f32": f32, "floating": floating}


def meaning(shape: Shape) -> Any:
    return [
        (dim.kind, dim.size, dim.name if dim.size is None else None, dim.axes)
        for dim in shape.dims
    ], shape.pending


def valid(text: str) -> str:
    """Without texts that name an axis twice, which are no annotations."""
    axes = parse(text).axes
    assume(len(axes) == len(set(axes)))
    return text


@cases
@given(shape_texts())
def test_specs_and_their_dimensions(text: str) -> None:
    spec = ShapeSpec.parse(valid(text))
    assert ShapeSpec.parse(str(spec)) == spec == ShapeSpec.parse(
        text.encode()
    ) and hash(spec) == hash(ShapeSpec.parse(text))
    assert meaning(spec.parsed) == meaning(parse(text))
    assert (
        ShapeSpec(spec.dims, spec.pending) == spec == pickle.loads(pickle.dumps(spec))
    )
    for dim in spec.dims:
        assert (
            DimSpec.parse(str(dim))
            == dim
            == DimSpec(dim.shape, dim.sharding)
            == copy.deepcopy(dim)
        )
        assert eval(repr(dim), {"DimSpec": DimSpec}) == dim


@cases
@given(shape_texts())
def test_array_types(text: str) -> None:
    for dtype in NAMES.values():
        made = dtype[valid(text)]
        assert (
            eval(repr(made), dict(NAMES))
            == made
            == pickle.loads(pickle.dumps(made))
            == copy.deepcopy(made)
        )
        assert dtype[text.encode()] == made and made.__origin__[made.__args__] == made
        again = dtype[ShapeSpec.parse(text)]
        assert (
            meaning(shape_of_type(again))
            == meaning(shape_of_type(made))
            == meaning(parse(text))
        )


@cases
@given(shape_texts())
def test_stacked_types(text: str) -> None:
    shape = parse(valid(text))
    assume("x" not in shape.axes)
    made = Array["layers/x  2*n", f32[text]]
    assert isinstance(made, ArrayType)
    (first, second, *rest), pending = meaning(shape_of_type(made))
    assert (first[3], str(second[1])) == (("x",), "2*n")
    assert (rest, pending) == meaning(shape)
    assert made is Array["layers/x 2*n", f32[text]]


@cases
@given(shape_texts())
def test_layouts(text: str) -> None:
    shape = parse(valid(text))
    mesh = AbstractMesh(
        (2, 3, 5), ("d", "t", "fsdp"), axis_types=(AxisType.Explicit,) * 3
    )
    lies = st.layout(f32[text], mesh=mesh)
    assert (
        meaning(parse(str(lies))) == meaning(shape)
        and st.layout(f32[str(lies)], mesh=mesh) == lies
    )
    sizes = [30 * (at + 1) for at in range(len(shape.dims))]
    if all(
        dim.size is None or dim.size.constant is None or dim.kind == "broadcast"
        for dim in shape.dims
    ):
        sized = st.layout(f32[text], mesh, shape=sizes)
        again = st.layout(f32[str(sized)], mesh)
        assert (
            again == sized
            and again.shape == tuple(sizes)
            and again.shard_shape == sized.shard_shape
        )
        assert again.pending == set(shape.pending)


@pytest.mark.parametrize(
    "text", ["n n//2 _", "-B//2+9 B", "#k//2/d 4 ...", "B L*B%7/t", " B   M ", "B M 3"]
)
def test_errors_show_the_declaration_and_sizes_that_read_back(text: str) -> None:
    with pytest.raises(st.ShapeError) as caught:
        st.check(f32, text, jnp.ones((7,) * 9))
    (declared,) = re.findall(r"declared (f32\[.*\])", str(caught.value))
    assert meaning(shape_of_type(eval(declared, dict(NAMES)))) == meaning(parse(text))


def test_an_expression_is_shown_as_one_that_reads_back() -> None:
    with pytest.raises(st.ShapeError, match=r"dimension 1 is 9, expected n//2 = 4\n"):
        st.check(f32, "n n//2", jnp.ones((8, 9)))
    with pytest.raises(st.ShapeError, match=r"dimension 1 is 9, expected 5-n//3 = 3\n"):
        st.check(f32, "n 5-n//3", jnp.ones((8, 9)))
    for text in ("n 6//(n-1)", "6//(n-1) n"):
        with pytest.raises(
            st.ShapeError,
            match=r"dimension . is 1, expected 6//\(n-1\), which divides by zero\n",
        ):
            st.check(f32, text, jnp.ones((1, 1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DimSpec("B d"), "expected one dimension, got 2\n  B d\n  ^"),
        (
            lambda: DimSpec.parse("B {U:t}"),
            "pending sums belong to a whole array, not to one dimension\n  B {U:t}\n       ^",
        ),
        (lambda: DimSpec(-1), "a size that is always negative\n  -1\n  ^"),
        (
            lambda: DimSpec("B", "dt"),
            "a dimension is sharded over a tuple of mesh axes, such as ('d',), got 'dt'",
        ),
        (
            lambda: ShapeSpec((DimSpec("d", ("d",)), DimSpec("M", ("d",)))),
            "mesh axis 'd' is used twice for one array\n  d/d M/d\n        ^",
        ),
        (
            lambda: f32["t M/t {U:t}"],
            "mesh axis 't' is used twice for one array\n  t M/t {U:t}\n           ^",
        ),
    ],
)
def test_what_is_no_dimension_or_shape(make: Any, message: str) -> None:
    with pytest.raises((st.ShapeStringError, TypeError)) as caught:
        make()
    assert str(caught.value) == message


def test_dimensions_written_differently_are_equal() -> None:
    assert (
        DimSpec("L+B") == DimSpec("B+L")
        and hash(DimSpec("4")) == hash(DimSpec(4))
        and DimSpec("4") == DimSpec(4)
    )
    assert ShapeSpec.parse("L+B 2*2") == ShapeSpec((DimSpec("B+L"), DimSpec(4)))
    assert jax.tree.leaves(ShapeSpec.parse("n//2/t/d").dims[0].sharding) == ["t", "d"]
