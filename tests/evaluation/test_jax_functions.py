"""Functions of JAX that set something, tell something, or take derivatives in other ways, held against JAX."""

from __future__ import annotations

import pytest

from shardlint.evaluation.errors import NotEvaluable
from tests.evaluation.running import (
    assert_computes,
    computed_by_jax,
    evaluated,
    main_of,
    programs_of,
)

pytestmark = pytest.mark.once  # what programs compute does not change with JAX

HEAD = """
import functools
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()).reshape(4, 2), ("d", "t"))
x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
v = jnp.array([1.0, 2.0, -1.0])


def mapped(function, *args, spec=P("d"), out=P("d")):
    return jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=out, check_vma=False)(*args)


"""

PROGRAMS = {
    "typeof": """
        kind = jax.typeof(x)
        return kind.shape, kind.ndim, kind.size, kind.dtype == jnp.float32, jax.typeof(3.0).weak_type
""",
    "typeof in a mapped function": """
        def body(x):
            return x * jax.typeof(x).shape[0]
        return mapped(body, x)
""",
    "structures of trees": """
        params = {"a": x, "b": [v, {"c": 2 * v}]}
        leaves, tree = jax.tree.flatten(params)
        states = {"a": (x, x + 1), "b": [(v, v), {"c": None}]}
        rows = tree.flatten_up_to(states)
        made = tree.unflatten(leaf + 1 for leaf in leaves)
        return made, rows[0][1], rows[1], rows[2] is None, tree.num_leaves, tree.num_nodes
""",
    "settings as blocks": """
        with jax.default_matmul_precision("float32"), jax.disable_jit(), jax.debug_nans(False), jax.log_compiles():
            first = x @ v
        with jax.checking_leaks(), jax.numpy_rank_promotion("allow"), jax.default_device(jax.devices()[0]):
            second = jnp.dot(x, v)
        with jax.ensure_compile_time_eval(), jnp.printoptions(precision=3), jax.transfer_guard("allow"):
            third = jnp.sum(x)
        jnp.set_printoptions(precision=3)
        jax.clear_caches()
        return first, second, third
""",
    "settings as decorators": """
        @jax.default_matmul_precision("highest")
        def product(x):
            return x @ v
        return product(x)
""",
    "processes": "return jax.process_indices(), jax.process_index(), jax.process_count()",
    "custom_gradient": """
        @jax.custom_gradient
        def slow(x):
            return x**2, lambda g: g * x
        return jax.value_and_grad(lambda v: jnp.sum(slow(v) ** 2))(v), slow(v)
""",
    "custom_gradient of several": """
        @jax.custom_gradient
        def product(x, y):
            sine = jnp.sin(x)
            return sine * y, lambda g: (g * y, g * sine * 3)
        return jax.grad(lambda x, y: jnp.sum(product(x, y)), (0, 1))(v, v + 1)
""",
    "a second derivative through custom_gradient": """
        @jax.custom_gradient
        def slow(x):
            return jnp.sin(x) ** 2, lambda g: g * x**3
        return jax.grad(lambda x: jnp.vdot(jax.grad(lambda x: jnp.sum(slow(x) ** 2))(x), v))(v)
""",
    "custom_gradient of each device": """
        @jax.custom_gradient
        def summed(x):
            return lax.psum(x, "d"), lambda g: lax.pmean(g, "d")
        def body(x):
            return jax.grad(lambda x: jnp.sum(summed(x) * x.shape[0]))(x)
        return mapped(body, x)
""",
    "closure_convert": """
        scale = jnp.arange(3.0)
        converted, more = jax.closure_convert(lambda x: jnp.sum(x * scale), v)
        return converted(v, *more), jax.grad(lambda v: converted(v, *more))(v)
""",
    "linear_transpose": """
        turn = jax.linear_transpose(lambda v: x @ v, v)
        return turn(jnp.arange(16.0))
""",
    "linear_transpose of a shape": """
        turn = jax.linear_transpose(lambda a, b: 2 * a + b[::-1], jax.ShapeDtypeStruct((3,), jnp.float32), v)
        return turn(v)
""",
    "linear_transpose of each device": """
        turn = jax.linear_transpose(lambda v: x[:2] @ v, v)
        return mapped(lambda g: turn(g[:2, 0]), x)
""",
    "an array of pieces": """
        sharding = NamedSharding(mesh, P("d", None))
        places = sharding.addressable_devices_indices_map(x.shape)
        pieces = [jax.device_put(x[index] + 1, device) for device, index in places.items()]
        return jax.make_array_from_single_device_arrays(x.shape, sharding, pieces[::-1]), sharding.shard_shape(x.shape)
""",
    "an array of pieces of another": """
        array = jax.device_put(x, NamedSharding(mesh, P(("t", "d"))))
        pieces = [shard.data * 2 for shard in array.addressable_shards]
        pieces = [jax.device_put(one, shard.device) for one, shard in zip(pieces, array.addressable_shards)]
        return jax.make_array_from_single_device_arrays(x.shape, NamedSharding(mesh, P(("t", "d"))), pieces)
""",
    "an array of pieces along an axis": """
        pieces = jax.device_put(np.split(np.asarray(x), 8), list(mesh.devices.flat))
        return jax.make_array_from_single_device_arrays(x.shape, NamedSharding(mesh, P(("d", "t"))), pieces)
""",
    "an array on one device": """
        return jax.device_put(x, jax.sharding.SingleDeviceSharding(jax.devices()[0])) + 1
""",
}


wanted = computed_by_jax(programs_of(HEAD, PROGRAMS))


@pytest.mark.parametrize("name", PROGRAMS)
def test_functions_compute_what_they_do(
    name: str, wanted: dict[str, list[object]]
) -> None:
    assert_computes(HEAD + main_of(PROGRAMS[name]), wanted[name])


REFUSED = {
    "the attribute vma": "return jax.typeof(x).vma",
    "closes over what is differentiated": """
        def value(scale):
            converted, more = jax.closure_convert(lambda x: jnp.sum(x * scale), v)
            return converted(v, *more)
        return jax.grad(value)(v)
""",
    "on which devices they are": """
        pieces = [x[:8], x[8:]]
        return jax.make_array_from_single_device_arrays(x.shape, NamedSharding(mesh, P("t")), pieces)
""",
    "copies of a piece that differ": """
        pieces = [jax.device_put(x + k, device) for k, device in enumerate(jax.devices())]
        return jax.make_array_from_single_device_arrays(x.shape, NamedSharding(mesh, P()), pieces)
""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_known_is_not_evaluated(reason: str) -> None:
    with pytest.raises(NotEvaluable, match=reason):
        evaluated(HEAD + main_of(REFUSED[reason]))
