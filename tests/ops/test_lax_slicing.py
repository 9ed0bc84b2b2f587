"""Slices, updates, padding and splits of ``jax.lax`` against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from shardlint import ops
from shardlint.values import Unknown
from tests.ops.oracle import in_jax
from tests.ops.strategies import arrays, axes, positive
from tests.ops.tables import case, family, optional

LAX = "jax.lax"
near = st.integers(-1, 5)


@st.composite
def with_lists(draw, *elements, first=None):
    """An array and, per strategy, a list with mostly one element a dimension."""
    x = draw(arrays(positive) if first is None else first)
    count = len(x.shape) if draw(st.integers(0, 9)) else draw(st.integers(0, 4))
    return [x, *(tuple(draw(element) for _ in range(count)) for element in elements)], {}


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
    return [x, tuple(sizes if draw(st.booleans()) else [*sizes, draw(st.integers(0, 1))]), axis], {}


@st.composite
def gathers(draw):
    """A batch of slices: which dimensions they collapse, keep, and start in."""
    x = draw(arrays(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)))
    rank = len(x.shape)
    collapsed = tuple(sorted(draw(st.sets(st.integers(0, rank - 1), max_size=rank))))
    started = tuple(draw(st.permutations(range(rank)))[: draw(st.integers(1, rank))])
    batch = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    kept = rank - len(collapsed)
    where = tuple(sorted(draw(st.permutations(range(kept + len(batch))))[:kept]))
    indices = jax.ShapeDtypeStruct((*batch, len(started) + draw(st.sampled_from((0,) * 9 + (1,)))), jnp.int32)
    sizes = tuple(1 if i in collapsed else draw(st.integers(0, n)) for i, n in enumerate(x.shape))
    return x, indices, sizes, where, collapsed, started


def gather(x, indices, where, collapsed, started, sizes):
    return jax.lax.gather(x, indices, jax.lax.GatherDimensionNumbers(where, collapsed, started), sizes)


def as_gather(values, named):
    x, indices, where, collapsed, started, sizes = values
    numbers = ops.apply("jax.lax.GatherDimensionNumbers", [where, collapsed, started], {}, ops.OpContext())
    return ops.apply("jax.lax.gather", [x, indices, numbers, sizes], {}, ops.OpContext())


def scattering(name):
    """Updates as a gather with the same numbers would give them."""

    def real(x, indices, updates, where, collapsed, started):
        numbers = jax.lax.ScatterDimensionNumbers(where, collapsed, started)
        return getattr(jax.lax, name)(x, indices, updates, numbers)

    def run(values, named):
        return ops.apply(f"jax.lax.{name}", [*values[:3], Unknown()], {}, ops.OpContext())

    return {"function": real, "run": run}


@st.composite
def scatters(draw):
    x, indices, sizes, where, collapsed, started = draw(gathers())
    truth = in_jax(gather, [x, indices, where, collapsed, started, sizes], {})
    shape = truth.shape if isinstance(truth, jax.ShapeDtypeStruct) else x.shape
    return [x, indices, draw(arrays(st.just(shape))), where, collapsed, started], {}


SCATTERS = "scatter scatter_add scatter_sub scatter_mul scatter_min scatter_max".split()

test_slicing = family(
    case(LAX, "gather", drawn=gathers().map(lambda d: ([*d[:2], *d[3:], d[2]], {})), function=gather, run=as_gather,
         times=3),
    *(case(LAX, name, drawn=scatters(), **scattering(name)) for name in SCATTERS),
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
