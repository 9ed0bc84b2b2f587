from __future__ import annotations

from shardlint.rules.base import Rule


class LogicalAxisClash(Rule):
    """
    ## What it does

    Reports a parameter two of whose dimensions ask for the same mesh axis, or for sets of axes that overlap, and have
    no other rule, and any array two of whose dimensions have one logical name, if the project has rules. Constraints on
    activations are left alone: that a batch dimension takes an axis first is what many lists of rules are made for.

    ## Why is this bad

    An axis splits one dimension of an array. In linen the name whose rule comes first gets it; the other dimension is
    not split, without a word. A variable of nnx asks for both, and JAX raises. One name for two dimensions is an
    error in flax as soon as rules are in force.

    ## Example

    ```python
    import flax.linen as nn

    RULES = (('embed', None), ('heads', 't'), ('mlp', 't'))

    with nn.logical_axis_rules(RULES):
        kernel = nn.with_logical_partitioning(nn.initializers.ones, ('heads', 'mlp'))
    ```

    ## Use instead

    ```python
    import flax.linen as nn

    RULES = (('embed', None), ('heads', 't'), ('mlp', 't'))

    with nn.logical_axis_rules(RULES):
        kernel = nn.with_logical_partitioning(nn.initializers.ones, ('heads', 'embed'))
    ```

    ## How to fix

    Give one of the two names another axis, or none.

    ## When to silence

    Where the second dimension is to stay whole, which a rule of its own would say.

    ## Related rules

    ST102, ST401.
    """

    code = "ST402"
    name = "logical-axis-clash"
