"""Indexing and updates against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ops
from shardlint.values import ArrayValue
from tests.ops.oracle import abstract, agree, sampled
from tests.ops.strategies import arrays, axes, positive
from tests.ops.tables import case, family

bounds = st.one_of(st.none(), st.integers(-5, 5))
slices = st.builds(slice, bounds, bounds, st.sampled_from([None, None, 1, 2, -1]))
index_arrays = st.lists(st.sampled_from((1, 2)), max_size=2).map(
    lambda s: np.zeros(tuple(s), np.int32)
)
items = st.one_of(
    st.integers(-1, 0), slices, slices, st.none(), st.just(Ellipsis), index_arrays
)
indices = st.one_of(items, st.lists(items, max_size=4).map(tuple))


def run_index(v, index):
    return ops.index(v, abstract(index), ops.OpContext())


@sampled
@given(x=arrays(positive), index=indices)
def test_index(x, index):
    agree("jax index", lambda x: x[index], [x], run=lambda v, _: run_index(v[0], index))


@sampled
@given(x=arrays(positive), data=st.data())
def test_mask(x, data):
    rank = data.draw(st.integers(0, len(x.shape)))
    shape = [n if data.draw(st.integers(0, 5)) else n + 1 for n in x.shape[:rank]]
    mask = np.ones(shape, bool)
    if shape:
        agree(
            "jax index", lambda x: x[mask], [x], run=lambda v, _: run_index(v[0], mask)
        )


AT = "jax.Array.at"


def updating(name):
    return lambda x, index, y: getattr(x.at[index], name)(y)


UPDATES = [
    case(
        AT,
        name,
        arrays(positive),
        indices,
        st.one_of(arrays(positive), st.floats(0, 1)),
        function=updating(name),
    )
    for name in "set add subtract multiply mul divide power min max".split()
]


@st.composite
def starting(draw):
    """An array, where to start in it, and how much to take."""
    x = draw(arrays(positive))
    sizes = draw(positive)
    return [
        x,
        (0,) * draw(st.sampled_from([len(x.shape), len(x.shape), len(sizes)])),
        sizes,
    ], {}


@st.composite
def in_dim(draw):
    x, size, axis = draw(arrays(positive)), draw(st.integers(1, 3)), draw(axes)
    known = x.shape and -len(x.shape) <= axis < len(x.shape)
    return [x, 0, min(size, x.shape[axis]) if known else size, axis], {}


test_indexing = family(
    *UPDATES,
    case(AT, "apply", arrays(positive), indices, st.sampled_from((jnp.abs, jnp.exp)),
         function=lambda x, index, f: x.at[index].apply(f)),
    case(AT, "get", arrays(positive), indices, function=lambda x, index: x.at[index].get()),
    case("jax.numpy", "take", arrays(positive), arrays(positive, ("int32", "float32", "uint8")),
         axis=st.one_of(st.none(), axes)),
    case("jax.numpy", "take_along_axis", arrays(positive), arrays(positive, ("int32", "float32")), axes),
    case("jax.lax", "dynamic_slice", drawn=starting()),
    case("jax.lax", "dynamic_slice_in_dim", drawn=in_dim()),
    case("jax.lax", "dynamic_index_in_dim", arrays(positive), st.just(0), axes),
)  # fmt: skip


def test_attributes():
    x = abstract(jax.ShapeDtypeStruct((2, 3, 4), jnp.dtype("float32")))
    ctx = ops.OpContext()
    assert str(ops.attribute(x, "size", ctx).size) == "24"
    assert [str(item.size) for item in ops.attribute(x, "shape", ctx).items] == [
        "2",
        "3",
        "4",
    ]
    transposed = ops.attribute(x, "mT", ctx)
    assert isinstance(transposed, ArrayValue)
    assert [str(dim.size) for dim in transposed.dims] == ["2", "4", "3"]
