from __future__ import annotations

from shardlint.rules.base import Rule


class AxisArgument(Rule):
    """
    ## What it does

    Reports an argument passed as an axis that is not one.

    ## Why is this bad

    `jnp.min(a, b)` takes `b` for an axis: the elementwise minimum is `jnp.minimum`.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], y: f32['B M']) -> f32['B M']:
        return jnp.min(x, y)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], y: f32['B M']) -> f32['B M']:
        return jnp.minimum(x, y)
    ```
    """

    code = "ST213"
    name = "axis-argument"
