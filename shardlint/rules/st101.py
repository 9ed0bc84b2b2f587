from __future__ import annotations

from shardlint.rules.base import Rule


class InvalidShapeString(Rule):
    """
    ## What it does

    Reports text in an array annotation that is not a shape string, at the column where it stops making sense.

    ## Why is this bad

    The annotation checks nothing, and raises as soon as the module is imported or the function called.

    ## Example

    ```python
    from shardtypes import f32

    def f(x: f32['batch embed/']) -> None: ...
    ```

    ## Use instead

    ```python
    from shardtypes import f32

    def f(x: f32['batch embed/t']) -> None: ...
    ```

    ## How to fix

    Correct the text at the column that the finding shows: dimensions are separated by spaces, axes follow a `/`,
    arithmetic has no spaces.

    ## When to silence

    Where the text is for another tool and no shape at all.

    ## Related rules

    ST102, ST103, ST105.
    """

    code = "ST101"
    name = "invalid-shape-string"
