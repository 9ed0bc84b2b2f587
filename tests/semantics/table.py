"""Every primitive beside the function of JAX that it stands for, with a strategy for its operands and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy
import numpy as np
from hypothesis import strategies as st
from jax import lax

from shardtypes.semantics.primitive import Primitive
from shardtypes.semantics.primitives import (
    contractions,
    elementwise,
    fft,
    linalg,
    reductions,
    special,
    structure,
)
from shardtypes.semantics.primitives.windows import windows

Drawn = tuple[list[np.ndarray], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """``smooth`` tells that a gradient is compared, too. Without ``compared`` only relations are held against numbers:
    the calls of its lowering compare the primitive with JAX, where one compilation serves many."""

    primitive: Primitive
    function: Callable[..., Any]
    drawn: st.SearchStrategy[Drawn]
    smooth: bool = True
    compared: bool = True


sides = st.integers(1, 4)


@st.composite
def numbers(
    draw: st.DrawFn, shape: tuple[int, ...], low: float = -2.0, high: float = 2.0
) -> np.ndarray:
    seed = draw(st.integers(0, 2**20))
    return np.random.default_rng(seed).uniform(low, high, shape)


def whole(
    shape: tuple[int, ...], low: int = 0, high: int = 6
) -> st.SearchStrategy[np.ndarray]:
    return st.integers(0, 2**20).map(
        lambda seed: np.random.default_rng(seed).integers(
            low, high, shape, dtype=np.int32
        )
    )


shapes = st.lists(st.sampled_from((2, 4, 6, 1, 3)), max_size=3).map(tuple)


@st.composite
def broadcast(draw: st.DrawFn, count: int, low: float, high: float) -> Drawn:
    full = draw(shapes)
    operands = []
    for _ in range(count):
        shape = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in full)
        operands.append(
            draw(
                numbers(
                    shape[
                        draw(st.integers(0, len(shape)))
                        if draw(st.integers(0, 3)) == 0
                        else 0 :
                    ],
                    low,
                    high,
                )
            )
        )
    return operands, {}


def of_entries(
    primitive: Primitive,
    function: Callable[..., Any],
    count: int = 1,
    low: float = -2.0,
    high: float = 2.0,
    smooth: bool = True,
    **params: Any,
) -> Row:
    drawn = broadcast(count, low, high).map(lambda pair: (pair[0], dict(params)))
    return Row(primitive, function, drawn, smooth)


e = elementwise
ELEMENTWISE = [
    of_entries(e.neg, lax.neg),
    of_entries(e.abs_, lax.abs),
    of_entries(e.sign, lax.sign),
    of_entries(e.sqrt, lax.sqrt, low=0.1),
    of_entries(e.rsqrt, lax.rsqrt, low=0.1),
    of_entries(e.cbrt, lax.cbrt, low=0.1),
    of_entries(e.square, lax.square),
    of_entries(e.floor, lax.floor),
    of_entries(e.ceil, lax.ceil),
    of_entries(e.exp, lax.exp),
    of_entries(e.exp2, lax.exp2),
    of_entries(e.expm1, lax.expm1),
    of_entries(e.log, lax.log, low=0.1),
    of_entries(e.log1p, lax.log1p, low=-0.5),
    of_entries(e.tanh, lax.tanh),
    of_entries(e.logistic, lax.logistic),
    of_entries(e.sin, lax.sin),
    of_entries(e.cos, lax.cos),
    of_entries(e.tan, lax.tan, low=-1, high=1),
    of_entries(e.asin, lax.asin, low=-0.9, high=0.9),
    of_entries(e.acos, lax.acos, low=-0.9, high=0.9),
    of_entries(e.atan, lax.atan),
    of_entries(e.sinh, lax.sinh),
    of_entries(e.cosh, lax.cosh),
    of_entries(e.asinh, lax.asinh),
    of_entries(e.acosh, lax.acosh, low=1.1, high=3),
    of_entries(e.atanh, lax.atanh, low=-0.9, high=0.9),
    of_entries(e.erf, lax.erf),
    of_entries(e.erfc, lax.erfc),
    of_entries(e.erf_inv, lax.erf_inv, low=-0.9, high=0.9),
    of_entries(e.lgamma, lax.lgamma, low=0.2, high=5),
    of_entries(e.digamma, lax.digamma, low=0.2, high=5),
    of_entries(e.bessel_i0e, lax.bessel_i0e),
    of_entries(e.bessel_i1e, lax.bessel_i1e, smooth=False),
    of_entries(e.is_finite, lax.is_finite, smooth=False),
    of_entries(e.integer_pow, lambda x, y: lax.integer_pow(x, y), y=3),
    of_entries(e.round_, lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)),
    of_entries(e.copy, lambda x: x),
    of_entries(e.special_trunc, jnp.trunc),
    of_entries(e.add, jnp.add, 2),
    of_entries(e.sub, jnp.subtract, 2),
    of_entries(e.mul, jnp.multiply, 2),
    of_entries(e.div, jnp.divide, 2, low=0.5),
    of_entries(e.max_, jnp.maximum, 2),
    of_entries(e.min_, jnp.minimum, 2),
    of_entries(e.pow_, jnp.power, 2, low=0.2),
    of_entries(e.atan2, jnp.arctan2, 2, low=0.2),
    of_entries(e.rem, jnp.fmod, 2, low=0.3),
    of_entries(e.eq, jnp.equal, 2, smooth=False),
    of_entries(e.ne, jnp.not_equal, 2, smooth=False),
    of_entries(e.lt, jnp.less, 2, smooth=False),
    of_entries(e.le, jnp.less_equal, 2, smooth=False),
    of_entries(e.gt, jnp.greater, 2, smooth=False),
    of_entries(e.ge, jnp.greater_equal, 2, smooth=False),
    of_entries(
        e.clamp,
        lambda low, x, high: jnp.minimum(jnp.maximum(x, low), high),
        3,
        smooth=False,
    ),
    of_entries(
        e.betainc,
        lambda a, b, x: lax.betainc(*jnp.broadcast_arrays(a, b, x)),
        3,
        low=0.2,
        high=0.9,
        smooth=False,
    ),
    of_entries(
        e.igamma,
        lambda a, x: lax.igamma(*jnp.broadcast_arrays(a, x)),
        2,
        low=0.2,
        high=4,
        smooth=False,
    ),
    of_entries(
        e.igammac,
        lambda a, x: lax.igammac(*jnp.broadcast_arrays(a, x)),
        2,
        low=0.2,
        high=4,
        smooth=False,
    ),
    of_entries(
        e.zeta,
        lambda x, q: lax.zeta(*jnp.broadcast_arrays(x, q)),
        2,
        low=1.5,
        high=4,
        smooth=False,
    ),
]


@st.composite
def one(
    draw: st.DrawFn,
    parameters: Callable[[st.DrawFn, tuple[int, ...]], dict[str, Any]],
    least: int = 0,
) -> Drawn:
    shape = draw(shapes.filter(lambda shape: len(shape) >= least))
    return [draw(numbers(shape))], parameters(draw, shape)


def some_axes(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    return {
        "axes": tuple(sorted(draw(st.sets(st.integers(0, len(shape) - 1)))))
        if shape
        else ()
    }


def cumulative(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    return {
        "axis": draw(st.integers(0, len(shape) - 1)),
        "reverse": draw(st.booleans()),
    }


def cumulated(name: str) -> Callable[..., Any]:
    function = getattr(lax, name)
    return lambda x, axis, reverse: function(x, axis, reverse)


def found_at(name: str) -> Callable[..., Any]:
    function = getattr(lax, name)
    return lambda x, axes, index_dtype: function(x, axes[0], np.int32)


REDUCTIONS = (
    [
        Row(
            getattr(reductions, f"reduce_{name}"),
            lambda x, axes, f=function: f(x, axis=axes),
            one(some_axes),
            True,
        )
        for name, function in (
            ("sum", jnp.sum),
            ("max", jnp.max),
            ("min", jnp.min),
            ("prod", jnp.prod),
        )
    ]
    + [
        Row(
            getattr(reductions, name),
            cumulated(name),
            one(cumulative, 1),
            name in ("cumsum", "cumprod"),
        )
        for name in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
    ]
    + [
        Row(
            getattr(reductions, name),
            found_at(name),
            one(
                lambda draw, shape: {
                    "axes": (draw(st.integers(0, len(shape) - 1)),),
                    "index_dtype": "int32",
                },
                1,
            ),
            False,
        )
        for name in ("argmax", "argmin")
    ]
)


@st.composite
def regrouped(draw: st.DrawFn) -> Drawn:
    factors = draw(st.lists(st.sampled_from((2, 3, 4)), min_size=1, max_size=4))

    def grouped() -> tuple[int, ...]:
        shape, k = [], 0
        while k < len(factors):
            step = draw(st.integers(1, 2))
            shape.append(int(np.prod(factors[k : k + step])))
            k += step
            if draw(st.integers(0, 5)) == 0:
                shape.append(1)
        return tuple(shape)

    return [draw(numbers(grouped()))], {"new_sizes": grouped()}


def permuted(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"permutation": tuple(draw(st.permutations(range(len(shape)))))}


def widened(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    full = list(shape)
    places = list(range(len(shape)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(full)))
        full.insert(at, draw(st.sampled_from((2, 3))))
        places = [place + (place >= at) for place in places]
    return {"shape": tuple(full), "broadcast_dimensions": tuple(places)}


def padded(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    edge = st.integers(0, 2)
    return {
        "padding_config": tuple(
            (draw(edge), draw(edge), draw(st.integers(0, 1))) for _ in shape
        )
    }


def cut(draw: st.DrawFn, shape: tuple[int, ...]) -> dict[str, Any]:
    starts = tuple(
        draw(st.integers(0, n - 1)) if draw(st.booleans()) else 0 for n in shape
    )
    limits = tuple(
        draw(st.integers(s + 1, n)) if draw(st.booleans()) else n
        for s, n in zip(starts, shape, strict=True)
    )
    strides = draw(st.one_of(st.none(), st.tuples(*[st.integers(1, 2) for _ in shape])))
    return {"start_indices": starts, "limit_indices": limits, "strides": strides}


@st.composite
def read_through(draw: st.DrawFn) -> Drawn:
    """Windows over one dimension, at least one of which fits."""
    shape = draw(shapes.filter(lambda shape: len(shape) >= 1))
    axis = draw(st.integers(0, len(shape) - 1))
    low, high = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    interior = draw(st.integers(0, 1))
    wide = low + high + shape[axis] + (shape[axis] - 1) * interior
    window = draw(st.integers(1, min(3, wide)))
    most = (wide - 1) // (window - 1) if window > 1 else 2
    dilation = draw(st.integers(1, min(2, most)))
    stride = draw(st.integers(1, 3))
    params = {
        "axis": axis,
        "window": window,
        "stride": stride,
        "dilation": dilation,
        "padding": (low, high, interior),
        "count": None,
    }
    return [draw(numbers(shape))], params


def windows_of(
    x: Any,
    axis: int,
    window: int,
    stride: int,
    dilation: int,
    padding: tuple[int, int, int],
    count: None,
) -> Any:
    config = [padding if k == axis else (0, 0, 0) for k in range(x.ndim)]
    wide = lax.pad(jnp.asarray(x), jnp.zeros((), x.dtype), config)
    last = wide.shape[axis] - (window - 1) * dilation
    places = jnp.arange(0, last, stride)[:, None] + jnp.arange(window) * dilation
    return jnp.take(wide, places, axis=axis)


@st.composite
def several(draw: st.DrawFn) -> Drawn:
    shape = draw(shapes.filter(lambda shape: len(shape) >= 1))
    dimension = draw(st.integers(0, len(shape) - 1))
    arrays = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = list(shape)
        sizes[dimension] = draw(st.sampled_from((1, 2, 4)))
        arrays.append(draw(numbers(tuple(sizes))))
    return arrays, {"dimension": dimension, "count": len(arrays)}


@st.composite
def with_fill(draw: st.DrawFn) -> Drawn:
    (x,), params = draw(one(padded))
    return [x, draw(numbers(()))], params


@st.composite
def selected(draw: st.DrawFn) -> Drawn:
    (which, a, b), _ = draw(broadcast(3, -2, 2))
    return [which > 0, a, b], {"cases": 2}


@st.composite
def placed(draw: st.DrawFn, update: bool) -> Drawn:
    shape = draw(shapes)
    sizes = tuple(draw(st.integers(1, n)) if draw(st.booleans()) else n for n in shape)
    starts = [np.asarray(draw(st.integers(-2, n)), np.int32) for n in shape]
    x = draw(numbers(shape))
    if update:
        return [x, draw(numbers(sizes)), *starts], {}
    return [x, *starts], {"slice_sizes": sizes}


def select(which: Any, a: Any, b: Any, cases: int) -> Any:
    return jnp.where(which, b, a)


s = structure
STRUCTURE = [
    Row(s.reshape, lambda x, new_sizes: lax.reshape(x, new_sizes), regrouped()),
    Row(
        s.transpose, lambda x, permutation: lax.transpose(x, permutation), one(permuted)
    ),
    Row(
        s.broadcast_in_dim,
        lambda x, shape, broadcast_dimensions: lax.broadcast_in_dim(
            x, shape, broadcast_dimensions
        ),
        one(widened),
    ),
    Row(
        s.rev,
        lambda x, dimensions: lax.rev(x, dimensions),
        one(some_axes).map(lambda p: (p[0], {"dimensions": p[1]["axes"]})),
    ),
    Row(
        s.expand_dims,
        lambda x, axes: lax.expand_dims(x, axes),
        one(lambda draw, shape: {"axes": (draw(st.integers(0, len(shape))),)}),
    ),
    Row(
        s.concatenate,
        lambda *xs, dimension, count: lax.concatenate(xs, dimension),
        several(),
    ),
    Row(s.pad, lambda x, v, padding_config: lax.pad(x, v, padding_config), with_fill()),
    Row(
        s.slice_,
        lambda x, start_indices, limit_indices, strides: lax.slice(
            x, start_indices, limit_indices, strides
        ),
        one(cut),
    ),
    Row(windows, windows_of, read_through()),
    Row(
        s.dynamic_slice,
        lambda x, *starts, slice_sizes: lax.dynamic_slice(x, starts, slice_sizes),
        placed(False),
    ),
    Row(
        s.dynamic_update_slice,
        lambda x, u, *starts: lax.dynamic_update_slice(x, u, starts),
        placed(True),
    ),
    Row(e.select_n, select, selected()),
    Row(
        reductions.sort,
        lambda x, dimension, num_keys, is_stable, count: (lax.sort(x, dimension),),
        one(
            lambda draw, shape: {
                "dimension": draw(st.integers(0, len(shape) - 1)),
                "num_keys": 1,
                "is_stable": True,
                "count": 1,
            },
            1,
        ),
    ),
]


@st.composite
def contracted(draw: st.DrawFn) -> Drawn:
    """Operands with some batch, free and contracted dimensions in any order."""
    side = st.sampled_from((2, 4, 3, 1))
    batch, common = (draw(st.lists(side, max_size=2)) for _ in range(2))
    operands, batches, sums = [], [], []
    for _ in range(2):
        free = draw(st.lists(side, max_size=2))
        labelled = [
            *((("b", i), n) for i, n in enumerate(batch)),
            *((("c", i), n) for i, n in enumerate(common)),
            *((("f", i), n) for i, n in enumerate(free)),
        ]
        order = draw(st.permutations(labelled))
        operands.append(draw(numbers(tuple(n for _, n in order))))
        place = {label: k for k, (label, _) in enumerate(order)}
        batches.append(tuple(place["b", i] for i in range(len(batch))))
        sums.append(tuple(place["c", i] for i in range(len(common))))
    return operands, {"dimension_numbers": (tuple(sums), tuple(batches))}


CONTRACTIONS = [
    Row(
        contractions.dot_general,
        lambda x, y, dimension_numbers: lax.dot_general(x, y, dimension_numbers),
        contracted(),
    ),
]


@st.composite
def matrices(draw: st.DrawFn, symmetric: bool = False, **params: Any) -> Drawn:
    """A stack of matrices that are far from singular, as sums over devices must be, too."""
    batch = draw(st.sampled_from(((), (2,))))
    size = draw(st.sampled_from((2, 4)))
    x = draw(numbers((*batch, size, size), -0.2, 0.2)) + np.eye(size)
    return [x @ np.swapaxes(x, -1, -2) if symmetric else x], dict(params)


@st.composite
def equations(draw: st.DrawFn) -> Drawn:
    (x,), _ = draw(matrices())
    return [x, draw(numbers((*x.shape[:-1], draw(st.sampled_from((1, 2))))))], {}


def with_sign(x: Any) -> Any:
    return tuple(jnp.linalg.slogdet(x))


_FULL: dict[str, Any] = {"full_matrices": False}
MATRICES = [
    Row(linalg.inverse, jnp.linalg.inv, matrices()),
    Row(linalg.solve, jnp.linalg.solve, equations()),
    Row(linalg.determinant, jnp.linalg.det, matrices()),
    Row(linalg.slogdet, with_sign, matrices(), smooth=False),
    Row(
        linalg.cholesky,
        lambda x, symmetrize: jnp.linalg.cholesky(x),
        matrices(True, symmetrize=True),
    ),
    Row(linalg.eigh, lambda x: tuple(jnp.linalg.eigh(x)), matrices(True), smooth=False),
    Row(
        linalg.qr,
        lambda x, mode: tuple(jnp.linalg.qr(x, mode)),
        matrices(mode="reduced"),
        smooth=False,
    ),
    Row(
        linalg.svd,
        lambda x, full_matrices: tuple(jnp.linalg.svd(x, False)),
        matrices(**_FULL),
        smooth=False,
    ),
    Row(
        linalg.lu,
        lambda x: tuple(jax.scipy.linalg.lu_factor(x)),
        matrices(),
        smooth=False,
    ),
]
SPECIAL = [
    replace(
        of_entries(primitive, getattr(jax.scipy.special, name), low=0.2, smooth=False),
        compared=False,
    )
    for primitive, name in (
        (special.log_ndtr, "log_ndtr"),
        (special.erfcx, "erfcx"),
        (special.spence, "spence"),
        (special.expi, "expi"),
        (special.dawsn, "dawsn"),
        (special.fresnel_sine, "fresnel"),
        (special.fresnel_cosine, "fresnel"),
        (special.sine_integral, "sici"),
        (special.cosine_integral, "sici"),
    )
]


@st.composite
def complex_numbers(draw: st.DrawFn) -> Drawn:
    shape = draw(st.sampled_from(((4,), (2, 4), (4, 6))))
    axes = (draw(st.integers(0, len(shape) - 1)),)
    return [draw(numbers(shape)) + 1j * draw(numbers(shape))], {
        "axes": axes,
        "inverse": draw(st.booleans()),
    }


def transformed(x: Any, axes: Any, inverse: bool) -> Any:
    return (jnp.fft.ifftn if inverse else jnp.fft.fftn)(x, axes=axes)


TRANSFORMS = [Row(fft.fft, transformed, complex_numbers(), smooth=False)]
ROWS = [
    *TRANSFORMS,
    *ELEMENTWISE,
    *REDUCTIONS,
    *STRUCTURE,
    *CONTRACTIONS,
    *MATRICES,
    *SPECIAL,
]
