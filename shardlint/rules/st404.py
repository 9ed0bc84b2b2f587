from __future__ import annotations

from shardlint.rules.base import Rule


class LogicalArity(Rule):
    """
    ## What it does

    Reports logical names whose number is not that of the array's dimensions: in a constraint, and in the names of a
    parameter against its shape. Fewer names may be meant for the leading dimensions; they are reported where one of
    them is what a later dimension is called.

    ## Why is this bad

    Too many names are refused when the program runs on a mesh, which the tests on one device never see. With too few
    every name after the missing one means another dimension than it says, and nothing tells.

    ## Example

    ```python
    import flax.linen as nn
    from shardtypes import f32

    def heads(x: f32['batch length heads width']) -> f32['batch length heads width']:
        return nn.with_logical_constraint(x, ('batch', 'heads', 'width'))
    ```

    ## Use instead

    ```python
    import flax.linen as nn
    from shardtypes import f32

    def heads(x: f32['batch length heads width']) -> f32['batch length heads width']:
        return nn.with_logical_constraint(x, ('batch', 'length', 'heads', 'width'))
    ```

    ## How to fix

    One name for each dimension; None for one that has none.

    ## When to silence

    Where fewer names are for the leading dimensions, and the others are to stay whole.

    ## Related rules

    ST306, ST403.
    """

    code = "ST404"
    name = "logical-arity"
