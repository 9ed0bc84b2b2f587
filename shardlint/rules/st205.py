from __future__ import annotations

from shardlint.rules.base import Rule


class EinsumMismatch(Rule):
    """
    ## What it does

    Reports an einsum whose letters meet two different sizes, or whose operands have another rank than the spec.

    ## Why is this bad

    The program raises as soon as the two sizes differ.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M'], w: f32['F M']) -> f32['B L F']:
        return jnp.einsum('blm,mf->blf', x, w)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M'], w: f32['F M']) -> f32['B L F']:
        return jnp.einsum('blm,fm->blf', x, w)
    ```

    ## How to fix

    Compare the letters of the two operands with the shapes in the message: usually two are swapped.

    ## When to silence

    Where the two names always have one size: better use one name for both.

    ## Related rules

    ST204, ST215, ST403.
    """

    code = "ST205"
    name = "einsum-mismatch"
