from __future__ import annotations

from shardlint.rules.base import Rule


class UnenforcedAnnotation(Rule):
    """
    ## What it does

    Reports shape annotations that nothing checks when the program runs: a `typechecked` above a decorator that hides
    the signature from it, and array fields of a class that is passed to `jax.jit` but is not a pytree.

    ## Why is this bad

    The annotations look like checks and are none; a class that is not a pytree makes `jit` fail at the first call.

    ## Example

    ```python
    import jax
    from typeguard import typechecked
    from shardtypes import f32

    @typechecked
    @jax.jit
    def scale(x: f32['B M'], factor: f32['M']) -> f32['B M']:
        return x * factor
    ```

    ## Use instead

    ```python
    import jax
    from typeguard import typechecked
    from shardtypes import f32

    @jax.jit
    @typechecked
    def scale(x: f32['B M'], factor: f32['M']) -> f32['B M']:
        return x * factor
    ```

    ## How to fix

    Put `typechecked` below the other decorator, next to the function; make the class a `pytree_dataclass`, or
    register it.

    ## When to silence

    Where another tool checks the annotations, such as an import hook.

    ## Related rules

    ST101, ST202.
    """

    code = "ST106"
    name = "unenforced-annotation"
