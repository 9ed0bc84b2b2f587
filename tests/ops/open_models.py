"""Models that may leave a shape open where JAX gives a result: it depends on values, or on the release of JAX, or on an
argument that the model does not read. Any other model has to say what every call of the quick sample gives."""

from __future__ import annotations

_OPEN = {
    "jax.Array": "view",
    "jax.flatten_util": "ravel_pytree",
    "jax.lax": "broadcast_in_dim broadcast_to_rank conv_transpose reduce_and reduce_window",
    "jax.nn": "dot_product_attention",
    "jax.numpy": """
        apply_along_axis apply_over_axes argwhere average choose compress corrcoef cov cross cumulative_prod
        cumulative_sum delete diag ediff1d extract fill_diagonal gradient histogram histogram_bin_edges insert
        intersect1d lexsort logspace median meshgrid nanmedian nanpercentile nanquantile pad percentile piecewise
        polyval quantile ravel_multi_index repeat setdiff1d trim_zeros union1d
    """,
    "jax.numpy.fft": "fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn",
    "jax.numpy.linalg": "cholesky eigh eigvalsh lstsq matrix_rank solve tensorinv tensorsolve",
    "jax.ops": "segment_max segment_min segment_prod segment_sum",
    "jax.random": """
        PRNGKey bits cauchy dirichlet double_sided_maxwell exponential generalized_normal gumbel key_data laplace
        logistic maxwell multinomial normal uniform weibull_min wrap_key_data
    """,
    "jax.scipy.linalg": "cho_factor cho_solve eigh lu_solve solve solve_triangular toeplitz",
    "jax.tree": "flatten",
    "jax.tree_util": "tree_flatten",
    "numpy.random": "normal randint uniform",
    "numpy.random.Generator": """
        gumbel integers laplace logistic normal randint random standard_exponential standard_normal uniform
    """,
}
MAY_BE_OPEN = frozenset(
    f"{module}.{name}" for module, line in _OPEN.items() for name in line.split()
)
