from __future__ import annotations

from shardlint.rules.base import Rule


class ReturnMismatch(Rule):
    """
    ## What it does

    Reports a returned value whose shape is not the annotated one for every size.

    ## Why is this bad

    The names in a function's parameters are independent sizes: a result that has `Klen` where `Qlen` was promised
    is wrong as soon as the two differ, and every caller computes with the promise.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def scores(q: f32['B Qlen D'], k: f32['B Klen D']) -> f32['B Qlen Klen']:
        return jnp.einsum('bkd,bqd->bkq', k, q)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def scores(q: f32['B Qlen D'], k: f32['B Klen D']) -> f32['B Qlen Klen']:
        return jnp.einsum('bqd,bkd->bqk', q, k)
    ```

    ## How to fix

    See for which sizes it fails, then correct the operation, or the annotation if that is what is wrong.

    ## When to silence

    Where the function is only called with sizes that agree; better give both one name.

    ## Related rules

    ST202, ST203, ST212.
    """

    code = "ST201"
    name = "return-mismatch"
