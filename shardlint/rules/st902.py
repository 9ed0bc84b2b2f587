from __future__ import annotations

from shardlint.rules.base import Rule


class UnparsableFile(Rule):
    """
    ## What it does

    Reports a file that is no Python, cannot be decoded or cannot be read.

    ## Why is this bad

    Nothing in it is checked. The other files are.

    ## Example

    ```python
    def f(x:
        return x
    ```

    ## Use instead

    ```python
    def f(x):
        return x
    ```
    """

    code = "ST902"
    name = "unparsable-file"
