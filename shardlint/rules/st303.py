from __future__ import annotations

from shardlint.rules.base import Rule


class ReplicatedReduction(Rule):
    """
    ## What it does

    Reports a `psum` or `psum_scatter` over an axis along which all devices hold the same value. One whose result is
    divided or multiplied afterwards is left alone, as is a sum of constants: that is how programs count devices.

    In programs that are run in numbers (see ST316), it warns of a `pmean`, `pmax` or `pmin` that changes nothing
    either, each time that it is reached: in the same mapped function an earlier reduction over the axis has made its
    operand the same on all devices. Not where the type of the operand varies over the axis, so that JAX asks for it.

    ## Why is this bad

    The sum of n equal values is n times the value: the result grows with the mesh. The mean of equal values is the
    value, but all devices wait until it is computed.

    ## Example

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B/d M']) -> f32['']:
        total = lax.psum(jnp.sum(x), 'd')
        return lax.psum(jnp.sqrt(total), 'd')
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B/d M']) -> f32['']:
        total = lax.psum(jnp.sum(x), 'd')
        return jnp.sqrt(total)
    ```

    ## How to fix

    Leave the reduction out, or divide where a mean was meant.

    ## When to silence

    Where the number of devices is meant, and divided out in code that the linter does not see.

    ## Related rules

    ST301, ST304.
    """

    code = "ST303"
    name = "replicated-reduction"
