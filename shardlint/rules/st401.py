from __future__ import annotations

from shardlint.rules.base import Rule


class UnknownLogicalAxis(Rule):
    """
    ## What it does

    Reports a logical name for which there is no rule. It reports only where the list of rules is known for certain:
    given with the call, put in force around it, named in the settings (`logical-rules`), or the only lists that the
    project puts in force anywhere.

    ## Why is this bad

    A dimension whose name no rule mentions is silently replicated: the array, often the largest of the model, is kept
    in full on every device.

    ## Example

    ```python
    import flax.linen as nn
    from shardtypes import f32

    RULES = (('batch', 'd'), ('embed', None), ('mlp', 't'))

    def hidden(x: f32['B M']) -> f32['B M']:
        with nn.logical_axis_rules(RULES):
            return nn.with_logical_constraint(x, ('batch', 'ffn'))
    ```

    ## Use instead

    ```python
    import flax.linen as nn
    from shardtypes import f32

    RULES = (('batch', 'd'), ('embed', None), ('mlp', 't'))

    def hidden(x: f32['B M']) -> f32['B M']:
        with nn.logical_axis_rules(RULES):
            return nn.with_logical_constraint(x, ('batch', 'mlp'))
    ```

    ## How to fix

    Correct the name, or add a rule for it; `None` as its axis says that it is to stay whole.

    ## When to silence

    Where the dimension is to be replicated, and the rules belong to others.

    ## Related rules

    ST402, ST403, ST404.
    """

    code = "ST401"
    name = "unknown-logical-axis"
