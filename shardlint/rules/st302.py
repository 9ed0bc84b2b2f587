from __future__ import annotations

from shardlint.rules.base import Rule


class ShardedReduction(Rule):
    """
    ## What it does

    Reports what needs a whole dimension but is computed per shard, where nothing afterwards makes up for that: a
    softmax, a norm, a maximum or a cumulative sum along a sharded dimension, a `roll` or `flip` along one that is not
    the first, and a sum or mean over one that is used before it is reduced over the mesh. A `psum` does not make up for
    a softmax, a norm, a maximum or a `logsumexp` per shard.

    ## Why is this bad

    Inside `shard_map` a function sees one shard of a sharded dimension only. The softmax of a shard is not a shard of
    the softmax.

    ## Example

    ```python
    import jax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(logits: f32['B/d V/t']) -> f32['B/d V/t']:
        return jax.nn.softmax(logits, axis=-1)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(logits: f32['B/d V/t']) -> f32['B/d V/t']:
        peak = lax.pmax(jnp.max(logits, axis=-1, keepdims=True), 't')
        weights = jnp.exp(logits - peak)
        return weights / lax.psum(jnp.sum(weights, axis=-1, keepdims=True), 't')
    ```

    ## How to fix

    Reduce over the mesh as well: `lax.pmax` for the maximum and `lax.psum` for the sum, or gather the dimension
    first.

    ## When to silence

    Where the function is meant per shard, as local attention or a norm of groups is.

    ## Related rules

    ST301, ST316.
    """

    code = "ST302"
    name = "sharded-reduction"
