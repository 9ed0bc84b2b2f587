from __future__ import annotations

from typing import ClassVar

from shardlint.rules.base import Rule


class DependsOnDevices(Rule):
    """
    ## What it does

    Runs a program that has an `if __name__ == '__main__':` in numbers on simulated devices, without
    importing it or JAX: once on its own mesh, and once for each mesh axis with another number of devices along it.
    Reports a mapped function whose results differ, at the expression from which on they do.

    ## Why is this bad

    On how many devices a program runs should change how long it takes, and not what it computes. A reduction that is
    missing, done twice or done too early, a lookup without its offset, a division by a local size: each gives numbers
    of the right shape that are wrong, by more with each device. What is meant to depend on the devices is left alone:
    keys that are folded with `axis_index`, capacities computed from local sizes.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import PartitionSpec as P

    def layer(x, w, b):
        return lax.psum(x @ w + b, 't')

    def main():
        mesh = jax.make_mesh((4,), ('t',))
        x, w, b = jnp.ones((8, 16)), jnp.ones((16, 8)), jnp.ones(8)
        apply = jax.shard_map(layer, mesh=mesh, in_specs=(P(None, 't'), P('t', None), P()), out_specs=P())
        return apply(x, w, b)

    if __name__ == '__main__':
        main()
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import PartitionSpec as P

    def layer(x, w, b):
        return lax.psum(x @ w, 't') + b

    def main():
        mesh = jax.make_mesh((4,), ('t',))
        x, w, b = jnp.ones((8, 16)), jnp.ones((16, 8)), jnp.ones(8)
        apply = jax.shard_map(layer, mesh=mesh, in_specs=(P(None, 't'), P('t', None), P()), out_specs=P())
        return apply(x, w, b)

    if __name__ == '__main__':
        main()
    ```
    """

    code: ClassVar[str] = "ST316"
    name: ClassVar[str] = "depends-on-devices"
