from __future__ import annotations

from shardlint.rules.base import Rule


class SpecArity(Rule):
    """
    ## What it does

    Reports `in_specs`, `out_specs`, `in_shardings` and `out_shardings` that do not go with the function's parameters
    or results: another number of entries, a tuple where the result is one array, or two entries the wrong way round,
    where the ranks tell.

    ## Why is this bad

    JAX refuses a wrong number of entries with a message about pytree prefixes. Entries in the wrong order are accepted
    whenever the ranks allow it, and then split the wrong arrays.

    ## Example

    ```python
    from functools import partial
    import jax
    from jax.sharding import PartitionSpec as P
    from shardtypes import f32

    @partial(jax.shard_map, in_specs=(P('d'),), out_specs=P('d'))
    def scale(x: f32['B/d M'], factor: f32['']) -> f32['B/d M']:
        return x * factor
    ```

    ## Use instead

    ```python
    from functools import partial
    import jax
    from jax.sharding import PartitionSpec as P
    from shardtypes import f32

    @partial(jax.shard_map, in_specs=(P('d'), P()), out_specs=P('d'))
    def scale(x: f32['B/d M'], factor: f32['']) -> f32['B/d M']:
        return x * factor
    ```

    ## How to fix

    One entry for each parameter or result, in their order; a single result takes a spec that is no tuple.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST306, ST308, ST211.
    """

    code = "ST307"
    name = "spec-arity"
