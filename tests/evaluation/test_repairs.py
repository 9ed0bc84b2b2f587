"""Changes that make a wrong program agree with itself: they give what the right program gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlint.cli import main
from shardlint.evaluation.change import Repair
from shardlint.evaluation.comparison import Program
from shardlint.evaluation.departures import Departure, differing_results
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.other_meshes import DEVICES
from shardlint.evaluation.repairs import repair
from shardlint.evaluation.wording import repair_text
from tests.evaluation.changes import CHANGES, Change, source
from tests.evaluation.test_departures import judged

pytestmark = pytest.mark.once  # JAX has no part in it

#: What is changed, and in which line. Of other mistakes no such change is the opposite: keys that go round and values
#: that do not, a sum that is missing in both directions.
REPAIRS = {
    "no_sum_in_backward": (
        "a lax.psum over 't' of what this backward rule returns",
        "copied.defvjp(",
    ),
    "gradients_not_summed_backward": (
        "a lax.psum over 't' of the gradient by what this takes",
        "out = summed(",
    ),
    "summed_again_in_backward": ("no lax.psum here", "summed.defvjp("),
    "gradients_not_summed": (
        "a lax.psum over 'd' of this value",
        "params = jax.tree.map(",
    ),
    "mean_and_sum": ("lax.pmean here", "grads = jax.tree.map("),
    "local_size": ("lax.pmean here", "total = lax.psum("),
    "sum_of_means": ("lax.pmean here", "mean = lax.psum("),
    "values_stay": (
        "the operand that stays on its device sent round 's' with the others",
        "total = total * shrink[..., None] + jnp.einsum(",
    ),
    "no_offset": (
        "the offset of the shard (lax.axis_index('rows') times its size) subtracted from ids",
        "inside = ",
    ),
    "wrong_source": ("`-` in place of `+` here", "source = (here + turn)"),
    "rows_of_the_shard": (
        "the offset of the shard (lax.axis_index('rows') times its size) added to the positions here",
        "best, at = lax.top_k(",
    ),
    "local_positions": (
        "the offset of the shard (lax.axis_index('s') times its size) added to this",
        "rows = jnp.arange(length)",
    ),
}

RING = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def first_difference(x):
    size = lax.axis_size("t")
    last = lax.ppermute(x[-1:], "t", [{pair} for i in range(size)])
    return jnp.sum(jnp.square(x - jnp.concatenate([last, x[:-1]])))


def main():
    mesh = jax.make_mesh((4,), ("t",), axis_types=(AxisType.Auto,))
    return jax.shard_map(total, mesh=mesh, in_specs=P("t"), out_specs=P())(jnp.sin(jnp.arange(16.0)))


def total(x):
    return lax.psum(first_difference(x), "t")


if __name__ == "__main__":
    main()
"""


def regions(text: str) -> tuple[Region, ...]:
    def find(name: str, importer: str) -> tuple[str, str, str] | None:
        return (name, "program.py", text) if name == "program" else None

    return (
        Program(find, lambda world: world.run_program("program"), 400_000)
        .run(DEVICES)
        .regions
    )


def agrees(departure: Departure, mended: Repair, right: str) -> bool:
    """Whether the changed program gives on all devices what the right one gives, but for what is said to be left."""
    evidence = departure.evidence
    changed = evidence.program.run(
        DEVICES, record=True, changes=mended.changes
    ).regions[evidence.call]
    return differing_results(changed, regions(right)[evidence.call]) == mended.left


@pytest.mark.parametrize(
    "change", CHANGES, ids=lambda change: f"{change.program}-{change.name}"
)
def test_the_opposite_of_a_mistake_is_found(change: Change) -> None:
    departures = judged(change.text).departures
    found = [(one, repair(one)) for one in departures]
    if change.name not in REPAIRS:
        assert [mended for _, mended in found] == [None] * len(departures)
        return
    ((departure, mended),) = found
    assert mended is not None
    text, line = REPAIRS[change.name]
    assert mended.text == text
    assert change.text.splitlines()[mended.where.place[0] - 1].strip().startswith(line)
    assert agrees(departure, mended, source(change.program))


def test_a_permutation_the_wrong_way_round() -> None:
    wrong, right = (
        RING.format(pair="((i + 1) % size, i)"),
        RING.format(pair="(i, (i + 1) % size)"),
    )
    (departure,) = judged(wrong).departures
    mended = repair(departure)
    assert mended is not None
    assert repair_text(departure, mended) == (
        "with the pairs of this lax.ppermute the other way round, this result is the same on 4 and on 2 devices"
        " along 't'"
    )
    assert agrees(departure, mended, right)


def test_a_ring_that_is_not_closed() -> None:
    right = RING.format(pair="(i, (i + 1) % size)")
    wrong = right.replace("range(size)", "range(1, size)")
    (departure,) = judged(wrong).departures
    mended = repair(departure)
    assert mended is not None
    assert mended.text == "the pair that is missing in the perm of this lax.ppermute"
    assert agrees(departure, mended, right)


GRID = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P
import numpy as np


def moment(x):
    rows, columns = x.shape
    i = lax.axis_index("{row}") * rows + jnp.arange(rows)
    j = lax.axis_index("q") * columns + jnp.arange(columns)
    along = lax.psum((x * i[:, None]).sum(0), "p")
    return lax.psum((along * j).sum(), "q")


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("p", "q"))
    mapped = jax.shard_map(moment, mesh=mesh, in_specs=P("p", "q"), out_specs=P(), check_vma=False)
    return mapped(jnp.sin(jnp.arange(128.0)).reshape(16, 8))


if __name__ == "__main__":
    main()
"""


def test_the_index_along_another_axis() -> None:
    right = GRID.format(row="p")
    (departure,) = judged(GRID.format(row="q")).departures
    mended = repair(departure)
    assert mended is not None
    assert mended.text == "lax.axis_index('p') here"
    assert agrees(departure, mended, right)


STEPS = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def advance(x):
    spread = lax.psum(jnp.sum(x**2), "s")
    fastest = {fastest}
    return x - x * jnp.sqrt(spread - 300) / (4 + fastest)


def main():
    mesh = jax.make_mesh((4,), ("s",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(advance, mesh=mesh, in_specs=P(None, "s"), out_specs=P(None, "s"))
    return mapped(jnp.linspace(1, 4, 64).reshape(2, 32))


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_largest_or_smallest_of_all_shards(name: str) -> None:
    """Without the sum results would be alike on any mesh, too: no numbers."""
    local = f"jnp.{name}(x)"
    right = STEPS.format(fastest=f"lax.p{name}({local}, 's')")
    (departure,) = judged(STEPS.format(fastest=local)).departures
    mended = repair(departure)
    assert mended is not None
    assert mended.text == f"a lax.p{name} over 's' of this value"
    assert agrees(departure, mended, right)


BOTH = """
import jax
import jax.numpy as jnp
from functools import partial
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def moments(x):
    over = partial(lax.psum, axis_name="d")
    return {"first": over(jnp.sum(x)), "second": over(jnp.sum(x * x))}


def main():
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    mapped = jax.shard_map(moments, mesh=mesh, in_specs=P(("d", "t")), out_specs=P(), check_vma=False)
    return mapped(jnp.sin(jnp.arange(16.0)))


if __name__ == "__main__":
    main()
"""


def test_two_results_are_mended_by_one_more_axis() -> None:
    departures = judged(BOTH).departures
    found = {
        repair_text(one, mended)
        for one in departures
        if (mended := repair(one)) is not None
    }
    assert found == {
        "with this lax.psum and 1 other over 't' too, this result is the same on 4 and on 2 devices along 't'"
    }


def test_the_finding_names_the_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = RING.format(pair="((i + 1) % size, i)")
    inside = "[((i + 1) % size, i) for i in range(size)]"
    assert inside in text
    text = text.replace(inside, "pairs").replace(
        "    last =", f"    pairs = {inside}\n    last ="
    )
    (tmp_path / "ring.py").write_text(text)
    main(["--no-cache", "--jobs", "1", "--format", "json", str(tmp_path)])
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["line"] == 11
    mends = "with the pairs of this lax.ppermute the other way round, it is the same"
    assert finding["message"].endswith(mends)
    assert [(note["line"], note["message"][:24]) for note in finding["related"]] == [
        (12, "here indexing is applied"),
        (10, "made here"),
        (21, "called here"),
    ]


STAGES = """
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

SPECS = dict(w={w}, b={w})


def loss(params, x, scale):
    def layer(x, one):
        return x * one["w"] + one["b"], None

    stage = lax.axis_index("stage")
    for turn in range(lax.axis_size("stage")):
        moved, _ = lax.scan(layer, x, params)
        x = lax.psum(jnp.where(stage == turn, moved, 0), "stage")
    return scale * x.sum()


def main():
    mesh = jax.make_mesh((4,), ("stage",), axis_types=(AxisType.Auto,))
    params = dict(w=jnp.linspace(0.9, 1.2, 8), b=jnp.linspace(0.1, 0.5, 8))
    mapped = functools.partial(loss, scale=2.0)
    mapped = jax.shard_map(mapped, mesh=mesh, in_specs=(SPECS, P()), out_specs=P(), check_vma=False)
    return mapped(params, jnp.linspace(0.1, 1.0, 3))


if __name__ == "__main__":
    main()
"""


def test_layers_that_every_stage_has() -> None:
    """The specs of one line belong together."""
    (departure,) = judged(STAGES.format(w="P()")).departures
    mended = repair(departure)
    assert mended is not None
    assert (
        mended.text
        == "dimension 0 sharded over 'stage' here and in the other specs of this line"
    )
    assert agrees(departure, mended, STAGES.format(w='P("stage")'))


SHARED = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


@jax.custom_vjp
def copied(x):
    return x


copied.defvjp(lambda x: (x, None), lambda _, g: (lax.psum(g, "t"),))


def step(shared, w, x):
    return shared - 0.1 * jax.grad(whole)(shared, w, x)


@jax.custom_vjp
def summed(x):
    return lax.psum(x, "t")


summed.defvjp(lambda x: (lax.psum(x, "t"), None), lambda _, g: (g,))


def whole(shared, w, x):
    scale = {used}
    return jnp.sum(jnp.square(summed(jnp.tanh((x * scale) @ w) @ w.T)))


def main():
    mesh = jax.make_mesh((4,), ("t",), axis_types=(AxisType.Auto,))
    specs = (P(), P(None, "t"), P())
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)
    w, x = jnp.sin(jnp.arange(32.0)).reshape(4, 8), jnp.cos(jnp.arange(12.0)).reshape(3, 4)
    return mapped(jnp.linspace(0.5, 1.5, 4), w, x)


if __name__ == "__main__":
    main()
"""


def test_a_weight_whose_gradient_is_not_summed_is_named_where_it_is_used() -> None:
    (departure,) = judged(SHARED.format(used="jnp.exp(shared)")).departures
    mended = repair(departure)
    assert mended is not None
    assert mended.text == "a lax.psum over 't' of the gradient by what this takes"
    assert mended.where.place[0] == 29
    assert agrees(departure, mended, SHARED.format(used="jnp.exp(copied(shared))"))


ANNOTATED = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType
from shardtypes import f32, pytree_dataclass, typed_shard_map


@pytree_dataclass
class Layers:
    w: f32["{layers}"]


@typed_shard_map
def run(layers: Layers, x: f32["B"]) -> f32[""]:
    stage = lax.axis_index("stage")
    for turn in range(lax.axis_size("stage")):
        moved, _ = lax.scan(lambda x, w: (x * w, None), x, layers.w)
        x = lax.psum(jnp.where(stage == turn, moved, 0), "stage")
    return x.sum()


def main():
    mesh = jax.make_mesh((4,), ("stage",), axis_types=(AxisType.Auto,))
    with jax.set_mesh(mesh):
        return run(Layers(jnp.linspace(0.9, 1.2, 8)), jnp.linspace(0.1, 1.0, 3))


if __name__ == "__main__":
    main()
"""


def test_an_annotation_that_shards_nothing_is_a_spec_too() -> None:
    (departure,) = judged(ANNOTATED.format(layers="L")).departures
    mended = repair(departure)
    assert mended is not None
    assert (mended.text, mended.where.place[0]) == (
        "dimension 0 sharded over 'stage' here",
        11,
    )
    assert agrees(departure, mended, ANNOTATED.format(layers="L/stage"))


PIPELINE = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def forward(layers, x):
    size = lax.axis_size("p")
    last = lax.axis_index("p") == size - 1
    pairs = [(i, (i + 1) % size) for i in range(size)]
    for tick in range(size):
        x = lax.ppermute(x, "p", pairs) if tick else x
        for layer in layers:
            x = jnp.tanh(x + layer)
    return lax.psum(jnp.where(last, jnp.sum(x * x), 0.0), "p")


def main():
    mesh = jax.make_mesh((4,), ("p",), axis_types=(AxisType.Auto,))
    layers = jnp.sin(jnp.arange(24.0).reshape(8, 3))
    step = jax.shard_map(jax.value_and_grad(forward), mesh=mesh, in_specs=(P("p"), P()), out_specs=(P(), P("p")))
    return step(layers, jnp.ones(3))


if __name__ == "__main__":
    main()
"""
POSITIONS = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def total(x):
    length = x.shape[1]
    first = lax.axis_index("t") * length
    return lax.psum(jnp.sum(x * jnp.sin(first + jnp.arange(length))), ("d", "t"))


def main():
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto, AxisType.Auto))
    x = jnp.cos(jnp.arange(128.0).reshape(8, 16))
    return jax.shard_map(total, mesh=mesh, in_specs=P("d", "t"), out_specs=P())(x)


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("right", "old", "new", "text", "line"),
    [
        pytest.param(
            PIPELINE,
            'lax.psum(jnp.where(last, jnp.sum(x * x), 0.0), "p")',
            'lax.psum(jnp.sum(x * x), "p")',
            "what only the last device along 'p' has in this lax.psum",
            "return lax.psum(",
            id="outputs of every stage",
        ),
        pytest.param(
            PIPELINE,
            'last = lax.axis_index("p") == size - 1',
            'last = lax.axis_index("p") == 0',
            "the devices along 'p' counted from the last one here",
            "last = ",
            id="outputs of the first stage",
        ),
        pytest.param(
            POSITIONS,
            'P("d", "t")',
            'P("t", "d")',
            "entries 0 and 1 of this spec in the other order",
            "in_specs=",
            id="entries of a spec",
        ),
    ],
)
def test_what_is_exchanged_is_named(
    right: str, old: str, new: str, text: str, line: str
) -> None:
    assert not judged(right).departures
    wrong = right.replace(old, new)
    found = [(one, repair(one)) for one in judged(wrong).departures]
    assert found
    for departure, mended in found:
        assert mended is not None
        assert mended.text == text
        assert line in wrong.splitlines()[mended.where.place[0] - 1]
        assert agrees(departure, mended, right)


def test_a_sum_of_zeros_is_no_repair() -> None:
    """Nothing depends on the devices where nothing is left."""
    wrong = PIPELINE.replace("== size - 1", "== 0").replace(
        'lax.axis_index("p")', 'lax.axis_index("p") * 1'
    )
    departures = judged(wrong).departures
    assert departures
    for departure in departures:
        mended = repair(departure)
        assert mended is None or "only the last" not in mended.text
