from __future__ import annotations

from shardlint.rules.base import Rule


class LogicalContraction(Rule):
    """
    ## What it does

    Reports a contraction of a value's dimension with a dimension of a kernel that has another logical name, where the
    name of the value's dimension stands at another dimension of that kernel: the kernel's names, or its dimensions, are
    the wrong way round. The names of the value come from its annotation or from a constraint. Contractions are `@`,
    `matmul`, `dot`, `inner`, `matvec`, `tensordot`, `einsum` of any number of operands (einops' too),
    `lax.dot_general`, `lax.batch_matmul` and `lax.ragged_dot`.

    ## Why is this bad

    Nothing fails, and the numbers are right. But the kernel is sharded along the wrong dimension: where the contracted
    one is sharded, every device computes a partial sum and the results have to be summed over the mesh.

    ## Example

    ```python
    import flax.linen as nn
    from shardtypes import f32

    class Mlp(nn.Module):
        hidden: int

        @nn.compact
        def __call__(self, x: f32['batch embed']) -> f32['batch mlp']:
            init = nn.with_logical_partitioning(nn.initializers.ones, ('mlp', 'embed'))
            return x @ self.param('kernel', init, (x.shape[-1], self.hidden))
    ```

    ## Use instead

    ```python
    import flax.linen as nn
    from shardtypes import f32

    class Mlp(nn.Module):
        hidden: int

        @nn.compact
        def __call__(self, x: f32['batch embed']) -> f32['batch mlp']:
            init = nn.with_logical_partitioning(nn.initializers.ones, ('embed', 'mlp'))
            return x @ self.param('kernel', init, (x.shape[-1], self.hidden))
    ```

    ## How to fix

    Swap the kernel's names, or contract the other dimension.

    ## When to silence

    Where two dimensions only happen to have these names.

    ## Related rules

    ST205, ST401, ST404.
    """

    code = "ST403"
    name = "logical-contraction"
