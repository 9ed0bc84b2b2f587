from __future__ import annotations

from typing import ClassVar

from shardlint.rules.base import Rule


class DependsOnDevices(Rule):
    """
    ## What it does

    Runs code in numbers on simulated devices, without importing it or JAX: once on its own mesh, and once for each
    mesh axis with another number of devices along it. Reports a mapped function whose results differ, at the
    expression to change where that is found out, else at the one from which on they do. Run are programs, with an `if
    __name__ == '__main__':` or as flat scripts that call what they map, and functions and methods that map over
    devices, with random numbers of the shapes that annotations give, in sizes that are part of the finding. Where
    there are no annotations, the specs of `shard_map` say how many dimensions an argument has. What depends on the
    number of devices by rounding alone, as quantised sums do, is not reported. A ring whose rounds are too few by one
    is reported where it sends last. Results that are no numbers (NaN) on
    both meshes are compared with those of one device, and so are results that agree on both, where the program takes
    the same way there: what each device gets wrong alike shows on no other number of them. Where the results of mapped
    functions agree, gradients that are taken outside of them are compared, too.

    Where results part may be far from the line to change. So the code is run again with small changes: a reduction that
    is missing, also in a backward rule, one too many, `pmean` for `psum`, one more axis, of one reduction or of all
    that are like it, a permutation the other way round, a mean that is divided by a device's own count. A change with
    which all results are the same on both numbers of devices is what the finding says, and a note tells where results
    part; a change that mends some of them, or a gradient, is given as a note at its place. Where no change is found,
    notes tell where that begins to be a partial sum, or each device's own, which the reported expression is applied to,
    and what moves its result on: each device may well take the best of its own entries, if they are gathered in the
    right order later.

    ## Why is this bad

    On how many devices a program runs should change how long it takes, and not what it computes. A reduction that is
    missing, done twice or done too early, a lookup without its offset, a division by a local size: each gives numbers
    of the right shape that are wrong, by more with each device. So does a mean of devices' means where a mask leaves
    them different numbers of entries: each entry of a device that has few weighs more.

    What is meant to depend on the devices is left alone: keys that are folded with `axis_index`, capacities computed
    from local sizes, averages over what each device has done by itself, per-device batches of examples, blocks that
    each device takes of its own, more examples and larger steps on more devices; and, unless a change mends it, blocks
    that go to a device's neighbours and no further, which reach as far as they are wide. Micro-batches that each
    device forms of its rows are compared with the same examples in each. Of a function by itself, only what no caller
    can make right is reported: a factor that a caller may take out is not, nor an input that the caller may shard.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    def mean_square(x):
        return lax.psum(jnp.sum(x * x), 'd') / x.size

    def main():
        mesh = Mesh(jax.devices(), ('d',))
        apply = jax.shard_map(mean_square, mesh=mesh, in_specs=P('d'), out_specs=P())
        return apply(jnp.ones((8, 16)))

    if __name__ == '__main__':
        print(main())
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import Mesh, PartitionSpec as P

    def mean_square(x):
        return lax.psum(jnp.sum(x * x), 'd') / lax.psum(x.size, 'd')

    def main():
        mesh = Mesh(jax.devices(), ('d',))
        apply = jax.shard_map(mean_square, mesh=mesh, in_specs=P('d'), out_specs=P())
        return apply(jnp.ones((8, 16)))

    if __name__ == '__main__':
        print(main())
    ```

    ## How to fix

    Make the change that the message names, or reduce, divide or index by what is counted over all devices.

    ## When to silence

    Where the result depends on the devices on purpose, in a way that is not among those above.

    ## Related rules

    ST301, ST302, ST304, ST318, ST319.
    """

    code: ClassVar[str] = "ST316"
    name: ClassVar[str] = "depends-on-devices"
