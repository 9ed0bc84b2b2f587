from __future__ import annotations

from shardlint.rules.base import Rule


class DtypeMismatch(Rule):
    """
    ## What it does

    Reports a value of another dtype than the annotation says, and dtypes that JAX will not combine. Functions of
    `jax.lax` take arrays of one dtype only, and no Python number that is of another: `lax.max(x, 0.0)` refuses a
    bfloat16 `x`.

    ## Why is this bad

    Precision, memory and speed are what the dtype decides; a silent promotion undoes the choice.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import bf16, f32

    def f(x: bf16['B M'], w: f32['M']) -> bf16['B M']:
        return x * w
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import bf16, f32

    def f(x: bf16['B M'], w: f32['M']) -> bf16['B M']:
        return x * w.astype(jnp.bfloat16)
    ```

    ## How to fix

    Convert with `.astype`, give constants the dtype of the array, or correct the annotation.

    ## When to silence

    Where promotion is wanted; the annotation may name a family instead, `floating['B M']`.

    ## Related rules

    ST201, ST210.
    """

    code = "ST212"
    name = "dtype-mismatch"
