"""Functions of whole arrays: creation, shapes, reductions, products, positions."""

from __future__ import annotations

import numpy as np

from tests.semantics.call import Call, numbers, positions
from tests.semantics.calls.entries import each

A, B, CUBE = numbers((4, 6)), numbers((6, 4), seed=1), numbers((2, 3, 4), seed=2)
ROW, SQUARE = numbers((6,), seed=3), numbers((4, 4), seed=4)
BYTES = positions((4, 6), 100).astype(np.int8)
# the products of bytes are larger than a byte
IN_INT32 = {"preferred_element_type": np.int32, "smooth": False}

_CREATION = [
    *each("jax.numpy", "zeros ones empty", (2, 3)),
    *each("jax.numpy", "zeros_like ones_like empty_like", A),
    *each("jax.numpy", "full", (2, 3), 1.5),
    *each("jax.numpy", "full_like", A, 2),
    *each("jax.lax", "full", (2, 3), 1.5),
    *each("jax.lax", "full_like", A, 2),
    *each("jax.numpy", "arange", 2, 9, 2),
    *each("jax.numpy", "linspace", 0.0, 1.0, 5),
    *each("jax.numpy", "eye tri", 3, 4, 1),
    *each("jax.numpy", "eye", 3),
    *each("jax.lax", "iota", "int32", 5),
    *each("jax.lax", "broadcasted_iota", "int32", (2, 3), 1),
    *each("jax.numpy", "identity", 3),
    *each("jax.numpy", "tril triu", A, 1),
    *each("jax.numpy", "meshgrid", ROW, numbers((3,))),
    *each("jax.nn.initializers", "zeros ones", np.zeros(2, np.uint32), (2, 3)),
]
_SHAPES = [
    *each("jax.numpy", "reshape", CUBE, (4, -1)),
    *each("jax.Array", "reshape", CUBE, 4, -1),
    *each("jax.Array", "__getitem__", CUBE, (0, slice(1, None), None)),
    *each("jax.lax", "reshape", CUBE, (4, 6)),
    *each("jax.lax", "collapse", CUBE, 1),
    *each("jax.numpy", "ravel transpose", CUBE),
    *each("jax.Array", "ravel flatten transpose", CUBE),
    *each("jax.numpy", "matrix_transpose flip fliplr flipud rot90", CUBE),
    *each("jax.numpy", "transpose permute_dims", CUBE, (2, 0, 1)),
    *each("jax.lax", "transpose", CUBE, (2, 0, 1)),
    *each("jax.lax", "rev", CUBE, (1,)),
    *each("jax.numpy", "swapaxes moveaxis rollaxis", CUBE, 2, 0),
    *each("jax.numpy", "roll", CUBE, 2, 1),
    *each("jax.numpy", "roll", CUBE, 5),
    *each("jax.numpy", "expand_dims", A, (0, 2)),
    *each("jax.lax", "expand_dims", A, (0,)),
    *each("jax.numpy", "squeeze", A[None]),
    *each("jax.lax", "squeeze", A[None], (0,)),
    *each("jax.numpy", "broadcast_to", ROW, (4, 6)),
    *each("jax.lax", "broadcast", ROW, (4,)),
    *each("jax.lax", "broadcast_in_dim", ROW, (6, 3), (0,)),
    *each("jax.numpy", "broadcast_arrays", A, ROW),
    *each("jax.numpy", "broadcast_shapes", (4, 1), (3,)),
    *each("jax.lax", "broadcast_shapes", (4, 1), (4, 3)),
    *each("jax.numpy", "atleast_1d atleast_2d", ROW),
    *each("jax.lax", "slice", A, (1, 2), (3, 6), (1, 2)),
    *each("jax.lax", "slice_in_dim", A, 1, 3),
    *each("jax.lax", "index_in_dim dynamic_index_in_dim", A, 2, 1),
    *each("jax.lax", "dynamic_slice", A, (1, 2), (2, 3)),
    *each("jax.lax", "dynamic_slice_in_dim", A, 3, 2),
    *each("jax.lax", "dynamic_update_slice", A, SQUARE, (0, 1)),
    *each("jax.lax", "dynamic_update_slice_in_dim", A, SQUARE, 1, 1),
    *each("jax.lax", "dynamic_update_index_in_dim", A, ROW, 1, 0),
    *each("jax.lax", "pad", A, 0.5, ((1, 2, 1), (-1, 0, 0))),
    *each("jax.numpy", "pad", A, ((1, 2), (0, 3))),
    *each("jax.numpy", "pad", A, ((1, 2), (0, 3)), mode="wrap"),
    *each("jax.numpy", "pad", A, ((1, 1), (0, 2)), mode="reflect"),
    *each("jax.numpy", "pad", A, ((1, 2), (0, 3)), mode="symmetric"),
    *each("jax.numpy", "pad", A, ((1, 2), (0, 3)), mode="edge"),
    *each("jax.numpy", "concatenate", [A, A * 2], 1),
    *each("jax.numpy", "concat", [A, A * 2], axis=1),
    *each("jax.lax", "concatenate", [A, A * 2], 1),
    *each("jax.numpy", "stack hstack vstack column_stack", [A, A * 2]),
    *each("jax.numpy", "append", A, A * 2, 0),
    *each("jax.numpy", "split array_split", A, 2, 1),
    *each("jax.numpy", "hsplit vsplit", A, 2),
    *each("jax.lax", "split", A, (1, 5), 1),
    *each("jax.numpy", "unstack", A),
    *each("jax.numpy", "repeat", A, 2, 1),
    *each("jax.numpy", "tile", A, (2, 1)),
]
_REDUCTIONS = [
    *each(
        "jax.numpy",
        "sum prod max amax min amin mean var std ptp nansum nanprod nanmax nanmin nanmean average",
        A,
        1,
    ),
    *each(
        "jax.numpy",
        "sum prod max mean count_nonzero any all argmax argmin cumsum cumprod argsort",
        A,
    ),
    *each("jax.numpy", "sum max mean", positions((3, 4), 5)),
    *each("jax.numpy", "nanargmax nanargmin", A, 0),
    *each("jax.numpy", "sort", A, 0),
    *each("jax.numpy", "sort argsort", A, descending=True),
    *each("jax.lax", "reduce_sum reduce_prod reduce_max reduce_min", A, (0,)),
    *each("jax.lax", "reduce_and reduce_or reduce_xor", positions((3, 4), 5), (0,)),
    *each("jax.lax", "cumsum cumprod", A, 1, True),
    *each("jax.lax", "cumlogsumexp cummax cummin", A, 1, smooth=False),
    *each("jax.lax", "argmax argmin", A, 1, "int32"),
    *each("jax.lax", "sort", A),
    *each("jax.lax", "top_k", A, 2),
    *each("jax.lax", "approx_max_k approx_min_k", A, 2, smooth=False),
    *each("jax.nn", "softmax log_softmax standardize logsumexp", A),
    *each("jax.scipy.special", "softmax log_softmax logsumexp", A, axis=1),
    *each("jax.numpy.linalg", "norm", A),
    *each("jax.numpy.linalg", "norm", A, 3, 1),
]
_PRODUCTS = [
    *each("jax.numpy", "matmul dot kron", A, B),
    *each("jax.numpy", "matmul dot", BYTES, BYTES.T, **IN_INT32),
    *each("jax.numpy", "inner vecdot", BYTES, BYTES, **IN_INT32),
    *each("jax.numpy", "vdot", BYTES, BYTES, **IN_INT32),
    *each("jax.numpy", "tensordot", BYTES, BYTES.T, 1, **IN_INT32),
    *each("jax.numpy", "einsum", "ij,kj->ik", BYTES, BYTES, **IN_INT32),
    *each("jax.lax", "dot", BYTES, BYTES.T, **IN_INT32),
    *each("jax.lax", "dot_general", BYTES, BYTES, (((1,), (1,)), ((), ())), **IN_INT32),
    *each("jax.lax", "dot", A, B),
    *each("jax.lax", "ragged_dot", A, numbers((3, 6, 5), seed=3), np.int32([1, 0, 2])),
    *each("jax.lax", "batch_matmul", CUBE, CUBE.transpose(0, 2, 1).copy()),
    *each("jax.numpy.linalg", "matmul", A, B),
    *each("jax.lax", "dot_general", A, B, (((1,), (0,)), ((), ()))),
    *each("jax.numpy", "einsum", "ij,jk->ki", A, B),
    *each("jax.numpy", "inner", A, ROW),
    *each("jax.numpy", "outer vdot vecdot", ROW, ROW * 2),
    *each("jax.numpy.linalg", "outer vecdot", ROW, ROW * 2),
    *each("jax.numpy", "tensordot", A, B, 1),
    *each("jax.numpy.linalg", "tensordot", A, B, axes=1),
    *each("jax.numpy", "trace diagonal", A, 1),
    *each("jax.numpy.linalg", "trace diagonal", A, offset=1),
    *each("jax.numpy.linalg", "trace diagonal", numbers((2, 3, 4))),
    *each("jax.numpy", "trace diagonal", numbers((2, 3, 4)), 0, 1, 2),
    *each(
        "jax.nn",
        "dot_product_attention",
        *(numbers((2, 3, 2, 4), seed=k) for k in range(3)),
    ),
    *each("einops", "rearrange", A, "a (b c) -> b a c", b=2),
    *each("einops", "reduce", A, "a b -> b", "sum"),
    *each("einops", "einsum", A, B, "a b, b c -> c a"),
    *each("einops", "repeat", A, "a b -> a r b", r=2),
    *each("einops", "pack", [A, A[0]], "* b"),
    *each("einops", "unpack", A, [(3,), ()], "* b"),
]
_POSITIONS = [
    *each("jax.numpy", "take", A, np.asarray([2, 0, 2]), 1),
    *each("jax.numpy", "take_along_axis", A, positions((4, 2), 6), 1),
    *each(
        "jax.numpy",
        "put_along_axis",
        A,
        np.asarray([[1], [0], [5], [2]]),
        3.0,
        1,
        inplace=False,
    ),
    *each("jax.numpy", "searchsorted", np.sort(ROW), A),
    *each("jax.numpy", "bincount", positions((7,), 4), length=4),
    *each("jax.ops", "segment_sum", A, np.asarray([0, 2, 1, 2]), 3),
]
_KEY = np.asarray([3, 7], np.uint32)
_RANDOM = [
    *(
        Call(f"jax.random.{name}", (_KEY, (3, 4)), random=True)
        for name in "uniform normal exponential gumbel bits split".split()
    ),
    Call("jax.random.PRNGKey", (3,)),
    Call("jax.random.key_data", (_KEY,)),
    Call("jax.random.fold_in", (_KEY, 4)),
    Call("jax.random.bernoulli", (_KEY, 0.5, (3,)), random=True),
    Call("jax.random.categorical", (_KEY, A), random=True),
    Call(
        "jax.random.categorical", (_KEY, A, -2), {"shape": (2, A.shape[1])}, random=True
    ),
    Call(
        "jax.random.categorical",
        (_KEY, A, -2, (2, A.shape[1])),
        {"replace": False},
        random=True,
    ),
    Call(
        "jax.random.uniform", (_KEY, (2, 3), float, 1.0, np.ones((2, 1))), random=True
    ),
    Call("jax.random.choice", (_KEY, 5, (3,)), random=True),
    Call("jax.random.permutation", (_KEY, A), random=True),
    Call("jax.random.randint", (_KEY, (3,), 0, 5), random=True),
    Call("jax.random.truncated_normal", (_KEY, -1.0, 1.0, (3,)), random=True),
]
_SAMPLES = [
    *(
        Call(f"jax.random.{name}", (_KEY, (3, 4)), random=True)
        for name in "cauchy laplace logistic maxwell".split()
    ),
    *(
        Call(f"jax.random.{name}", (_KEY, (3, 4)), random=True)
        for name in ("rademacher",)
    ),
    *(
        Call(f"jax.random.{name}", (_KEY, 2.5, (3, 4)), random=True, smooth=False)
        for name in "lognormal rayleigh pareto gamma loggamma poisson chisquare t wald generalized_normal".split()
    ),
    *(
        Call(f"jax.random.{name}", (_KEY, 2.5, 1.5, (3, 4)), random=True, smooth=False)
        for name in "weibull_min beta f double_sided_maxwell".split()
    ),
    Call("jax.random.binomial", (_KEY, 9.0, 0.5, (3, 4)), random=True, smooth=False),
    Call("jax.random.geometric", (_KEY, 0.5, (3, 4)), random=True, smooth=False),
    Call(
        "jax.random.triangular",
        (_KEY, 0.0, 1.0, 3.0, (3, 4)),
        random=True,
        smooth=False,
    ),
    Call("jax.random.dirichlet", (_KEY, np.ones(3), (4,)), random=True, smooth=False),
    Call(
        "jax.random.multivariate_normal",
        (_KEY, np.ones(4), SQUARE @ SQUARE.T),
        random=True,
        smooth=False,
    ),
    Call("jax.random.t", (_KEY, np.ones(3)), random=True, smooth=False),
    Call(
        "jax.random.weibull_min",
        (_KEY, 2.5, np.ones(3), (2, 1)),
        random=True,
        smooth=False,
    ),
    *(
        Call(
            "jax.random.double_sided_maxwell",
            (_KEY, 2.5, np.ones(3), shape),
            random=True,
            smooth=False,
        )
        for shape in ((), (2,))
    ),
    Call("jax.random.ball", (_KEY, 3, 2, (4,)), random=True),
    Call("jax.random.orthogonal", (_KEY, 3, (4,)), random=True),
    Call("jax.random.orthogonal", (_KEY, 3, (4,)), {"m": 5}, random=True),
    Call("jax.random.orthogonal", (_KEY, 3), {"m": 2}, random=True),
]
CALLS = [
    *_SAMPLES,
    *_CREATION,
    *_SHAPES,
    *_REDUCTIONS,
    *_PRODUCTS,
    *_POSITIONS,
    *_RANDOM,
]
