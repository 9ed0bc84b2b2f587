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

    ## How to fix

    Call the elementwise function (`jnp.minimum`), or pass the axis as a number or a tuple.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST208, ST219.
    """

    code = "ST213"
    name = "axis-argument"
