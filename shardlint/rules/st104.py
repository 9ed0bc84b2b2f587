from __future__ import annotations

from shardlint.rules.base import Rule


class IndivisibleDim(Rule):
    """
    ## What it does

    Reports a number in an annotation that the sizes of its mesh axes do not divide: on the configured mesh, else on
    every mesh that the project makes, where all of them are written out. And an array of a size that they do not
    divide in `device_put`, `in_shardings`, `out_shardings`, the `in_specs` of `shard_map`, `jnp.zeros(…, device=…)`
    and its like, `make_array_from_callback`, and a `with_sharding_constraint` that no `jit` is around. Inside of
    compiled code XLA pads what a constraint splits unevenly; where that is its result, see ST312.

    ## Why is this bad

    JAX refuses to split the dimension. Pad it to a multiple of the number of devices, or leave it whole.

    ## Example

    ```python
    # mesh: d=2,t=4
    from shardtypes import f32

    def f(x: f32['batch 10/t']) -> None: ...
    ```

    ## Use instead

    ```python
    # mesh: d=2,t=4
    from shardtypes import f32

    def f(x: f32['batch 12/t']) -> None: ...
    ```

    ## How to fix

    Pad the size to the multiple that the message names, choose another axis, or leave the dimension whole.

    ## When to silence

    Where the file is for a mesh of other sizes than the settings have.

    ## Related rules

    ST312, ST306.
    """

    code = "ST104"
    name = "indivisible-dim"
