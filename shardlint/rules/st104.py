from __future__ import annotations

from shardlint.rules.base import Rule


class IndivisibleDim(Rule):
    """
    ## What it does

    Reports a number in an annotation that the sizes of its mesh axes do not divide: on the configured mesh, else on
    every mesh that the project makes, where all of them are written out.

    ## Why is this bad

    JAX refuses to split the dimension, or drops the sharding in silence.

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
    """

    code = "ST104"
    name = "indivisible-dim"
