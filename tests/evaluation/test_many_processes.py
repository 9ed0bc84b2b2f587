"""Programs of several processes, of which one has all devices; and what only shows how far a program is."""

from __future__ import annotations

import pytest

from tests.evaluation.running import (
    NUMBERS,
    assert_computes,
    evaluated,
    in_jax,
    main_of,
)

HEAD = """
import jax
import numpy as np
from jax.experimental import mesh_utils, multihost_utils
from jax.sharding import AxisType, Mesh, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
x = np.arange(24.0, dtype=np.float32).reshape(8, 3)
"""

PROGRAMS = {
    "gathered": """
        tree = {"a": x, "b": x[0]}
        whole = multihost_utils.process_allgather(tree, tiled=True)
        return multihost_utils.process_allgather(tree), whole
""",
    "sent to all": """
        return multihost_utils.broadcast_one_to_all({"a": x})
""",
    "local and global": """
        made = multihost_utils.host_local_array_to_global_array((x, x.T), mesh, (P("d"), P(None, "t")))
        return multihost_utils.global_array_to_host_local_array(made, mesh, (P("d"), P(None, "t")))
""",
    "two slices": """
        multihost_utils.sync_global_devices("ready")
        devices = np.array(jax.devices()).reshape(2, 4)
        return list(devices.shape), list(Mesh(devices, ("d", "t")).shape.values())
""",
}


@pytest.fixture(scope="module")
def of_jax(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    texts = {name: HEAD + main_of(body) for name, body in PROGRAMS.items()}
    found: dict[str, list[object]] = in_jax(
        tmp_path_factory.mktemp("jax"), texts, NUMBERS
    )
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_those_of_jax(name: str, of_jax: dict[str, list[object]]) -> None:
    assert_computes(HEAD + main_of(PROGRAMS[name]), of_jax[name], tolerance=0.0)


def test_devices_of_several_slices_are_multiplied() -> None:
    body = """
        devices = mesh_utils.create_hybrid_device_mesh((1, 4), (2, 1))
        return list(Mesh(devices, ("d", "t")).shape.values())
"""
    assert [int(size) for size in evaluated(HEAD + main_of(body))] == [2, 4]


def test_what_shows_how_far_a_program_is_changes_nothing() -> None:
    body = """
        import wandb
        from tqdm import tqdm, trange

        run = wandb.init(project="p")
        total = 0
        with tqdm([1, 2, 3], desc="steps") as bar:
            for step in bar:
                total += step
                bar.set_postfix(total=total)
                wandb.log({"total": total})
        for step in trange(1, 4):
            total += step
        run.finish()
        return total
"""
    assert [int(one) for one in evaluated(HEAD + main_of(body))] == [12]
