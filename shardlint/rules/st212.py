from __future__ import annotations

from shardlint.rules.base import Rule


class DtypeMismatch(Rule):
    """
    ## What it does

    Reports a value of another dtype than the annotation says, and dtypes that JAX will not combine.

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
    """

    code = "ST212"
    name = "dtype-mismatch"
