from __future__ import annotations

from shardlint.rules.base import Rule


class ReshapePermutes(Rule):
    """
    ## What it does

    Reports a reshape to the dimensions of its operand in another order.

    ## Why is this bad

    A reshape keeps the order of the elements: rows of one example end up in another. The sizes fit, so nothing fails,
    but the numbers are scrambled. A transpose was meant.

    ## Example

    ```python
    from shardtypes import f32

    def heads_first(x: f32['B L H D']) -> f32['B H L D']:
        b, l, h, d = x.shape
        return x.reshape(b, h, l, d)
    ```

    ## Use instead

    ```python
    from shardtypes import f32

    def heads_first(x: f32['B L H D']) -> f32['B H L D']:
        return x.transpose(0, 2, 1, 3)
    ```

    ## How to fix

    Transpose, or name the dimensions with `einops.rearrange`; reshape afterwards where they are to be joined.

    ## When to silence

    Where the elements are to be laid out anew, as to show them.

    ## Related rules

    ST206, ST215.
    """

    code = "ST207"
    name = "reshape-permutes"
