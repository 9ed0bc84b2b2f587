from __future__ import annotations

from shardlint.rules.base import Rule


class SpecConflict(Rule):
    """
    ## What it does

    Reports a spec that places an array otherwise than its annotation says: the specs of `shard_map` and the shardings
    of `jit` against the parameters and results that they are for, and a placed value against the annotation of the
    variable, parameter or result that it becomes. It compares only where the annotations say how something is split.
    And an array, or one of a tree, that a program has placed against the `in_shardings` of the function that it calls
    with it, where nothing is traced: at the top of a script, and in what that calls.

    ## Why is this bad

    One of the two is wrong. Inside `shard_map` every device then works on another part of the array than the code
    says, and sums and norms are taken over the wrong parts; under `jit` the compiler moves the data around.

    ## Example

    ```python
    from functools import partial
    import jax
    from jax.sharding import PartitionSpec as P
    from shardtypes import f32

    @partial(jax.shard_map, in_specs=P(None, 'd'), out_specs=P('d'))
    def double(x: f32['B/d M']) -> f32['B/d M']:
        return x * 2
    ```

    ## Use instead

    ```python
    from functools import partial
    import jax
    from jax.sharding import PartitionSpec as P
    from shardtypes import f32

    @partial(jax.shard_map, in_specs=P('d'), out_specs=P('d'))
    def double(x: f32['B/d M']) -> f32['B/d M']:
        return x * 2
    ```

    ## How to fix

    Decide which of the two is meant, and correct the other; `make_partition_specs` makes specs from annotations.

    ## When to silence

    Where moving the data is meant, as when a state is laid out anew.

    ## Related rules

    ST306, ST307, ST317.
    """

    code = "ST308"
    name = "spec-conflict"
