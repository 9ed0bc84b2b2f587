from __future__ import annotations

from shardlint.rules.base import Rule


class DuplicateMeshAxis(Rule):
    """
    ## What it does

    Reports a mesh axis that one annotation uses twice.

    ## Why is this bad

    An axis splits an array once: no sharding lays two dimensions over the same devices, so every check fails.

    ## Example

    ```python
    from shardtypes import f32

    def f(x: f32['batch/d embed/d']) -> None: ...
    ```

    ## Use instead

    ```python
    from shardtypes import f32

    def f(x: f32['batch/d embed/t']) -> None: ...
    ```

    ## How to fix

    Keep the axis at the dimension that it splits. For two axes on one dimension write `'B/d/t'`.

    ## When to silence

    Never: no array is laid out so.

    ## Related rules

    ST103, ST306, ST402.
    """

    code = "ST102"
    name = "duplicate-mesh-axis"
