from __future__ import annotations

from shardlint.rules.base import Rule


class UnboundOutputDim(Rule):
    """
    ## What it does

    Reports a name that only the result has and that is one slip away from a name of the parameters.

    ## Why is this bad

    A misspelt name binds to whatever size is there: the promise is never checked.

    ## Example

    ```python
    from shardtypes import f32

    def f(x: f32['batch embed']) -> f32['batch embd']:
        return x * 2
    ```

    ## Use instead

    ```python
    from shardtypes import f32

    def f(x: f32['batch embed']) -> f32['batch embed']:
        return x * 2
    ```

    ## How to fix

    Write the name as the parameter does; of a size that is new, a name that is not so close says more.

    ## When to silence

    Where the result does have a size of its own with such a name, as a padded one.

    ## Related rules

    ST201, ST101.
    """

    code = "ST105"
    name = "unbound-output-dim"
