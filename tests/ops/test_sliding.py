"""Convolutions and windowed reductions against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import arrays
from tests.ops.tables import case, family

LAX = "jax.lax"
PADDINGS = ("SAME", "VALID", "same", "pairs", "pairs")
FLOATS = ("float32", "float32", "float32", "bfloat16")


def padding(draw, count):
    chosen = draw(st.sampled_from(PADDINGS))
    if chosen != "pairs":
        return chosen
    count += draw(st.sampled_from((0, 0, 0, 0, 0, 0, 0, 1)))
    return [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(count)]


def permuted(shape, order, letters):
    return tuple(shape[order.index(letter)] for letter in letters)


@st.composite
def convolutions(draw, general=True):
    """Inputs and kernels that mostly go together."""
    count = draw(st.integers(0, 2))
    space = "HW"[:count]
    groups = draw(st.sampled_from((1, 1, 1, 2))) if general else 1
    inside, outside = draw(st.integers(1, 3)), draw(st.integers(1, 2)) * groups
    features = inside * groups + draw(st.sampled_from((0,) * 9 + (1,)))
    lhs = (draw(st.integers(1, 3)), features, *(draw(st.integers(1, 6)) for _ in space))
    rhs = (outside, inside, *(draw(st.integers(1, 3)) for _ in space))
    numbers = None
    if general and draw(st.booleans()):
        spec = [
            draw(st.permutations(letters + space)) for letters in ("NC", "OI", "NC")
        ]
        numbers = tuple("".join(letters) for letters in spec)
        lhs, rhs = (
            permuted(lhs, "NC" + space, numbers[0]),
            permuted(rhs, "OI" + space, numbers[1]),
        )
    make = (
        arrays(st.just(lhs), FLOATS, weak=False),
        arrays(st.just(rhs), ("float32",), weak=False),
    )
    args = [draw(make[0]), draw(make[1]), [draw(st.integers(1, 3)) for _ in space]]
    args.append(
        padding(draw, count) if general else draw(st.sampled_from(("SAME", "VALID")))
    )
    if not general:
        return args, {}
    kwargs = {"feature_group_count": groups, "dimension_numbers": numbers}
    for name in ("lhs_dilation", "rhs_dilation"):
        if not draw(st.integers(0, 2)):
            kwargs[name] = [draw(st.integers(1, 2)) for _ in space]
    if "lhs_dilation" in kwargs and isinstance(args[3], str):
        del kwargs["lhs_dilation"]
    return args, kwargs


@st.composite
def windows(draw):
    x = draw(
        arrays(
            st.lists(st.integers(1, 6), max_size=3).map(tuple), ("float32",), weak=False
        )
    )
    count = len(x.shape) + draw(st.sampled_from((0,) * 9 + (1,)))
    sizes = tuple(draw(st.integers(1, 3)) for _ in range(count))
    strides = draw(st.one_of(st.none(), st.tuples(*[st.integers(1, 3)] * count)))
    return [x, 0.0, jax.lax.add, sizes, strides, padding(draw, len(x.shape))], {}


@st.composite
def any_convolution(draw):
    lhs, rhs = (
        draw(arrays(dtypes=("float32",), weak=False)),
        draw(arrays(dtypes=("float32",), weak=False)),
    )
    return [
        lhs,
        rhs,
        (1,) * draw(st.integers(0, 2)),
        draw(st.sampled_from(("SAME", "VALID"))),
    ], {}


@st.composite
def transposed(draw):
    """Inputs and kernels in the default order, or in one that is said."""
    count = draw(st.integers(0, 2))
    space = "HW"[:count]
    lhs = (draw(st.integers(1, 2)), *(draw(st.integers(1, 4)) for _ in space), 3)
    rhs = (
        *(draw(st.integers(1, 4)) for _ in space),
        3 + draw(st.sampled_from((0,) * 9 + (1,))),
        2,
    )
    kwargs = {"transpose_kernel": draw(st.booleans())}
    if kwargs["transpose_kernel"]:
        rhs = (*rhs[:-2], rhs[-1], rhs[-2])
    if draw(st.booleans()):
        spec = [
            draw(st.permutations(letters))
            for letters in (f"N{space}C", f"{space}IO", f"N{space}C")
        ]
        kwargs["dimension_numbers"] = tuple("".join(letters) for letters in spec)
        lhs, rhs = (
            permuted(lhs, f"N{space}C", spec[0]),
            permuted(rhs, f"{space}IO", spec[1]),
        )
    make = (
        arrays(st.just(lhs), FLOATS, weak=False),
        arrays(st.just(rhs), ("float32",), weak=False),
    )
    if not draw(st.integers(0, 2)):
        kwargs["rhs_dilation"] = [draw(st.integers(1, 2)) for _ in space]
    return [
        draw(make[0]),
        draw(make[1]),
        [draw(st.integers(1, 3)) for _ in space],
        padding(draw, count),
    ], kwargs


@st.composite
def patched(draw):
    (lhs, _, *rest), kwargs = draw(convolutions())
    if "feature_group_count" in kwargs:
        del kwargs["feature_group_count"]
    return [lhs, tuple(draw(st.integers(1, 3)) for _ in rest[0]), *rest], kwargs


def window_sum(x, init, computation, *rest):
    return jax.lax.reduce_window(
        x, jnp.zeros((), x.dtype) if computation is None else init, jax.lax.add, *rest
    )


test_sliding = family(
    case(LAX, "conv_general_dilated", drawn=convolutions()),
    case(LAX, "conv_general_dilated", drawn=any_convolution()),
    case(LAX, "conv", drawn=convolutions(general=False)),
    case(LAX, "conv_with_general_padding",
         drawn=convolutions(general=False).map(lambda d: ([*d[0], None, None], {}))),
    case(LAX, "conv_transpose", drawn=transposed(), times=3),
    case(LAX, "conv_general_dilated_patches", drawn=patched()),
    case(LAX, "reduce_window", drawn=windows().map(lambda d: ([*d[0][:2], None, *d[0][3:]], {})), function=window_sum),
)  # fmt: skip
