from __future__ import annotations

from shardlint.rules.base import Rule


class UnknownCode(Rule):
    """
    ## What it does

    Reports a code that no rule has, in a suppression comment or in the configuration, and a suppression comment that
    names no code.

    ## Why is this bad

    A mistyped code silences nothing, and a comment without a code would silence everything.

    ## Example

    ```python
    from shardtypes import f32

    def double(x: f32['B M']) -> f32['B M']:
        return x + x  # shardlint: ignore[ST1201] a slip of the finger
    ```

    ## Use instead

    ```python
    from shardtypes import f32

    def double(x: f32['B M']) -> f32['B M']:
        return x + x
    ```

    ## How to fix

    Write a code that `shardlint rules` lists; the message names the closest.

    ## When to silence

    Never: such a comment has no effect.

    ## Related rules

    ST901.
    """

    code = "ST903"
    name = "unknown-code"
