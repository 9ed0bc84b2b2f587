from __future__ import annotations

from shardlint.rules.base import Rule


class CustomRule(Rule):
    """
    ## What it does

    Reports derivative rules that do not fit their function: a `custom_vjp` whose forward rule gives no pair, or another
    result than the function, or whose backward rule gives too few cotangents or one of another shape than its
    argument; a `custom_jvp` whose tangent has another shape than its result.

    ## Why is this bad

    JAX refuses the rule, but only where a derivative is first taken.

    ## Example

    ```python
    import jax
    from shardtypes import f32

    @jax.custom_vjp
    def dense(x: f32['B M'], w: f32['M F']) -> f32['B F']:
        return x @ w

    def forward(x, w):
        return x @ w, (x, w)

    def backward(residuals, g):
        x, w = residuals
        return g @ w.T, g.T @ x

    dense.defvjp(forward, backward)
    ```

    ## Use instead

    ```python
    import jax
    from shardtypes import f32

    @jax.custom_vjp
    def dense(x: f32['B M'], w: f32['M F']) -> f32['B F']:
        return x @ w

    def forward(x, w):
        return x @ w, (x, w)

    def backward(residuals, g):
        x, w = residuals
        return g @ w.T, x.T @ g

    dense.defvjp(forward, backward)
    ```

    ## How to fix

    Let the forward rule return `(result, residuals)`, and the backward rule one cotangent for each argument, of its
    shape.

    ## When to silence

    Where the rule is never differentiated.

    ## Related rules

    ST217, ST316.
    """

    code = "ST218"
    name = "custom-rule"
