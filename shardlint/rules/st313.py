from __future__ import annotations

from shardlint.rules.base import Rule


class RefusedSharding(Rule):
    """
    ## What it does

    Reports what JAX refuses because of how arrays are sharded, where shardings are part of types: on a mesh with
    Explicit axes. A reshape whose sharding it cannot infer, a `cumsum`, `sort` or lookup along a sharded dimension, a
    slice that leaves no even shards, a constraint that is not the sharding of the value, `in_specs` of `shard_map` that
    are not that of the argument, a loop over a sharded dimension, a carry or a branch that returns another sharding,
    mapped dimensions that are sharded differently. On a mesh with Auto axes it is the reverse: `reshard` and
    `out_sharding=` may not name one.

    It reports only where the mesh and its axis types are known: made with `axis_types=` and put in force by
    `jax.set_mesh`.

    ## Why is this bad

    The program raises when it is traced, which for large ones is late. `reshard` the operand first, or pass
    `out_sharding=` for the result. With Auto axes use `with_sharding_constraint`.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    jax.set_mesh(mesh)

    @jax.jit
    def positions(mask: f32['batch/d length/t']) -> f32['batch/d length/t']:
        return jnp.cumsum(mask, axis=1)
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    jax.set_mesh(mesh)

    @jax.jit
    def positions(mask: f32['batch/d length/t']) -> f32['batch/d length/t']:
        whole = jax.sharding.reshard(mask, jax.P('d', None))
        return jax.sharding.reshard(jnp.cumsum(whole, axis=1), jax.P('d', 't'))
    ```

    ## How to fix

    `reshard` the operand before, or say `out_sharding=` for the result; with Auto axes use
    `with_sharding_constraint`.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST309, ST310, ST308.
    """

    code = "ST313"
    name = "refused-sharding"
