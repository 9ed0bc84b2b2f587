from __future__ import annotations

from shardlint.rules.base import Rule


class RefusedSharding(Rule):
    """
    ## What it does

    Reports what JAX refuses because of how arrays are split, where it keeps track of that itself: on a mesh with
    explicit axes. A reshape that it cannot follow, a `cumsum`, `sort` or lookup along a split dimension, a slice that
    leaves no even shards, a constraint that does not say how the value is split, a loop over a split dimension, a
    carry or a branch that comes back split otherwise, mapped dimensions that are split differently. On a mesh with
    automatic axes it is the reverse: `reshard` and `out_sharding=` may not name one.

    It speaks where the mesh and its axis types are known: made with `axis_types=` and put in force by `jax.set_mesh`.

    ## Why is this bad

    The program raises when it is traced, which for large ones is late. `reshard` the operand before, or say with
    `out_sharding=` how the result is to lie. With automatic axes use `with_sharding_constraint`.

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
    """

    code = "ST313"
    name = "refused-sharding"
