from __future__ import annotations

from shardlint.rules.base import Rule


class UnusedSuppression(Rule):
    """
    ## What it does

    Reports a suppression comment that silences nothing.

    ## Why is this bad

    It hides the next finding on that line, which nobody has judged.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        return x * 2  # shardlint: ignore[ST204] sizes agree
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        return x * 2
    ```
    """

    code = "ST901"
    name = "unused-suppression"
