"""Where that comes from which JAX refuses: notes beside the finding."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.running import findings

# JAX has no part in it; that it refuses these programs is tested in test_refusals.py
pytestmark = pytest.mark.once

SPECS = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

SPECS = {{
    "w_in": P(None, "t"),
    "w_out": {spec},
}}


def mlp(params, x):
    return jax.lax.psum(jnp.tanh(x @ params["w_in"]) @ params["w_out"], "t")


def main():
    mesh = jax.make_mesh((4,), ("t",), axis_types=(AxisType.Auto,))
    shapes = {{"w_in": "6 16", "w_out": "16 8"}}
    params = {{name: jnp.ones(tuple(map(int, text.split()))) for name, text in shapes.items()}}
    return jax.shard_map(mlp, mesh=mesh, in_specs=(SPECS, P()), out_specs=P())(params, jnp.ones((2, 6)))


if __name__ == "__main__":
    main()
"""

UNREDUCED = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def log_z(logits):
    peak = {peak}
    total = lax.psum(jnp.sum(jnp.exp(logits - peak[:, None]), axis=-1), "t")
    return jnp.log(total) + peak{beside}


def main():
    mesh = jax.make_mesh((4,), ("t",), axis_types=(AxisType.Auto,))
    logits = jnp.sin(jnp.arange(32.0)).reshape(2, 16)
    return jax.shard_map(log_z, mesh=mesh, in_specs=P(None, "t"), out_specs=P())(logits)


if __name__ == "__main__":
    main()
"""

UNNAMED = """
import functools

import jax
import jax.numpy as jnp


AXIS = "tchba"[3:] + "tchba"[:3]


@functools.partial(jax.pmap{name})
def total(x):
    return averaged(x)


def averaged(x):
    return jax.lax.pmean(jnp.mean(x), AXIS)


def main():
    return total(jnp.sin(jnp.arange(24.0)).reshape(jax.local_device_count(), -1))


if __name__ == "__main__":
    main()
"""

COLLAPSED = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def entropy(logits):
    {normalizer}
    chosen = lax.psum(jnp.sum(logits * logits, axis=-1), "t")
    return jnp.mean(jnp.tanh(log_z) * chosen)


def main():
    mesh = jax.make_mesh((4,), ("t",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(entropy, mesh=mesh, in_specs=P(None, "t"), out_specs=P())
    return mapped(jnp.sin(jnp.arange(128.0)).reshape(8, 16))


if __name__ == "__main__":
    main()
"""

RIGHT = {
    "collapsed": COLLAPSED.format(
        normalizer='log_z = jnp.log(lax.psum(jnp.sum(jnp.exp(logits), axis=-1), "t"))'
    ),
    "specs": SPECS.format(spec='P("t", None)'),
    "unreduced": UNREDUCED.format(
        peak='lax.pmax(lax.stop_gradient(jnp.max(logits, axis=-1)), "t")', beside=""
    ),
    "unnamed": UNNAMED.format(name=", axis_name=AXIS"),
}
ELSEWHERE = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def loss(x, y):
    error = lax.psum(jnp.sum((x - y) ** 2), {axes})
    return error / lax.psum(jnp.sum(y), ("d", "t"))


def main():
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    apply = jax.shard_map(loss, mesh=mesh, in_specs=P("d", "t"), out_specs=P())
    return jax.jit(apply)(jnp.ones((8, 12)), jnp.ones((8, 12)))


if __name__ == "__main__":
    main()
"""
RIGHT["elsewhere"] = ELSEWHERE.format(axes='("d", "t")')
#: The code, the line of the finding, and the lines and texts of its notes.
WRONG = {
    "specs": (
        SPECS.format(spec='P(None, "t")'),
        ("ST204", 13),
        [(8, "this spec is of the argument that (16, 2) is computed from")],
    ),
    "unreduced": (
        UNREDUCED.format(peak="0.5 * jnp.max(logits, axis=-1)", beside=""),
        ("ST302", 17),
        [
            (9, "jnp.max over 16, which is sharded over 't'"),
            (9, "with a lax.pmax over 't' of this value, it is replicated"),
        ],
    ),
    "two_unreduced": (
        UNREDUCED.format(
            peak="0.5 * jnp.max(logits, axis=-1)", beside=", jnp.min(logits)"
        ),
        ("ST302", 17),
        [
            (9, "jnp.max over 16, which is sharded over 't'"),
            (9, "each device has its own along 't'"),
            (11, "here it meets what is reduced over 't'"),
        ],
    ),
    "collapsed": (
        COLLAPSED.format(normalizer="log_z = jax.nn.logsumexp(logits, axis=-1)"),
        ("ST302", 17),
        [
            (9, "jax.nn.logsumexp over 16, which is sharded over 't'"),
            (16, "its spec is made here"),
            (9, "each device has its own along 't'"),
        ],
    ),
    "elsewhere": (
        ELSEWHERE.format(axes='"d"'),
        ("ST301", 16),
        [
            (9, "jnp.sum over 12, which is sharded over 't'"),
            (15, "its spec is made here"),
            (9, "each device has its own along 't'"),
            (9, "reduced here, but not over 't'"),
        ],
    ),
    "unnamed": (
        UNNAMED.format(name=""),
        ("ST305", 17),
        [(11, "this function is mapped by jax.pmap without axis_name")],
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs_have_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    assert findings(capsys, tmp_path, RIGHT[name]) == []


@pytest.mark.parametrize("name", WRONG)
def test_notes_name_where_it_comes_from(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    text, place, notes = WRONG[name]
    (finding,) = findings(capsys, tmp_path, text)
    assert (finding["code"], finding["line"]) == place
    related = finding["related"]
    assert isinstance(related, list)
    assert [(note["line"], note["message"]) for note in related] == notes


SHAPES = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P


def loss(x, y):
    return jax.lax.pmean(jnp.mean(jnp.square(x - y)), "d")


def main():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(loss, mesh=mesh, in_specs=(P("d"), {spec}), out_specs=P())
    return mapped(jnp.ones((8, 3)), jnp.ones((8, 3)))


if __name__ == "__main__":
    main()
"""


def test_a_finding_without_a_run_has_the_notes_of_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert findings(capsys, tmp_path, SHAPES.format(spec='P("d")')) == []
    (finding,) = findings(capsys, tmp_path, SHAPES.format(spec="P()"))
    assert (finding["code"], finding["line"]) == ("ST311", 8)
    related = finding["related"]
    assert isinstance(related, list)
    texts = [
        f"this spec is of the argument that ({size}, 3) is computed from"
        for size in (2, 8)
    ]
    assert [(note["line"], note["message"]) for note in related] == [
        (13, text) for text in texts
    ]


RESULTS = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

OUT = {spec}


def main():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(jnp.tanh, mesh=mesh, in_specs=P("d"), out_specs=OUT)
    return mapped(jnp.ones((8, 3)))


if __name__ == "__main__":
    main()
"""


def test_a_spec_is_named_where_it_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert findings(capsys, tmp_path, RESULTS.format(spec='P("d")')) == []
    (finding,) = findings(capsys, tmp_path, RESULTS.format(spec="P(None)"))
    assert finding["code"] == "ST301"
    related = finding["related"]
    assert isinstance(related, list)
    assert (6, "its spec is made here") in [
        (note["line"], note["message"]) for note in related
    ]


LAYERS = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, PartitionSpec as P

CONFIG = dict(width=6, layers={layers})


def total(params):
    return jax.lax.psum(jnp.sum(params), "stage")


def main():
    mesh = jax.make_mesh((4,), ("stage",), axis_types=(AxisType.Auto,))
    params = jnp.ones((CONFIG["layers"], CONFIG["width"]))
    return jax.shard_map(total, mesh=mesh, in_specs=P("stage"), out_specs=P())(params)


if __name__ == "__main__":
    main()
"""


def test_a_size_that_is_not_divisible_is_named_where_it_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert findings(capsys, tmp_path, LAYERS.format(layers=8)) == []
    (finding,) = findings(capsys, tmp_path, LAYERS.format(layers=10))
    assert (finding["code"], finding["line"]) == ("ST104", 16)
    related = finding["related"]
    assert isinstance(related, list)
    assert (6, "10 is written here") in [
        (note["line"], note["message"]) for note in related
    ]
    (finding,) = findings(capsys, tmp_path, LAYERS.format(layers=6))
    assert finding["code"] == "ST104"
    assert finding["related"] == []


FIELDS = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from shardtypes import f32, pytree_dataclass, typed_shard_map


@pytree_dataclass
class Head:
    w: f32["M V/t"]
    b: f32["{bias}"]


@typed_shard_map
def logits(head: Head, x: f32["B M"]) -> f32["B V/t"]:
    return x @ head.w + head.b


def main():
    mesh = jax.make_mesh((4,), ("t",), axis_types=(AxisType.Auto,))
    with jax.set_mesh(mesh):
        return logits(Head(jnp.ones((6, 8)), jnp.ones(8)), jnp.ones((2, 6)))


if __name__ == "__main__":
    main()
"""


def test_a_field_that_is_not_sharded_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert findings(capsys, tmp_path, FIELDS.format(bias="V/t")) == []
    (finding,) = findings(capsys, tmp_path, FIELDS.format(bias="V"))
    assert (finding["code"], finding["line"]) == ("ST311", 16)
    related = finding["related"]
    assert isinstance(related, list)
    assert (11, "this spec is of the argument that (8) is computed from") in [
        (note["line"], note["message"]) for note in related
    ]
