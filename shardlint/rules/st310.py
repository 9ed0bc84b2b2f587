from __future__ import annotations

from shardlint.rules.base import Rule


class ContractionSharding(Rule):
    """
    ## What it does

    Reports a contraction inside `shard_map` whose operands shard the contracted dimension over different mesh axes.

    ## Why is this bad

    Each device multiplies shards that do not belong together, and no reduction gives the right sum.

    ## Example

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B F/t'], w: f32['F/d M']) -> f32['B M']:
        return lax.psum(x @ w, 't')
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B F/t'], w: f32['F/t M']) -> f32['B M']:
        return lax.psum(x @ w, 't')
    ```

    ## How to fix

    Shard the contracted dimension of both over one axis, or gather it in one of them.

    ## When to silence

    Where each device is meant to have a product of its own.

    ## Related rules

    ST309, ST301.
    """

    code = "ST310"
    name = "contraction-sharding"
