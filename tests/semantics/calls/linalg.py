"""``jax.numpy.linalg`` and ``jax.scipy.linalg``."""

from __future__ import annotations

import numpy as np

from tests.semantics.call import numbers
from tests.semantics.calls.arrays import CUBE, ROW, SQUARE, A, B
from tests.semantics.calls.entries import X, Y, each

_L, _S = "jax.numpy.linalg", "jax.scipy.linalg"
POSITIVE = SQUARE @ SQUARE.T + np.eye(4)
STACK = numbers((2, 3, 3), seed=5) + 2 * np.eye(3)
TALL = numbers((5, 3), seed=6)

CALLS = [
    *each(_L, "norm", CUBE),
    *each(_L, "norm", A, "nuc"),
    *each(_L, "norm", A, 1),
    *each(_L, "norm", A, np.inf, axis=1, keepdims=True),
    *each(_L, "norm", A, 2),
    *each(_L, "vector_norm matrix_norm", A),
    *each(_L, "cond", POSITIVE),
    *each(_L, "cond", SQUARE, 1),
    *each(_L, "multi_dot", [A, B, SQUARE]),
    *each(_L, "matrix_power", SQUARE, 3),
    *each(_L, "matrix_power", STACK, -2),
    *each(_L, "matrix_transpose", CUBE),
    *each("jax.numpy", "matvec", A, ROW),
    *each("jax.numpy", "vecmat", Y, A),
    *each(_L, "inv det slogdet", STACK),
    *each(_S, "inv det", SQUARE),
    *each(_L, "solve", STACK, numbers((2, 3, 2))),
    *each(_L, "solve", SQUARE, Y),
    *each(_S, "solve", SQUARE, Y),
    *each(_S, "solve", POSITIVE, Y, assume_a="pos", smooth=False),
    *each(_S, "solve_triangular", SQUARE, Y, lower=True),
    *each(_S, "solve_triangular", SQUARE, A, 1, unit_diagonal=True),
    *each(_S, "cho_solve", (np.linalg.cholesky(POSITIVE), True), Y),
    *each(_L, "cholesky", POSITIVE),
    *each(_S, "cholesky", POSITIVE),
    *each(_S, "cho_factor", POSITIVE),
    *each(_L, "tensorinv", numbers((4, 2, 2), seed=4), 1),
    *each(_L, "tensorsolve", numbers((4, 2, 2), seed=4), Y),
    *each(_L, "pinv matrix_rank", TALL, smooth=False),
    *each(_L, "lstsq", TALL, numbers(5), smooth=False),
    *each(_L, "qr svd", TALL, smooth=False),
    *each(_L, "svd", TALL, False, smooth=False),
    *each(_S, "qr svd", TALL, smooth=False),
    *each(_L, "svdvals", TALL),
    *each(_L, "eigh", POSITIVE, smooth=False),
    *each(_S, "eigh", POSITIVE, smooth=False),
    *each(_L, "eigvalsh", POSITIVE),
    *each(_L, "eig eigvals", SQUARE, smooth=False),
    *each(_S, "lu_factor", SQUARE, smooth=False),
    *each(
        _S, "lu_solve", (SQUARE, np.asarray([2, 1, 3, 3], np.int32)), Y, smooth=False
    ),
    *each(_S, "polar", TALL, smooth=False),
    *each(_S, "expm", SQUARE),
    *each(_S, "block_diag", X, SQUARE),
    *each(_S, "toeplitz hankel", Y, ROW),
    *each(_S, "circulant", ROW),
    *each(_S, "companion", ROW),
    *each(_S, "hilbert dft", 4),
    *each("jax.numpy", "polyfit", ROW, np.sin(ROW), 2, smooth=False),
    *each("jax.numpy", "poly", Y),
    *each("jax.numpy", "roots", ROW, strip_zeros=False, smooth=False),
]
