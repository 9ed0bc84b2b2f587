from __future__ import annotations

from shardlint.rules.base import Rule


class CollectiveMismatch(Rule):
    """
    ## What it does

    Reports a collective that does nothing, or that cannot do what it says: an `all_gather` along a dimension that its
    axis does not shard; an operation by spec string whose operand is sharded differently from the spec, or whose two
    sides are the same; a `ppermute` whose pairs name a device twice, or one that is not there; a collective in a branch
    or a loop that only some devices reach, because the condition differs between them: a deadlock. Reports a value that
    leaves manual code and is off by the number of devices, because a `pmean` was applied to a partial sum, a `psum` to
    a per-device mean, or a bias was added to a partial sum. Where a factor on the way may make up for that, nothing is
    reported. Reports a result whose annotation has the dimension in order, where an `all_gather` over a major axis came
    before one over the minor axes: every so many rows are next to each other, as the columns of a matrix in blocks are.

    ## Why is this bad

    Shards are concatenated in the wrong order or along the wrong dimension. Shapes often still fit.

    ## Example

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B/d M/t']) -> f32['B/d']:
        whole = lax.all_gather(x, 't', axis=0, tiled=True)
        return jnp.sum(whole, axis=1)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B/d M/t']) -> f32['B/d']:
        whole = lax.all_gather(x, 't', axis=1, tiled=True)
        return jnp.sum(whole, axis=1)
    ```

    ## How to fix

    Name the axis along which the operand differs, reduce once, and let all devices reach each collective.

    ## When to silence

    Where other code makes up for the factor.

    ## Related rules

    ST301, ST303, ST305.
    """

    code = "ST304"
    name = "collective-mismatch"
