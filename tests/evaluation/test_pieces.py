"""Arrays that a program puts together of the devices' pieces, or takes apart into them, as JAX has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main
from tests.evaluation.running import (
    assert_computes,
    computed_by_jax,
    main_of,
    programs_of,
)

HEAD = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
whole = np.arange(96.0, dtype=np.float32).reshape(8, 12)


def rows_of(index):
    first, last, _ = index[0].indices(8)
    return np.stack([np.full(12, row) for row in range(first, last)])


"""

PROGRAMS = {
    "pieces of the whole": """
        sharding = NamedSharding(mesh, P("d", "t"))
        return jax.make_array_from_callback((8, 12), sharding, lambda index: whole[index])
""",
    "two axes along one dimension": """
        sharding = NamedSharding(mesh, P(("t", "d")))
        return jax.make_array_from_callback((8, 12), sharding, rows_of)
""",
    "nothing sharded": """
        sharding = NamedSharding(mesh, P())
        return jax.make_array_from_callback((8, 12), sharding, rows_of)
""",
    "data of one process": """
        return jax.make_array_from_process_local_data(NamedSharding(mesh, P("d")), whole)
""",
    "shards": """
        placed = jax.device_put(whole, NamedSharding(mesh, P(None, "t")))
        shards = placed.addressable_shards
        bounds = [[part.indices(n)[:2] for part, n in zip(one.index, whole.shape)] for one in shards]
        distinct = [one.data for one in shards if one.replica_id == 0]
        return bounds, distinct, len(shards)
""",
    "how an array lies": """
        placed = jax.device_put(whole, NamedSharding(mesh, P(None, "t")))
        like, other = NamedSharding(mesh, P(None, ("t",))), NamedSharding(mesh, P("d"))
        same = [placed.sharding.is_equivalent_to(one, 2) for one in (like, other)]
        return same, placed.sharding.shard_shape(whole.shape), placed.sharding.is_fully_replicated
""",
    "how another is to lie": """
        placed = jax.device_put(whole, NamedSharding(mesh, P("d")))
        again = jax.device_put(placed + 1, placed.sharding)
        return again.sharding.is_equivalent_to(placed.sharding, 2), again
""",
    "what is computed is handed on": """
        placed = jax.device_put(whole, NamedSharding(mesh, P("d")))
        doubled = jax.jit(lambda x: x * 2)(placed)
        assert doubled.sharding.is_equivalent_to(placed.sharding, 2)
        return jax.device_put(placed, doubled.sharding)
""",
}


WHOLE = programs_of(HEAD, PROGRAMS)
wanted = computed_by_jax(WHOLE)


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_are_those_of_jax(name: str, wanted: dict[str, list[object]]) -> None:
    assert_computes(WHOLE[name], wanted[name], tolerance=0.0)


TRAINED = """
        def step(x):
            return lax.psum(jnp.sum(x * x), ("d", "t")){mistake}

        sharding = NamedSharding(mesh, P(("d", "t")))
        x = jax.make_array_from_callback((8, 12), sharding, rows_of)
        mapped = jax.shard_map(step, mesh=mesh, in_specs=P(("d", "t")), out_specs=P(), check_vma=False)
        return jax.jit(mapped)(x)
"""


def test_what_is_computed_of_pieces_is_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program.py"
    for mistake, status in (("", 0), (" / x.shape[0]", 1)):
        text = HEAD + main_of(TRAINED.format(mistake=mistake))
        program.write_text(f'{text}\n\nif __name__ == "__main__":\n    main()\n')
        assert main([str(program), "--no-cache"]) == status
    assert "depends on the number of devices" in capsys.readouterr().out
