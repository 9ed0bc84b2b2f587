from __future__ import annotations

from shardlint.rules.base import Rule


class ArgumentMismatch(Rule):
    """
    ## What it does

    Reports an argument whose shape does not fit the parameter, or the field of a dataclass, for every size.

    ## Why is this bad

    The callee computes with the promise that its annotations make.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def scale(x: f32['B M'], gain: f32['M']) -> f32['B M']:
        return x * gain

    def run(x: f32['B M'], bias: f32['B']) -> f32['B M']:
        return scale(x, bias)
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def scale(x: f32['B M'], gain: f32['M']) -> f32['B M']:
        return x * gain

    def run(x: f32['B M'], gain: f32['M']) -> f32['B M']:
        return scale(x, gain)
    ```

    ## How to fix

    Pass the array that the parameter means, transpose or reshape it, or correct the callee's annotation.

    ## When to silence

    Where a test gives a wrong argument on purpose without `pytest.raises`.

    ## Related rules

    ST201, ST203, ST308.
    """

    code = "ST202"
    name = "argument-mismatch"
