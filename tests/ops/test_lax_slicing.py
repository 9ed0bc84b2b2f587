"""Slices, updates, padding and splits of ``jax.lax`` against JAX."""

from __future__ import annotations

import jax
import pytest
from hypothesis import strategies as st

from shardlint import ops
from tests.ops.oracle import abstract, has_shape, in_jax
from tests.ops.strategies import arrays, axes, positive
from tests.ops.tables import case, family, optional

LAX = "jax.lax"
near = st.integers(-1, 5)


@st.composite
def with_lists(draw, *elements, first=None):
    """An array and, per strategy, a list with mostly one element a dimension."""
    x = draw(arrays(positive) if first is None else first)
    count = len(x.shape) if draw(st.integers(0, 9)) else draw(st.integers(0, 4))
    return [
        x,
        *(tuple(draw(element) for _ in range(count)) for element in elements),
    ], {}


@st.composite
def inside(draw):
    """Bounds that mostly lie within the array."""
    x = draw(arrays(positive))
    starts = tuple(draw(st.integers(0, n)) for n in x.shape)
    limits = tuple(draw(st.integers(low, n + draw(st.sampled_from((0, 0, 0, 1)))))
                   for low, n in zip(starts, x.shape, strict=True))  # fmt: skip
    strides = draw(st.one_of(st.none(), st.tuples(*[st.integers(1, 3)] * len(x.shape))))
    return [x, starts, limits, strides], {}


@st.composite
def updates(draw):
    x = draw(arrays(positive))
    shape = [draw(st.integers(0, n + (not draw(st.integers(0, 7))))) for n in x.shape]
    if not draw(st.integers(0, 9)):
        shape = shape[1:]
    return x, jax.ShapeDtypeStruct(tuple(shape), x.dtype, weak_type=x.weak_type)


@st.composite
def parts(draw):
    x, axis = draw(arrays(positive)), draw(axes)
    size = x.shape[axis] if -len(x.shape) <= axis < len(x.shape) else 3
    cut = sorted(draw(st.lists(st.integers(0, size), max_size=2)))
    sizes = [high - low for low, high in zip([0, *cut], [*cut, size], strict=True)]
    return [
        x,
        tuple(sizes if draw(st.booleans()) else [*sizes, draw(st.integers(0, 1))]),
        axis,
    ], {}


@st.composite
def gathers(draw):
    """A batch of slices: which dimensions they drop, keep, start in and share with the indices; some are wrong."""
    x = draw(arrays(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)))
    rank = len(x.shape)
    groups = draw(
        st.lists(
            st.sampled_from(("kept", "kept", "dropped", "dropped", "shared")),
            min_size=rank,
            max_size=rank,
        )
    )
    dropped, shared = (
        [i for i, group in enumerate(groups) if group == kind]
        for kind in ("dropped", "shared")
    )
    free = [i for i in range(rank) if i not in shared]
    started = draw(st.permutations(free))[: draw(st.integers(0, len(free)))]
    batch = draw(st.lists(st.integers(0, 3), max_size=2))
    for i in shared:
        batch.insert(draw(st.integers(0, len(batch))), -i - 1)
    indices_shared = [batch.index(-i - 1) for i in shared]
    batch = [n if n >= 0 else x.shape[-n - 1] for n in batch]
    count = rank - len(dropped) - len(shared)
    kept = sorted(draw(st.permutations(range(count + len(batch))))[:count])
    indices = draw(
        arrays(st.just((*batch, len(started))), ("int32", "int32", "uint8", "float32"))
    )
    sizes = [
        1 if i in (*dropped, *shared) else draw(st.integers(0, n))
        for i, n in enumerate(x.shape)
    ]
    numbers = [kept, dropped, list(started), shared, indices_shared]
    if draw(st.integers(0, 2)) == 0:
        wrong = draw(st.sampled_from([*numbers, sizes]))
        position = draw(st.integers(0, len(wrong)))
        wrong[position : position + 1] = draw(st.lists(st.integers(-1, 4), max_size=2))
    numbers, sizes = [tuple(group) for group in numbers], tuple(sizes)
    return [
        x,
        indices,
        *numbers[
            : draw(st.sampled_from((3, 5))) if not (shared or indices_shared) else 5
        ],
    ], sizes


def gather(x, indices, sizes, *numbers):
    return jax.lax.gather(x, indices, jax.lax.GatherDimensionNumbers(*numbers), sizes)


def as_gather(values, named):
    x, indices, sizes, *numbers = values
    read = ops.apply("jax.lax.GatherDimensionNumbers", numbers, {}, ops.OpContext())
    return ops.apply("jax.lax.gather", [x, indices, read, sizes], {}, ops.OpContext())


def scattering(name):
    """Updates as a gather with the same numbers would give them."""

    def real(x, indices, updates, *numbers):
        return getattr(jax.lax, name)(
            x, indices, updates, jax.lax.ScatterDimensionNumbers(*numbers)
        )

    def run(values, named):
        x, indices, updates, *numbers = values
        read = ops.apply(
            "jax.lax.ScatterDimensionNumbers", numbers, {}, ops.OpContext()
        )
        return ops.apply(
            f"jax.lax.{name}", [x, indices, updates, read], {}, ops.OpContext()
        )

    return {"function": real, "run": run}


@st.composite
def scatters(draw):
    (x, indices, *numbers), sizes = draw(gathers())
    truth = in_jax(gather, [x, indices, sizes, *numbers], {})
    shape = truth.shape if isinstance(truth, jax.ShapeDtypeStruct) else x.shape
    if draw(st.integers(0, 4)) == 0:
        shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    return [
        x,
        indices,
        draw(arrays(st.just(shape), (x.dtype.name, x.dtype.name, "float32"))),
        *numbers,
    ], {}


SCATTERS = "scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max".split()

test_slicing = family(
    case(LAX, "gather", drawn=gathers().map(lambda d: ([*d[0][:2], d[1], *d[0][2:]], {})), function=gather,
         run=as_gather, times=5),
    *(case(LAX, name, drawn=scatters(), times=2, **scattering(name)) for name in SCATTERS),
    case(LAX, "slice", drawn=inside()),
    case(LAX, "slice", drawn=with_lists(near, near)),
    case(LAX, "slice_in_dim", arrays(positive), st.one_of(st.none(), near), st.one_of(st.none(), near),
         optional(st.integers(1, 2)), axis=axes),
    case(LAX, "dynamic_slice", drawn=with_lists(st.just(0), st.integers(0, 3))),
    case(LAX, "dynamic_slice_in_dim", arrays(positive), st.integers(0, 2), st.integers(0, 5), axes),
    case(LAX, "dynamic_index_in_dim", arrays(positive), st.just(0), axes, st.booleans()),
    case(LAX, "index_in_dim", arrays(positive), st.integers(-3, 3), axes, st.booleans()),
    case(LAX, "dynamic_update_slice", drawn=updates().map(lambda pair: ([*pair, (0,) * len(pair[0].shape)], {}))),
    case(LAX, "dynamic_update_slice_in_dim dynamic_update_index_in_dim",
         drawn=st.tuples(updates(), axes).map(lambda drawn: ([*drawn[0], 0, drawn[1]], {}))),
    case(LAX, "pad", drawn=with_lists(st.tuples(*[st.integers(-1, 2)] * 3), first=arrays(positive, ("float32",), False))
         .map(lambda pair: ([pair[0][0], 0.0, pair[0][1]], {}))),
    case(LAX, "split", drawn=parts()),
)  # fmt: skip


#: The dimensions kept, dropped, started in, shared, and those of the indices that share them, for an operand '3 4' and
#: indices '3 1'. The first row is right.
NUMBERS = {
    ((1,), (), (1,), (0,), (0,)): None,
    ((1,), (), (1,), (0,), ()): "differ in number",
    ((1,), (0,), (1,), (0,), (0,)): "are collapsed or indexed as well",
    ((0, 1), (), (1,), (0,), (0,)): "dimensions for shape '3 4'",
    ((1,), (0,), (0, 1), (), ()): "the last dimension of the indices",
}


@pytest.mark.parametrize("numbers", NUMBERS)
def test_numbers_of_gather_that_cannot_be(numbers):
    shapes = [
        jax.ShapeDtypeStruct((3, 4), "float32"),
        jax.ShapeDtypeStruct((3, 1), "int32"),
    ]
    truth = in_jax(gather, [*shapes, (1, 4), *numbers], {})
    if NUMBERS[numbers] is None:
        assert truth.shape == (3, 4)
        assert has_shape(
            as_gather([abstract(x) for x in (*shapes, (1, 4), *numbers)], {})
        )
        return
    assert isinstance(truth, Exception)
    with pytest.raises(ops.OpError, match=NUMBERS[numbers]):
        as_gather([abstract(x) for x in (*shapes, (1, 4), *numbers)], {})
