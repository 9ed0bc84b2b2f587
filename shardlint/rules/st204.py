from __future__ import annotations

from shardlint.rules.base import Rule


class OperatorMismatch(Rule):
    """
    ## What it does

    Reports operands of an operator that neither agree nor broadcast for some sizes: elementwise ones and `@`.

    ## Why is this bad

    The program raises, or broadcasts by accident when two sizes happen to agree.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], w: f32['F M']) -> f32['B F']:
        return x @ w
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], w: f32['F M']) -> f32['B F']:
        return x @ w.T
    ```

    ## How to fix

    Use `keepdims=True`, `[..., None]` or a transpose, whichever the message names.

    ## When to silence

    Where the two names always have one size: better use one name for both.

    ## Related rules

    ST205, ST209, ST201.
    """

    code = "ST204"
    name = "operator-mismatch"
