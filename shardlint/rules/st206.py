from __future__ import annotations

from shardlint.rules.base import Rule


class ReshapeMismatch(Rule):
    """
    ## What it does

    Reports a reshape that changes the number of elements.

    ## Why is this bad

    The program raises for most sizes; for the rest it mixes up elements.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M']) -> f32['B M']:
        B, L, M = x.shape
        return x.reshape(B, M)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M']) -> f32['B L*M']:
        B, L, M = x.shape
        return x.reshape(B, L * M)
    ```

    ## How to fix

    Compute the new size from the others, or write -1 for one of them.

    ## When to silence

    Where a size that the linter does not know makes up for it.

    ## Related rules

    ST207, ST215.
    """

    code = "ST206"
    name = "reshape-mismatch"
