from __future__ import annotations

from shardlint.rules.base import Rule


class PendingSumUsed(Rule):
    """
    ## What it does

    Reports a sum that is still spread over the devices and is used as if it were complete: given to a non-linear
    function, multiplied by another such sum, or returned from `shard_map`, `typed_shard_map` or `pmap`. A value that
    merely differs between devices is reported where it leaves as if it were the same on all of them.
    On explicit axes it speaks of sums that were asked for with `out_sharding=P(…, unreduced={…})`.

    ## Why is this bad

    A contraction over a dimension that is split over a mesh axis gives each device its own part of the sum. Linear
    functions may come before the `psum` or `psum_scatter` that completes it; after any other the result is wrong, with
    every mesh giving another number.

    ## Example

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B F/t'], w: f32['F/t M']) -> f32['B M']:
        return lax.psum(jnp.tanh(x @ w), 't')
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B F/t'], w: f32['F/t M']) -> f32['B M']:
        return jnp.tanh(lax.psum(x @ w, 't'))
    ```
    """

    code = "ST301"
    name = "pending-sum-used"
