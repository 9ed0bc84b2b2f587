"""Names that are not called beside JAX, each with the reason."""

from __future__ import annotations

_COLLECTIVE = "needs devices: test_collectives.py runs it on four of them"
_PLACEMENT = "gives what it is given; its arguments are meshes or devices"
_INITIALIZER = "gives a function; tests/evaluation calls those that programs use"
_REMOVED = "no longer in JAX, or not yet in its oldest release that is tested"

_DEPRECATED = "warns; it is generalized_kl_divergence, which is compared"
_PLACED = """jax.lax.with_sharding_constraint jax.block_until_ready jax.device_get jax.device_put jax.reshard
jax.sharding.reshard jax.ad_checkpoint.checkpoint_name jax.lax.optimization_barrier""".split()

UNCOMPARED: dict[str, str] = {
    **{
        f"jax.lax.{name}": _COLLECTIVE
        for name in """all_gather all_to_all axis_index axis_size pcast pmax pmean pmin ppermute pshuffle psum
        psum_scatter pvary""".split()
    },
    **dict.fromkeys(_PLACED, _PLACEMENT),
    "jax.lax.conv_dimension_numbers": "gives no array; conv_general_dilated reads the same numbers",
    "jax.numpy.trim_zeros": "its size depends on numbers, so JAX cannot compile it",
    "optax.global_norm": "warns; it is optax.tree.norm, which is compared",
    "optax.convex_kl_divergence": _DEPRECATED,
    "optax.losses.convex_kl_divergence": _DEPRECATED,
    "jax.lax.eye": _REMOVED,
    "jax.lax.zeros_like_array": _REMOVED,
    "jax.numpy.row_stack": _REMOVED,
    "jax.numpy.fix": _REMOVED,
    **{
        f"jax.random.{name}": "a typed key is no array of numbers"
        for name in "key clone wrap_key_data".split()
    },
    **{
        f"jax.nn.initializers.{name}": _INITIALIZER
        for name in """constant delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform kaiming_normal
        kaiming_uniform lecun_normal lecun_uniform normal orthogonal truncated_normal uniform variance_scaling
        xavier_normal xavier_uniform""".split()
    },
}
