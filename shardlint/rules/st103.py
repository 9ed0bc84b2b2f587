from __future__ import annotations

from shardlint.rules.base import Rule


class UnknownMeshAxis(Rule):
    """
    ## What it does

    Reports a mesh axis that no mesh has: neither the configured one nor, for annotations, one that some code of the
    project makes or that `pmap` or `vmap` names. Without a configured mesh the meshes that the project makes count,
    where all of them are written out and the module names some of their axes: annotations or, where no mesh is in
    force, the spec of a constraint itself. `mesh.shape[…]` and `mesh.axis_names.index(…)` are asked as well.

    ## Why is this bad

    The annotation can hold on no mesh of the project; usually the axis is misspelt.

    ## Example

    ```python
    # mesh: d=2,t=4
    from shardtypes import f32

    def f(x: f32['batch/dd embed']) -> None: ...
    ```

    ## Use instead

    ```python
    # mesh: d=2,t=4
    from shardtypes import f32

    def f(x: f32['batch/d embed']) -> None: ...
    ```

    ## How to fix

    Correct the name, or add the axis to `mesh` in the settings, where the mesh is made in a place that is not read.

    ## When to silence

    In a file for another mesh; better give that folder settings of its own.

    ## Related rules

    ST102, ST305, ST401.
    """

    code = "ST103"
    name = "unknown-mesh-axis"
