from __future__ import annotations

from typing import ClassVar

from shardlint.rules.base import Rule


class FailingAssertion(Rule):
    """
    ## What it does

    Reports a collective that is missing, or another one, where an assertion of the program itself fails on the mesh
    that it makes, and holds with that change. A program is run in numbers, as for ST316, up to what it asserts to
    be the same: an `assert` with `==` or `allclose`, a function of `numpy.testing`, a comparison of trees of
    `chex`. What is to be larger or smaller says nothing. It is tried where ST316 and ST318 find nothing, or no
    change that mends it: because the result may depend on the number of devices on purpose, or because the
    assertion fails on any number of them.

    ## Why is this bad

    The program raises AssertionError when it is run. Which collective that is due to is not in the message.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    def spread(x):
        scaled = x / jnp.max(jnp.abs(x))  # each device by its own
        center = scaled.mean(0)
        return lax.pmean(jnp.square(scaled - center).mean(0), 'data')

    def main():
        mesh = Mesh(jax.devices(), ('data',))
        apply = jax.shard_map(spread, mesh=mesh, in_specs=P('data'), out_specs=P())
        x = np.sin(np.arange(64.0)).reshape(16, 4)
        grouped = x.reshape(8, 2, 4)
        scaled = grouped / np.abs(grouped).max((1, 2), keepdims=True)
        np.testing.assert_allclose(apply(x), scaled.reshape(16, 4).var(0), rtol=1e-4)

    if __name__ == '__main__':
        main()
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    def spread(x):
        scaled = x / jnp.max(jnp.abs(x))  # each device by its own
        center = lax.pmean(scaled.mean(0), 'data')
        return lax.pmean(jnp.square(scaled - center).mean(0), 'data')

    def main():
        mesh = Mesh(jax.devices(), ('data',))
        apply = jax.shard_map(spread, mesh=mesh, in_specs=P('data'), out_specs=P())
        x = np.sin(np.arange(64.0)).reshape(16, 4)
        grouped = x.reshape(8, 2, 4)
        scaled = grouped / np.abs(grouped).max((1, 2), keepdims=True)
        np.testing.assert_allclose(apply(x), scaled.reshape(16, 4).var(0), rtol=1e-4)

    if __name__ == '__main__':
        main()
    ```

    ## How to fix

    Make the change that the message names, and run the program once.

    ## When to silence

    Where the assertion is what is wrong.

    ## Related rules

    ST316, ST318, ST301.
    """

    code: ClassVar[str] = "ST319"
    severity: ClassVar[str] = "error"
    name: ClassVar[str] = "failing-assertion"
