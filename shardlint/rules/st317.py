from __future__ import annotations

from shardlint.rules.base import Rule


class ReplicatedState(Rule):
    """
    ## What it does

    Reports `out_shardings` that replicate the state of an optimizer while they shard the parameters that it belongs
    to, or while these lie sharded as they are given. It covers optimizers of optax whose state holds arrays of the
    parameters' shapes, such as `adamw`.

    In a program that is run in numbers (see ST316) it covers all state that a function under `jit` gives and is given
    again: an array that is whole on every device though the parameter of its name and shape, whose gradient the
    function computes, is sharded; and one that is sharded in the first call and whole from the second on.

    ## Why is this bad

    The moments of Adam are twice as large as the parameters. Each device then holds all of them: what sharding the
    parameters saves is lost, and a model that fits in a test does not fit on the devices that it is made for. The
    numbers are right, so nothing else tells.

    ## Example

    ```python
    import jax
    import jax.numpy as jnp
    import optax
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ('data',))
    sharded = NamedSharding(mesh, P(None, 'data'))
    replicated = NamedSharding(mesh, P())
    tx = optax.adamw(1e-3)

    def init():
        params = {'w': jnp.zeros((1024, 4096))}
        return params, tx.init(params)

    params, state = jax.jit(init, out_shardings=(sharded, replicated))()
    ```

    ## Use instead

    ```python
    import jax
    import jax.numpy as jnp
    import optax
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((8,), ('data',))
    sharded = NamedSharding(mesh, P(None, 'data'))
    replicated = NamedSharding(mesh, P())
    tx = optax.adamw(1e-3)

    def init():
        params = {'w': jnp.zeros((1024, 4096))}
        return params, tx.init(params)

    def place(leaf):
        return sharded if leaf.ndim == 2 else replicated

    shardings = jax.tree.map(place, jax.eval_shape(init))
    params, state = jax.jit(init, out_shardings=shardings)()
    ```

    ## How to fix

    Give the state the shardings of the parameters, as by `jax.tree.map` over `jax.eval_shape(tx.init, params)`.

    ## When to silence

    Where the state is small, or each device is to keep it for a checkpoint.

    ## Related rules

    ST308, ST216, ST401.
    """

    code = "ST317"
    severity = "warning"
    name = "replicated-state"
