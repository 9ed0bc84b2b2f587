from __future__ import annotations

from shardlint.rules.base import Rule


class UnboundAxisName(Rule):
    """
    ## What it does

    Reports a collective over an axis that nothing around it binds: neither the mesh of `shard_map`, nor the `axis_name`
    of `pmap` or `vmap`; or over one that `shard_map(axis_names=…)` leaves to the compiler, and a spec that names such
    an axis. Reports `with_sharding_constraint` inside of `shard_map`, too, where it names an axis that is manual there.

    ## Why is this bad

    JAX raises when the function is traced.

    ## Example

    ```python
    import jax
    from jax import lax
    from shardtypes import f32

    def step(x: f32['M']) -> f32['M']:
        return lax.pmean(x, 'devices')

    train = jax.pmap(step, axis_name='d')
    ```

    ## Use instead

    ```python
    import jax
    from jax import lax
    from shardtypes import f32

    def step(x: f32['M']) -> f32['M']:
        return lax.pmean(x, 'd')

    train = jax.pmap(step, axis_name='d')
    ```

    ## How to fix

    Name an axis of the mesh in force, or map over it; inside `shard_map` leave manual axes out of constraints.

    ## When to silence

    Where a caller that the linter does not see binds the axis.

    ## Related rules

    ST103, ST304.
    """

    code = "ST305"
    name = "unbound-axis-name"
