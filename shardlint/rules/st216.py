from __future__ import annotations

from shardlint.rules.base import Rule


class DiscardedUpdate(Rule):
    """
    ## What it does

    Reports `x.at[i].set(v)` as a statement, and an optimizer's `updates, new_state = tx.update(grads, state)` whose
    `new_state` is never used where the function returns `state`, or takes it again in the next round of a loop.

    ## Why is this bad

    Arrays and states do not change in place: the update is computed and thrown away. An optimizer whose state stays
    what it was trains with moments of one gradient and a bias correction for the first step, for ever.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        x.at[0].set(0.0)
        return x
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B M']) -> f32['B M']:
        x = x.at[0].set(0.0)
        return x
    ```

    ## How to fix

    Assign the new array, `x = x.at[i].set(v)`; return or carry the new state.

    ## When to silence

    Where the update is only timed or traced, and not wanted.

    ## Related rules

    ST317, ST901.
    """

    code = "ST216"
    name = "discarded-update"
