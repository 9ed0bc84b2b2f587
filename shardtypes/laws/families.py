"""Primitives of JAX by how their results lie to their operands, for all readings of a program."""

from __future__ import annotations

#: An element of the result comes of the elements at its place; scalars go with every place.
ELEMENTWISE = frozenset(
    """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz complex
    conj convert_element_type copy copy_p cos cosh device_put digamma div eq eq_to erf erf_inv erfc exp exp2
    expm1 floor ge gt igamma igamma_grad_a igammac imag integer_pow is_finite le le_to lgamma log log1p logistic
    lt lt_to max min mul name ne neg nextafter not optimization_barrier or polygamma population_count pow pvary
    pcast random_gamma_grad random_seed real reduce_precision regularized_incomplete_beta rem round rsqrt
    select_n shard_alike sharding_constraint shift_left shift_right_arithmetic shift_right_logical sign sin sinh
    sqrt square stop_gradient sub tan tanh threefry2x32 xor zeta reshard mesh_cast
    """.split()
)

#: Elements are only put elsewhere: the same primitive can be asked where those of another array go.
MOVES = frozenset(
    """
    broadcast_in_dim concatenate expand_dims pad reshape rev slice split squeeze transpose
    """.split()
)

#: Along ``axes``.
REDUCTIONS = frozenset(
    """
    argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum reduce_xor
    """.split()
)

#: Along ``axis``, from one end (``reverse``).
CUMULATIVE = frozenset("cumlogsumexp cummax cummin cumprod cumsum".split())

#: Programs that are run once, in place: the parameter that holds each.
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}

#: What makes one value of those of all devices along axes.
SUMS_OVER_DEVICES = frozenset("psum psum2 psum_invariant pmax pmin".split())

#: What puts values of devices elsewhere, or sums them there.
EXCHANGES = frozenset(
    """
    all_gather all_gather_invariant all_gather_reduced all_to_all pbroadcast ppermute reduce_scatter
    """.split()
)
