from __future__ import annotations

from shardlint.rules.base import Rule


class CarryMismatch(Rule):
    """
    ## What it does

    Reports a loop carry that changes its shape from one step to the next, and branches of `cond` that disagree.

    ## Why is this bad

    JAX compiles a loop once: the carry must come back as it went in.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], ys: f32['T B M']):
        def step(carry, y):
            return carry.sum(axis=0) + y[0], None
        return jax.lax.scan(step, x, ys)
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], ys: f32['T B M']):
        def step(carry, y):
            return carry + y, None
        return jax.lax.scan(step, x, ys)
    ```

    ## How to fix

    Begin with an array of the shape and dtype that a step returns, or convert what it returns; let both branches
    return the same.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST209, ST212, ST313.
    """

    code = "ST210"
    name = "carry-mismatch"
