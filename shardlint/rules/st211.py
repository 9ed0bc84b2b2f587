from __future__ import annotations

from shardlint.rules.base import Rule


class MappedAxes(Rule):
    """
    ## What it does

    Reports `in_axes` and `out_axes` of `vmap` and `pmap` that do not fit the arguments or the result: one entry too
    many or too few, an axis that an argument does not have, mapped dimensions of different sizes.

    ## Why is this bad

    JAX refuses the call, or, where the sizes happen to agree, maps over another dimension than was meant.

    ## Example

    ```python
    import jax
    from shardtypes import f32

    def f(x: f32['B M'], w: f32['M F']):
        return jax.vmap(lambda row, kernel: row @ kernel)(x, w)
    ```

    ## Use instead

    ```python
    import jax
    from shardtypes import f32

    def f(x: f32['B M'], w: f32['M F']):
        return jax.vmap(lambda row, kernel: row @ kernel, in_axes=(0, None))(x, w)
    ```

    ## How to fix

    Give one entry for each argument, None where it is not mapped, and an axis that the argument has.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST208, ST307.
    """

    code = "ST211"
    name = "mapped-axes"
