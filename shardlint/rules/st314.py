from __future__ import annotations

from shardlint.rules.base import Rule


class InvalidMesh(Rule):
    """
    ## What it does

    Reports a mesh whose axis names do not fit its devices: more or fewer of them than the array of devices has
    dimensions, or one name twice; and a mesh whose shape is no sequence of positive sizes.

    ## Why is this bad

    JAX refuses to make the mesh, when the program starts, which on a cluster is after a queue.

    ## Example

    ```python
    import jax

    mesh = jax.make_mesh((2, 4), ('replica', 'data', 'model'))
    ```

    ## Use instead

    ```python
    import jax

    mesh = jax.make_mesh((1, 2, 4), ('replica', 'data', 'model'))
    ```

    ## How to fix

    Give one name for each dimension of the array of devices.

    ## When to silence

    Not in a program that is to run: JAX refuses it as well.

    ## Related rules

    ST103, ST305.
    """

    code = "ST314"
    name = "invalid-mesh"
