from __future__ import annotations

from shardlint.rules.base import Rule


class JoinMismatch(Rule):
    """
    ## What it does

    Reports arrays that are concatenated, stacked or selected from though their shapes do not go together.

    ## Why is this bad

    The program raises as soon as the two sizes differ.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], y: f32['B N']) -> f32['2*B M']:
        return jnp.concatenate([x, y], axis=0)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M'], y: f32['B N']) -> f32['B M+N']:
        return jnp.concatenate([x, y], axis=1)
    ```

    ## How to fix

    Join along another axis, or give the arrays one shape first.

    ## When to silence

    Where the two names always have one size: better use one name for both.

    ## Related rules

    ST204, ST210.
    """

    code = "ST209"
    name = "join-mismatch"
