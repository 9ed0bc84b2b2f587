"""What programs write and read back, as dicts, bytes, files and checkpoints, and einops beside, held against them."""

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
import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple
import einops
import flax
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from flax import serialization
from flax.training import checkpoints
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()), ("d",))
x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
params = {"w": jnp.arange(6.0).reshape(2, 3), "layers": [jnp.ones(2), {"b": jnp.array(0.5)}]}
other = jax.tree.map(jnp.zeros_like, params)


class Pair(NamedTuple):
    first: object
    second: object


@flax.struct.dataclass
class State:
    params: object
    moments: object
    name: str = flax.struct.field(pytree_node=False, default="s")


def refuses(function, *args):
    try:
        function(*args)
    except Exception:
        return 1.0
    return 0.0


"""

PROGRAMS = {
    "state dicts": """
        state = serialization.to_state_dict(Pair(params, (x, None)))
        return len(state), len(state["first"]["layers"]), state["second"]["0"]
""",
    "state dicts of classes": """
        state = serialization.to_state_dict(State(params, Pair(x, 1)))
        back = serialization.from_state_dict(State(other, Pair(0, 0)), state)
        return len(state), state["params"]["w"], back.params, back.moments.second
""",
    "state dicts of optimizers": """
        tx = optax.chain(optax.clip(1.0), optax.adam(0.1))
        state = tx.init(params)
        _, after = tx.update(params, state, params)
        saved = serialization.to_state_dict(after)
        return saved["1"]["0"]["mu"], serialization.from_state_dict(state, saved)
""",
    "state dicts that do not fit": """
        return [
            refuses(serialization.from_state_dict, {"a": 1}, {"b": 2}),
            refuses(serialization.from_state_dict, Pair(1, 2), {"first": 2}),
            refuses(serialization.from_state_dict, [1, 2], {"0": 2}),
            refuses(serialization.to_state_dict, {1: 2, "1": 3}),
        ]
""",
    "bytes": """
        whole = serialization.to_bytes(params)
        return serialization.from_bytes(other, whole), serialization.msgpack_restore(whole)["w"] + 1
""",
    "bytes by msgpack": """
        whole = serialization.msgpack_serialize({"a": x, "b": {"c": 3}})
        return serialization.msgpack_restore(whole)
""",
    "bytes in a file": """
        path = Path(tempfile.mkdtemp()) / "params.msgpack"
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.exists()
        path.write_bytes(serialization.to_bytes(params))
        return before, path.exists(), serialization.from_bytes(other, path.read_bytes())
""",
    "paths": """
        path = Path("runs") / "one.step.npz"
        names = [path.name == "one.step.npz", path.stem == "one.step", path.suffix == ".npz"]
        names.append(str(path.parent) == "runs")
        return names, len(path.parts), os.path.basename(path) == path.name, f"{path}" == "runs/one.step.npz"
""",
    "text in a file": """
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "a"), exist_ok=True)
            Path(folder, "a", "text").write_text("3.5")
            there = [os.path.exists(folder), os.path.isdir(os.path.join(folder, "a")), os.path.exists(folder + "/b")]
            found = float((Path(folder) / "a" / "text").read_text())
            shutil.rmtree(os.path.join(folder, "a"))
            return there, found, Path(folder, "a", "text").exists()
""",
    "arrays in files": """
        folder = tempfile.mkdtemp()
        np.save(os.path.join(folder, "a"), np.arange(3))
        jnp.save(folder + "/b.npy", x)
        jnp.savez(folder + "/c", x, w=params["w"])
        np.savez_compressed(folder + "/d.npz", one=np.ones(2))
        c = jnp.load(folder + "/c.npz")
        with np.load(folder + "/d.npz") as d:
            one = d["one"] * 2
        b = jnp.load(folder + "/b.npy").at[0].set(0)
        return np.load(folder + "/a.npy") + 1, b, c["arr_0"], c["w"], one, len(c.files)
""",
    "a file that is changed after": """
        folder = tempfile.mkdtemp()
        given = np.ones(3)
        np.save(folder + "/a.npy", given)
        given[0] = 7
        first = np.load(folder + "/a.npy")
        first[1] = 9
        return np.load(folder + "/a.npy"), first
""",
    "a checkpoint": """
        path = os.path.join(tempfile.mkdtemp(), "one")
        saver = ocp.PyTreeCheckpointer()
        saver.save(path, params)
        return saver.restore(path), saver.restore(path, item=other)
""",
    "a checkpoint of a tree of its own": """
        path = Path(tempfile.mkdtemp()) / "one"
        with ocp.StandardCheckpointer() as saver:
            saver.save(path.absolute(), {"params": params, "step": jnp.array(3)})
            saver.wait_until_finished()
            shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
            return saver.restore(path, {"params": shapes, "step": jax.ShapeDtypeStruct((), jnp.int32)})
""",
    "a checkpoint of an optimizer": """
        path = Path(tempfile.mkdtemp()) / "one"
        tx = optax.adam(0.1)
        state = tx.init(params)
        _, after = tx.update(params, state, params)
        saver = ocp.StandardCheckpointer()
        saver.save(path, after)
        saver.wait_until_finished()
        return saver.restore(path, state)
""",
    "checkpoints by step": """
        folder = tempfile.mkdtemp()
        options = ocp.CheckpointManagerOptions(max_to_keep=2, create=True)
        with ocp.CheckpointManager(folder, options=options) as manager:
            before = manager.latest_step() is None
            for step in range(4):
                manager.save(step, args=ocp.args.StandardSave(jax.tree.map(lambda leaf: leaf + step, params)))
            manager.wait_until_finished()
            steps = manager.all_steps()
            last = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore(other))
            return before, steps, last, manager.restore(2, args=ocp.args.StandardRestore())
""",
    "checkpoints of several items": """
        with ocp.CheckpointManager(tempfile.mkdtemp()) as manager:
            own = ocp.args.StandardSave({"x": x})
            manager.save(5, args=ocp.args.Composite(params=ocp.args.StandardSave(params), x=own))
            manager.wait_until_finished()
            asked = ocp.args.Composite(params=ocp.args.StandardRestore(other), x=ocp.args.StandardRestore())
            found = manager.restore(5, args=asked)
            return found.params, found["x"]
""",
    "checkpoints of flax": """
        folder = tempfile.mkdtemp()
        first = checkpoints.restore_checkpoint(folder, State(other, x))
        for step in range(3):
            state = State(jax.tree.map(lambda leaf: leaf + step, params), x * step)
            checkpoints.save_checkpoint(folder, state, step=step, keep=2)
        there = [os.path.exists(folder + f"/checkpoint_{step}") for step in range(3)]
        path = checkpoints.latest_checkpoint(folder)
        return (first.params, checkpoints.restore_checkpoint(folder, first).params, there, len(path) - len(folder),
                checkpoints.restore_checkpoint(folder, None, step=1)["moments"])
""",
    "einops.pack": """
        packed, shapes = einops.pack([x, x[:, 0], x.reshape(16, 1, 3)], "b *")
        return packed, [len(one) for one in shapes], einops.unpack(packed, shapes, "b *")
""",
    "einops.unpack": """
        cube = jnp.arange(60.0).reshape(3, 5, 4)
        return einops.unpack(cube, [[2], [-1], []], "a * c"), einops.pack([cube, cube[0]], "* c")[0]
""",
    "gradients through einops.pack": """
        def value(x):
            packed, shapes = einops.pack([x, x[:, 0]], "b *")
            return jnp.sum(einops.unpack(packed**2, shapes, "b *")[1])
        return jax.grad(value)(x)
""",
    "einops.pack on each device": """
        def body(x):
            packed, shapes = einops.pack([x, x[:, 0]], "b *")
            return packed * einops.parse_shape(x, "b _")["b"]
        return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x)
""",
    "einops.parse_shape": """
        cube = jnp.arange(60.0).reshape(3, 5, 4)
        return einops.parse_shape(cube, "a _ c"), einops.parse_shape(cube, "a ..."), einops.asnumpy(cube)[0]
""",
    "einops that do not fit": """
        return [
            refuses(einops.pack, [x], "b"),
            refuses(einops.pack, [x[0]], "a b *"),
            refuses(einops.unpack, x, [[2], [3]], "b *"),
            refuses(einops.parse_shape, x, "a b c"),
        ]
""",
}


wanted = computed_by_jax(programs_of(HEAD, PROGRAMS))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_read_back_what_they_write(
    name: str, wanted: dict[str, list[object]]
) -> None:
    assert_computes(HEAD + main_of(PROGRAMS[name]), wanted[name])


REFUSED = {
    "the file data.npy": "return np.load('data.npy')",
    "the file data.npz": "return jnp.load('data.npz')['a']",
    "the file notes": "return Path('notes').read_text()",
    "whether there is a file data": "return os.path.exists('data')",
    "what is in runs": "return list(Path('runs').iterdir())",
    "the file /tmp/none": "return ocp.PyTreeCheckpointer().restore('/tmp/none')",
    "bytes that this program does not make": "return serialization.from_bytes(params, b'')",
    "the number of bytes of a tree": "return len(serialization.to_bytes(params))",
    "rules of when to save": "return ocp.CheckpointManagerOptions(save_interval_steps=2)",
    "restored in another form": """
        saver = ocp.PyTreeCheckpointer()
        saver.save('/tmp/one', params)
        return saver.restore('/tmp/one', item={"w": 0})
""",
    "restored with another shape": """
        saver = ocp.PyTreeCheckpointer()
        saver.save('/tmp/one', params)
        return saver.restore('/tmp/one', item={**params, "w": jnp.ones(3)})
""",
    "restored without its form": """
        saver = ocp.StandardCheckpointer()
        saver.save('/tmp/one', Pair(x, x))
        return saver.restore('/tmp/one')
""",
    "a number that differs between devices": """
        def body(x):
            np.save("a", x)
            return x
        return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"))(x)
""",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_lies_elsewhere_is_not_evaluated(reason: str) -> None:
    with pytest.raises(NotEvaluable, match=reason):
        evaluated(HEAD + main_of(REFUSED[reason]))
