from __future__ import annotations

from shardlint.rules.base import Rule


class CollectiveMismatch(Rule):
    """
    ## What it does

    Reports a collective that does nothing, or that cannot do what it says: an `all_gather` along a dimension that its
    axis does not split, or over the major axis of a dimension before the minor one; an operation by spec string whose
    operand is split otherwise than the spec says, or whose two sides are the same; a `ppermute` whose pairs name a
    device twice, or one that is not there; a collective in a branch or a loop of which each device decides by its own
    part whether to run it, so that those that do wait for the others for ever. Reports a value that leaves manual code
    and is off by the number of devices, because a `pmean` took a sum that awaited its `psum`, a `psum` took an average
    that awaited its `pmean`, or a bias was added to each device's part of a sum. Where a factor was multiplied or
    divided by on the way, which may make up for that, nothing is said.

    ## Why is this bad

    The pieces are put together in the wrong order or along the wrong dimension. Shapes often still fit.

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
    """

    code = "ST304"
    name = "collective-mismatch"
