from __future__ import annotations

from shardlint.rules.base import Rule


class GradientOfArray(Rule):
    """
    ## What it does

    Reports `grad` and `value_and_grad` of a function whose result is not one number; and, in programs that are run in
    numbers (see ST316), a `pmax` or `pmin` of what a derivative is taken by.

    ## Why is this bad

    A gradient is only defined for a single number; a mean or a sum over the examples is missing, or `has_aux=True`. Of
    `pmax` and `pmin` JAX has no derivative, and asks for it even where `lax.stop_gradient` stops their result.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    def f(w: f32['M'], x: f32['B M']):
        def loss(w):
            return jnp.square(x @ w)
        return jax.grad(loss)(w)
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    def f(w: f32['M'], x: f32['B M']):
        def loss(w):
            return jnp.square(x @ w).mean()
        return jax.grad(loss)(w)
    ```

    ## How to fix

    Take the mean or the sum of the loss, give `has_aux=True` where it returns more, or use `jax.jacobian`. Apply
    `lax.stop_gradient` to the operand of `pmax`: `lax.pmax(lax.stop_gradient(x), 't')`.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST218, ST301.
    """

    code = "ST217"
    name = "gradient-of-array"
