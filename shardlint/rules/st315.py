from __future__ import annotations

from typing import ClassVar

from shardlint.rules.base import Rule


class UndeclaredPendingSum(Rule):
    """
    ## What it does

    Reports a helper in manual code that returns a partial sum which its annotation does not declare.
    Off unless selected: `select = ["ST", "ST315"]`.

    ## Why is this bad

    The program may be right: the caller may reduce. But a reader of the signature cannot tell, and the next caller may
    not. `{U:t}` at the end of the shape declares it, and callers are checked against it.

    ## Example

    ```python
    from jax import lax
    from shardtypes import f32, typed_shard_map

    def project(x: f32['B/d F/t'], w: f32['F/t M']) -> f32['B/d M']:
        return x @ w

    @typed_shard_map
    def layer(x: f32['B/d F/t'], w: f32['F/t M']) -> f32['B/d M']:
        return lax.psum(project(x, w), 't')
    ```

    ## Use instead

    ```python
    from jax import lax
    from shardtypes import f32, typed_shard_map

    def project(x: f32['B/d F/t'], w: f32['F/t M']) -> f32['B/d M {U:t}']:
        return x @ w

    @typed_shard_map
    def layer(x: f32['B/d F/t'], w: f32['F/t M']) -> f32['B/d M']:
        return lax.psum(project(x, w), 't')
    ```

    ## How to fix

    Declare the sum in the annotation of the result, `{U:t}`, or reduce it in the helper.

    ## When to silence

    In a helper that is used in one place; the rule is off unless selected.

    ## Related rules

    ST301, ST302.
    """

    code = "ST315"
    name = "undeclared-pending-sum"
    default: ClassVar[bool] = False
