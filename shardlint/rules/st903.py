from __future__ import annotations

from shardlint.rules.base import Rule


class UnknownCode(Rule):
    """
    ## What it does

    Reports a code that no rule has, in a suppression or in the configuration.

    ## Why is this bad

    The suppression does nothing; usually the code is misspelt.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        return x * 2  # shardlint: ignore[ST999] made up
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        return x * 2
    ```
    """

    code = "ST903"
    name = "unknown-code"
