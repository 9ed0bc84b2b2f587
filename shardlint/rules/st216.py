from __future__ import annotations

from shardlint.rules.base import Rule


class DiscardedUpdate(Rule):
    """
    ## What it does

    Reports `x.at[i].set(v)` as a statement.

    ## Why is this bad

    Arrays do not change in place: the update is computed and thrown away.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        x.at[0].set(0.0)
        return x
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        x = x.at[0].set(0.0)
        return x
    ```
    """

    code = "ST216"
    name = "discarded-update"
