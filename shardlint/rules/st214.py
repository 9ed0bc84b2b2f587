from __future__ import annotations

from shardlint.rules.base import Rule


class IndexingMismatch(Rule):
    """
    ## What it does

    Reports more indices than an array has dimensions, and unpacking into another number of names than there are values.

    ## Why is this bad

    The program raises whenever it gets here.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M']):
        B, M = x.shape
        return B * M
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M']):
        B, L, M = x.shape
        return B * M
    ```

    ## How to fix

    Index as many dimensions as there are, or unpack as many values.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST208, ST213.
    """

    code = "ST214"
    name = "indexing-mismatch"
