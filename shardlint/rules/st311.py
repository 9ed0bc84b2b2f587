from __future__ import annotations

from shardlint.rules.base import Rule


class ReplicatedArgument(Rule):
    """
    ## What it does

    Reports a replicated value where the code needs a sharded one: beside an operand that is sharded, as an argument
    that is declared sharded, or in a collective whose spec says that it is. Also a `one_hot` of the same indices on
    every device, contracted with a table whose rows are sharded.

    ## Why is this bad

    Local sizes do not fit, or the same data counts once for every device.

    ## Example

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B F/t'], w: f32['F/t M']) -> f32['B M']:
        whole = lax.all_gather(w, 't', axis=0, tiled=True)
        return lax.psum(x @ whole, 't')
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

    Take the part of the device, by `axis_index` times the local size, or shard the argument by its spec.

    ## When to silence

    Where all devices are meant to add the same.

    ## Related rules

    ST309, ST303.
    """

    code = "ST311"
    name = "replicated-argument"
