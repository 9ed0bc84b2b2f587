from __future__ import annotations

from shardlint.rules.base import Rule


class RearrangeMismatch(Rule):
    """
    ## What it does

    Reports einops patterns that do not fit the array, or that are no patterns.

    ## Why is this bad

    einops raises when the line runs; where the sizes happen to agree, dimensions change places unseen.

    ## Example

    ```python
    from einops import rearrange
    from shardtypes import f32

    def f(x: f32['B H L D']):
        return rearrange(x, 'b l (h d) -> b l h d', h=4)
    ```

    ## Use instead

    ```python
    from einops import rearrange
    from shardtypes import f32

    def f(x: f32['B H L D']):
        return rearrange(x, 'b h l d -> b l h d')
    ```

    ## How to fix

    Write the pattern for the dimensions in the message; give the sizes of what is taken apart by name.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST205, ST206, ST207.
    """

    code = "ST215"
    name = "rearrange-mismatch"
