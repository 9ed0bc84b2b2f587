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

    ## How to fix

    Correct the line that is named, or the encoding; leave out what is a template with `extend-exclude`.

    ## When to silence

    Comments cannot silence what cannot be read: exclude the file.

    ## Related rules

    ST903.
    """

    code = "ST902"
    name = "unparsable-file"
