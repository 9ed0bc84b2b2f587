"""Arrays that span processes: two of them, with four devices each, on this machine."""

from __future__ import annotations

import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import ROOT, run

PROGRAM = """
import sys
import jax

jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(sys.argv[2], 2, int(sys.argv[1]))

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import shardtypes as st
from shardtypes import f32, layout

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("d", "t"))
here = jax.process_index()


def placed(*entries):
    whole = np.ones((16, 8), np.float32)
    return jax.make_array_from_callback((16, 8), NamedSharding(mesh, P(*entries)), lambda index: whole[index])


for entries, local in [(("d", "t"), (8, 8)), ((None, "t"), (16, 8)), ((("t", "d"),), (8, 8)), ((), (16, 8))]:
    x = placed(*entries)
    lies = layout(x)
    assert not x.is_fully_addressable or not entries
    assert lies.local_shape == local, (entries, lies.local_shape)
    assert lies.shard_shape == x.addressable_shards[0].data.shape
    assert len(lies.indices()) == 8
    assert lies == layout(NamedSharding(mesh, P(*entries)), shape=(16, 8))
    assert lies != layout(NamedSharding(mesh, P(None, "d")), shape=(16, 8))

elsewhere = Mesh(np.array([d for d in jax.devices() if d.process_index != here]), ("t",))
assert layout(NamedSharding(elsewhere, P("t")), shape=(8,)).local_shape == (0,)


@st.typechecked
def f(x: f32["B/d M/t"]) -> f32["B/d M/t"]:
    return x * 2


with jax.set_mesh(mesh):
    for call in (f, jax.jit(lambda x: f(x)), lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)):
        call(placed("d", "t"))
        try:
            call(placed("t"))
        except st.ShardingError as error:
            assert "dimension 0 is sharded over 't', expected sharded over 'd'" in str(error)
        else:
            raise SystemExit("no error")
    told = st.explain(f, placed("d", "t"))
    assert [row.bytes_per_device for row in told.arguments] == [64]
print("done", here)
"""


@pytest.mark.once
def test_layouts_and_checks_of_arrays_that_span_processes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    env = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": str(ROOT),
        "PATH": "/usr/bin:/bin",
        "JAX_PLATFORMS": "cpu",
    }
    commands = [[sys.executable, program, str(number), address] for number in range(2)]
    with ThreadPoolExecutor() as pool:
        ended = pool.map(lambda command: run(command, env=env, together=True), commands)
    for number, process in enumerate(ended):
        assert process.stdout.splitlines()[-1] == f"done {number}", process.stdout
