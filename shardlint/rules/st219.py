from __future__ import annotations

from shardlint.rules.base import Rule


class SequenceArgument(Rule):
    """
    ## What it does

    Reports a tuple or list given to a function of JAX that wants one array.

    ## Why is this bad

    NumPy makes an array of a sequence, JAX raises `TypeError`. Where the tuple is the result of `lax.scan` or of
    another function, the unpacking was forgotten.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['T B'], start: f32['B']) -> f32['B']:
        out = jax.lax.scan(lambda carry, row: (carry + row, carry), start, x)
        return jnp.tanh(out)
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['T B'], start: f32['B']) -> f32['B']:
        carry, _ = jax.lax.scan(lambda carry, row: (carry + row, carry), start, x)
        return jnp.tanh(carry)
    ```

    ## How to fix

    Unpack the tuple, or make it an array with `jnp.stack` or `jnp.array`.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST213, ST214.
    """

    code = "ST219"
    name = "sequence-argument"
