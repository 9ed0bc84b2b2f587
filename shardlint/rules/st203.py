from __future__ import annotations

from shardlint.rules.base import Rule


class AssignmentMismatch(Rule):
    """
    ## What it does

    Reports a value that does not fit the annotation of the local variable or field it is assigned to.

    ## Why is this bad

    The annotation is what the reader, and every later check, relies on.

    ## Example

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M']) -> f32['B M']:
        mean: f32['B M'] = x.mean(axis=-1)
        return mean
    ```

    ## Use instead

    ```python
    import jax.numpy as jnp
    from shardtypes import f32

    def f(x: f32['B L M']) -> f32['B M']:
        mean: f32['B M'] = x.mean(axis=1)
        return mean
    ```

    ## How to fix

    Correct the value or the annotation. A variable that gets another shape may be annotated anew.

    ## When to silence

    Where the annotation is only for readers, and means something looser than it says.

    ## Related rules

    ST201, ST202, ST212.
    """

    code = "ST203"
    name = "assignment-mismatch"
