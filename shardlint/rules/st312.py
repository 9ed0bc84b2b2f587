from __future__ import annotations

from shardlint.rules.base import Rule


class DroppedConstraint(Rule):
    """
    ## What it does

    Reports a `with_sharding_constraint` that splits a dimension into more parts than it has elements. It speaks only
    where the size and the mesh are known.

    ## Why is this bad

    Under `jit` JAX drops such a constraint from a result without a word, and inside the program some devices hold
    nothing but padding: the array is as large on every device as without the constraint, or larger. Outside `jit` JAX
    refuses.

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
    """

    code = "ST312"
    name = "dropped-constraint"
