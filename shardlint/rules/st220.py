from __future__ import annotations

from shardlint.rules.base import Rule


class WrongArguments(Rule):
    """
    ## What it does

    Reports a call of a function of JAX with an argument too many, without one that it needs, or with a name that only
    another library has for it (`dim`, `keepdim`); and `static_argnums` or `donate_argnums` of `jax.jit` and
    `jax.checkpoint`, and of flax's, that are the position of no parameter. In compiled code also an array where a
    function needs a number: as a shape, a size, an axis or a bound of a slice. And trees that `jax.tree.map` cannot go
    through together, since a tuple, a dict or None in the first is something else in another.

    ## Why is this bad

    JAX raises `TypeError`, whatever the arrays are. NumPy's methods and PyTorch take some things that JAX's functions
    do not: `x.transpose(1, 0)` is right, `jnp.transpose(x, 1, 0)` is not.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['M B']:
        return jnp.transpose(x, 1, 0)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['M B']:
        return jnp.transpose(x, (1, 0))
    ```

    ## How to fix

    Several sizes or dimensions are one argument, a tuple. `axis` and `keepdims` are NumPy's names.

    ## When to silence

    Where a test wants the error and the linter does not see that.

    ## Related rules

    ST213, ST219.
    """

    code = "ST220"
    name = "wrong-arguments"
