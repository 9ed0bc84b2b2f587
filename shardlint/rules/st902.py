from __future__ import annotations

from shardlint.rules.base import Rule


class UnparsableFile(Rule):
    """
    ## What it does

    Reports a file that is not valid Python or cannot be decoded. The other files are still checked.

    ## Why is this bad

    Nothing in such a file is checked, and what imports it is checked without knowing it.

    ## Example

    ```python
    def double(x:
        return x + x
    ```

    ## Use instead

    ```python
    def double(x):
        return x + x
    ```
    """

    code = "ST902"
    name = "unparsable-file"
