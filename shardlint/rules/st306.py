from __future__ import annotations

from shardlint.rules.base import Rule


class SpecRank(Rule):
    """
    ## What it does

    Reports a PartitionSpec with more entries than the array has dimensions: in `with_sharding_constraint`,
    `device_put`, `reshard`, the shardings of `jit` and the specs of `shard_map`. A spec with fewer entries is fine: the
    dimensions without one are not split.

    ## Why is this bad

    JAX refuses it, at trace time, with a message that names neither the spec's place nor the parameter.

    ## Example

    ```python
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from shardtypes import f32

    def place(bias: f32['F'], mesh: Mesh) -> f32['F']:
        return jax.device_put(bias, NamedSharding(mesh, P('d', 't')))
    ```

    ## Use instead

    ```python
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from shardtypes import f32

    def place(bias: f32['F'], mesh: Mesh) -> f32['F']:
        return jax.device_put(bias, NamedSharding(mesh, P('t')))
    ```

    ## How to fix

    Leave out the entries at the end that have no dimension, or give the array its missing dimension.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST307, ST308, ST404.
    """

    code = "ST306"
    name = "spec-rank"
