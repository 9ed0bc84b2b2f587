from __future__ import annotations

from shardlint.rules.base import Rule


class UnusedSuppression(Rule):
    """
    ## What it does

    Reports a `# shardlint: ignore[…]` comment that silences nothing, for each code in it.

    ## Why is this bad

    The comment says that something is wrong here when nothing is, and would hide the next mistake on that line.

    ## Example

    ```python
    from shardtypes import f32

    def double(x: f32['B M']) -> f32['B M']:
        return x + x  # shardlint: ignore[ST201] fixed long ago
    ```

    ## Use instead

    ```python
    from shardtypes import f32

    def double(x: f32['B M']) -> f32['B M']:
        return x + x
    ```

    ## How to fix

    Remove the comment, or its code: `--fix` does where it names one code.

    ## When to silence

    Where the finding shows on other settings or another release of JAX only; then `--ignore ST901` in that run.

    ## Related rules

    ST903.
    """

    code = "ST901"
    name = "unused-suppression"
