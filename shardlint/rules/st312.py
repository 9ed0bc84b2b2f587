from __future__ import annotations

from shardlint.rules.base import Rule


class DroppedConstraint(Rule):
    """
    ## What it does

    Reports a `with_sharding_constraint` that shards a dimension over more devices than it has elements, and one on a
    result of `jit` whose axes do not divide the dimension. It reports only where the size and the mesh are known.

    ## Why is this bad

    Under `jit` JAX silently drops such a constraint from a result, which is replicated. Inside of the
    program 17 rows over 8 devices are padded to 24, which is what was meant; but of a dimension smaller than its axes
    some devices hold nothing but padding. Outside `jit` JAX refuses (ST104). Pad the dimension, or leave it replicated.

    ## Example

    ```python
    import jax
    from shardtypes import f32

    mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    @jax.jit
    def scores(x: f32['1 length heads']) -> f32['1 length heads']:
        split = jax.sharding.NamedSharding(mesh, jax.P('d', None, 't'))
        return jax.lax.with_sharding_constraint(x, split)
    ```

    ## Use instead

    ```python
    import jax
    from shardtypes import f32

    mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    @jax.jit
    def scores(x: f32['1 length heads']) -> f32['1 length heads']:
        split = jax.sharding.NamedSharding(mesh, jax.P(None, 'd', 't'))
        return jax.lax.with_sharding_constraint(x, split)
    ```

    ## How to fix

    Pad the dimension to a multiple of the devices, shard another one, or leave it whole.

    ## When to silence

    Where the padding is meant, or the array may as well be whole on each device.

    ## Related rules

    ST104, ST306.
    """

    code = "ST312"
    name = "dropped-constraint"
