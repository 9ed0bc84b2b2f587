from __future__ import annotations

from shardlint.rules.base import Rule


class OperandSharding(Rule):
    """
    ## What it does

    Reports operands of an elementwise function, or arrays that are joined, which split one dimension over different
    mesh axes inside `shard_map`.

    ## Why is this bad

    Each device combines parts that do not belong together. Where the axes have equally many devices, shapes fit and
    nothing raises.

    ## Example

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B/d M'], y: f32['B/t M']) -> f32['B/d M']:
        return x + y
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from jax import lax
    from shardtypes import f32, typed_shard_map

    @typed_shard_map
    def f(x: f32['B/d M'], y: f32['B/d M']) -> f32['B/d M']:
        return x + y
    ```

    ## How to fix

    Shard both operands alike: gather one, exchange its shards with `all_to_all`, or change its spec.

    ## When to silence

    Where parts are meant to be combined crosswise, on a mesh of equal axes.

    ## Related rules

    ST310, ST311, ST313.
    """

    code = "ST309"
    name = "operand-sharding"
