from __future__ import annotations

from shardlint.rules.base import Rule


class PendingSumUsed(Rule):
    """
    ## What it does

    Reports a partial sum (*unreduced*, in JAX's words) that is used as if it were complete: passed to a non-linear
    function, multiplied by another partial sum, or returned from `shard_map`, `typed_shard_map` or `pmap`. A value that
    merely varies between devices is reported where it is returned as replicated, and copies of parameters where they
    drift apart in `pmap` and the program takes one.
    On Explicit axes it covers sums that were asked for with `out_sharding=P(…, unreduced={…})`.

    ## Why is this bad

    A contraction over a sharded dimension gives each device a partial sum. Linear functions may come before the `psum`
    or `psum_scatter` that completes it; after any other the result is wrong, with another number on every mesh.

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

    ## How to fix

    Call the collective that the message names before the operation, or return the value as sharded. In a backward
    rule or a gradient, reduce the gradient.

    ## When to silence

    Where other code, which the linter does not see, completes the sum; a helper may declare it instead, `{U:t}`.

    ## Related rules

    ST302, ST303, ST315, ST316.
    """

    code = "ST301"
    name = "pending-sum-used"
