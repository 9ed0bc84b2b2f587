"""``jnp.linalg`` and ``jax.scipy.linalg`` against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

from tests.ops.strategies import arrays, axes, axis_or_axes, shapes
from tests.ops.tables import case, family, optional

NP, SP = "jax.numpy.linalg", "jax.scipy.linalg"
DTYPES = ("float32", "float32", "float32", "complex64", "int32", "bool", "bfloat16")


@st.composite
def square_shapes(draw, batch=2):
    n = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(0, batch)))]
    return (*shape, n, n + draw(st.sampled_from((0,) * 9 + (1,))))


matrices = st.one_of(
    arrays(square_shapes(), DTYPES),
    arrays(square_shapes(), DTYPES),
    arrays(shapes, DTYPES),
)
plain = arrays(square_shapes(0), ("float32",), weak=False)
rectangles = arrays(
    st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple), DTYPES
)


@st.composite
def systems(draw):
    """Matrices and right sides that mostly fit."""
    shape = draw(square_shapes(1))
    rows = shape[-2] + draw(st.sampled_from((0,) * 9 + (1,)))
    front = draw(st.sampled_from((shape[:-2], (2,), (3, 1))))
    right = draw(
        st.sampled_from(
            ((rows,), (rows, 2), (*front, rows, 3), (*front, rows), (3,), ())
        )
    )
    return [jax.ShapeDtypeStruct(s, jnp.float32) for s in (shape, right)], {}


@st.composite
def chains(draw):
    sizes = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(3, 5)))]
    shapes_ = [[a, b] for a, b in zip(sizes, sizes[1:], strict=False)]
    if draw(st.booleans()):
        shapes_[0] = shapes_[0][1:]
    if not draw(st.integers(0, 7)):
        shapes_[-1] = [2, 2]
    return [[jax.ShapeDtypeStruct(tuple(shape), jnp.float32) for shape in shapes_]], {}


factored = systems().filter(lambda d: len(d[0][0].shape) == 2)

test_linalg = family(
    case(NP, "inv det slogdet cholesky eigvalsh eigvals eigh eig pinv matrix_rank svdvals", matrices),
    case(NP, "matrix_power", matrices, st.integers(0, 3)),
    case(NP, "cond", matrices, optional(st.sampled_from((2, 1)))),
    case(NP, "qr", rectangles, optional(st.sampled_from(("reduced", "complete", "r")))),
    case(NP, "svd", rectangles, full_matrices=optional(st.booleans()), compute_uv=optional(st.booleans())),
    case(NP, "svdvals pinv", rectangles),
    case(NP, "solve", drawn=systems()),
    case(NP, "lstsq", drawn=systems()),
    case(NP, "norm", arrays(), axis=st.one_of(st.none(), axes), keepdims=st.booleans()),
    case(NP, "vector_norm", arrays(), axis=optional(axis_or_axes), keepdims=st.booleans()),
    case(NP, "matrix_norm", matrices, keepdims=st.booleans()),
    case(NP, "multi_dot", drawn=chains()),
    case(NP, "outer matmul vecdot tensordot", arrays(), arrays()),
    case(NP, "matrix_transpose", arrays()),
    case(NP, "tensorinv", plain),
    case(NP, "tensorsolve", plain, arrays(st.lists(st.integers(1, 3), max_size=2).map(tuple), ("float32",))),
    case(SP, "inv det cholesky expm cho_factor", matrices),
    case(SP, "lu lu_factor svd", rectangles),
    case(SP, "lu", rectangles, permute_l=st.just(True)),
    case(SP, "eigh", plain, eigvals_only=st.booleans()),
    case(SP, "solve solve_triangular", drawn=systems()),
    case(SP, "block_diag", arrays(), arrays(), arrays()),
    case(SP, "toeplitz", arrays(), optional(arrays())),
    case(SP, "qr", rectangles, mode=optional(st.sampled_from(("full", "economic", "r")))),
    case(SP, "cho_solve", drawn=factored.map(lambda d: ([(d[0][0], True), d[0][1]], {}))),
    case(SP, "lu_solve",
         drawn=factored.map(lambda d: ([(d[0][0], jax.ShapeDtypeStruct(d[0][0].shape[-1:], jnp.int32)), d[0][1]], {}))),
)  # fmt: skip
