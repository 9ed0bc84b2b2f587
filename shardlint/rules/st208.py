from __future__ import annotations

from shardlint.rules.base import Rule


class AxisOutOfRange(Rule):
    """
    ## What it does

    Reports an axis number that the array does not have.

    ## Why is this bad

    The program raises whenever it gets here.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B']:
        return jnp.sum(x, axis=2)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B']:
        return jnp.sum(x, axis=1)
    ```

    ## How to fix

    Use an axis of the shape in the message; negative ones count from the end.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST211, ST213, ST214.
    """

    code = "ST208"
    name = "axis-out-of-range"
