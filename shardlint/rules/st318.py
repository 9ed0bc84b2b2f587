from __future__ import annotations

from typing import ClassVar

from shardlint.rules.base import Rule


class RepeatedDraws(Rule):
    """
    ## What it does

    Reports random numbers that all devices along a mesh axis draw alike, each of them for its own shard: in
    `shard_map`, with a key that is the same on all devices, for as many entries as the local size of a sharded
    dimension; under `pmap`, or with a key for each example under `vmap`, for as many as are fewer where there are
    more devices. It is found by running code in numbers, as for ST316, and reported where the mapped function calls
    what draws. Positions (`permutation`, `choice`, `randint`) may be drawn alike, and so may anything that is not of
    a local size, such as noise for replicated weights.

    Reports as well keys that are made of numbers of rows which overlap between devices, as those of
    `lax.axis_index('d') + jnp.arange(len(x))` do, where results depend on the number of devices by these draws. What
    neighbours hold both, such as halos, may be drawn alike by both.

    ## Why is this bad

    The first example of every device gets the same noise, the same dropout mask, the same sample: with eight devices
    there are only an eighth as many different draws as on one. Training still works, somewhat worse, and nothing says
    so. Shards of weights that are initialised alike stay copies of each other for longer.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, PartitionSpec as P

    def noisy(key, x):
        return x + jax.random.normal(key, x.shape)

    def main():
        mesh = Mesh(jax.devices(), ('data',))
        apply = jax.shard_map(noisy, mesh=mesh, in_specs=(P(), P('data')), out_specs=P('data'))
        return apply(jax.random.key(0), jnp.ones((8, 16)))

    if __name__ == '__main__':
        print(main())
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    def noisy(key, x):
        own = jax.random.fold_in(key, lax.axis_index('data'))
        return x + jax.random.normal(own, x.shape)

    def main():
        mesh = Mesh(jax.devices(), ('data',))
        apply = jax.shard_map(noisy, mesh=mesh, in_specs=(P(), P('data')), out_specs=P('data'))
        return apply(jax.random.key(0), jnp.ones((8, 16)))

    if __name__ == '__main__':
        print(main())
    ```

    ## How to fix

    Fold the number of the device, or of the row, into the key: `jax.random.fold_in(key, lax.axis_index('d'))`. Rows are
    counted from where the device's own begin: `lax.axis_index('d') * len(x) + jnp.arange(len(x))`. Where they are
    counted from zero, a note says so at the numbers; where they overlap, the finding is there.

    ## When to silence

    Where the devices are to draw alike, as one mask for every shard.

    ## Related rules

    ST316, ST319.
    """

    code: ClassVar[str] = "ST318"
    severity: ClassVar[str] = "warning"
    name: ClassVar[str] = "repeated-draws"
