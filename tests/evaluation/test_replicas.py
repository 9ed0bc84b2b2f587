"""What leaves ``shard_map`` as replicated and is not, where ``check_vma`` is off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlint.cli import main
from tests.evaluation.running import in_jax
from tests.evaluation.test_departures import judged

PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

RATE = 0.1


def loss_fn(params, x, y):
    return jnp.mean(jnp.square(jnp.tanh(x @ params["w"]) + params["b"] - y))


def reduced(grads, axes):
    return {{name: lax.pmean(grad, axes) for name, grad in grads.items()}}


def step(params, x, y, key):
{body}


def main():
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    mapped = jax.shard_map(
        step, mesh=mesh, in_specs=(P(), P(("d", "t")), P(("d", "t")), P()), out_specs={out}, check_vma=False
    )
    x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
    params = {{"w": jnp.cos(jnp.arange(6.0)).reshape(3, 2), "b": jnp.zeros(2)}}
    return jax.jit(mapped)(params, x, jnp.ones((16, 2)), jax.random.key(0))


if __name__ == "__main__":
    main()
"""

UPDATE = "    return jax.tree.map(lambda p, g: p - RATE * g, params, grads)"
GRADS = "    grads = jax.grad(loss_fn)(params, x, y)\n"
#: The body, the out_specs, the axes along which results differ, and what the finding points at.
WRONG = {
    "loss": (
        "    return loss_fn(params, x, y)",
        "P()",
        ("d", "t"),
        "jnp.mean(jnp.square",
    ),
    "loss over one axis": (
        "    return lax.pmean(loss_fn(params, x, y), 'd')",
        "P()",
        ("t",),
        "lax.pmean(loss_fn",
    ),
    "gradients": (GRADS + UPDATE, "P()", ("d", "t"), "jax.grad"),
    "gradients over one axis": (
        GRADS + "    grads = reduced(grads, 'd')\n" + UPDATE,
        "P()",
        ("t",),
        "lax.pmean(grad",
    ),
    "one leaf": (
        GRADS + "    grads['w'] = lax.pmean(grads['w'], ('d', 't'))\n" + UPDATE,
        "P()",
        ("d", "t"),
        "jax.grad",
    ),
    "steps of a scan": (
        "    def one(p, _):\n"
        "        grads = reduced(jax.grad(loss_fn)(p, x, y), 't')\n"
        "        return jax.tree.map(lambda p, g: p - RATE * g, p, grads), None\n"
        "    return lax.scan(one, params, length=2)[0]",
        "P()",
        ("d",),
        "",
    ),
    "a count": ("    return (x > 0).sum(0)", "P()", ("d", "t"), "(x > 0)"),
    "a shard that is not named": (
        "    return {'w': x, 'b': x[0] * 0}",
        "{'w': P('d'), 'b': P()}",
        ("t",),
        "",
    ),
    "random numbers": (
        "    key = jax.random.fold_in(key, lax.axis_index('t'))\n    return jax.random.normal(key, (3,))",
        "P()",
        ("t",),
        "jax.random.normal",
    ),
}
RIGHT = {
    "loss": ("    return lax.pmean(loss_fn(params, x, y), ('d', 't'))", "P()"),
    "gradients": (GRADS + "    grads = reduced(grads, ('d', 't'))\n" + UPDATE, "P()"),
    "named": ("    return x", "P(('d', 't'))"),
    "gathered": ("    return lax.all_gather(x, ('d', 't'), tiled=True).sum(0)", "P()"),
    "random numbers of one key": ("    return jax.random.normal(key, (3,))", "P()"),
    "random numbers that are averaged": (
        "    own = jax.random.fold_in(key, lax.axis_index(('d', 't')))\n"
        "    keep = jax.random.bernoulli(own, 0.9, x.shape)\n"
        "    return lax.pmean(loss_fn(params, x * keep, y), ('d', 't'))",
        "P()",
    ),
}

EQUAL = """
def judged(leaves):
    shards = {}
    for leaf in leaves:
        for shard in leaf.addressable_shards:
            shards.setdefault((id(leaf), str(shard.index)), []).append(np.asarray(shard.data))
    return all(np.allclose(many[0], one) for many in shards.values() for one in many)
"""


def program(body: str, out: str) -> str:
    return PROGRAM.format(body=body, out=out)


@pytest.mark.once
@pytest.mark.parametrize("name", WRONG)
def test_what_differs_is_found_where_a_reduction_is_missing(name: str) -> None:
    body, out, axes, at = WRONG[name]
    text = program(body, out)
    judgement = judged(text)
    found = {one.axis: one for one in judgement.unequal}
    found |= {one.axis: one for one in judgement.departures}
    assert set(found) == set(axes), judgement
    for one in judgement.unequal:
        assert one.function == "step"
        assert one.first != one.second
        assert at in text.splitlines()[one.where.place[0] - 1]


@pytest.mark.once
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_the_same_is_not(name: str) -> None:
    judgement = judged(program(*RIGHT[name]))
    assert judgement.unequal == ()
    assert judgement.refusal is None
    assert judgement.has_run


PMAPPED = """
import jax
import jax.numpy as jnp
from jax import lax


def step(w, x):
    loss = jnp.mean(jnp.square(jnp.tanh(x @ w)))
    return {results}


def main():
    x = jnp.sin(jnp.arange(96.0)).reshape(jax.local_device_count(), -1, 3)
    w = jnp.cos(jnp.arange(6.0)).reshape(3, 2)
    return jax.pmap(step, axis_name="d", in_axes=(None, 0), out_axes={out})(w, x)


if __name__ == "__main__":
    main()
"""


@pytest.mark.once
@pytest.mark.parametrize(
    ("results", "out", "paths"),
    [
        ("loss", "None", [""]),
        ("x, 2 * loss, lax.pmean(loss, 'd')", "(0, None, None)", ["1"]),
        ("{'a': lax.pmean(loss, 'd'), 'b': (loss,)}", "None", ["b.0"]),
        ("lax.pmean(loss, 'd')", "None", []),
        ("loss", "0", []),
    ],
)
def test_pmap_takes_the_first_of_what_differs(
    tmp_path: Path, results: str, out: str, paths: list[str]
) -> None:
    text = PMAPPED.format(results=results, out=out)
    judgement = judged(text)
    assert judgement.reasons == ()
    found = (*judgement.unequal, *(one.difference for one in judgement.departures))
    assert [one.path for one in found] == paths
    runs = in_jax(tmp_path, {"program": text}, "def judged(leaves):\n    return True\n")
    assert runs == {"program": True}


@pytest.mark.once
def test_a_reduction_over_other_axes_is_named() -> None:
    body = (
        "    key = jax.random.fold_in(key, lax.axis_index('t'))\n"
        "    drawn = lax.pmean(jax.random.normal(key, (3,)), 'd')\n"
        "    return 2 * drawn"
    )
    text = program(body, "P()")
    (found,) = judged(text).unequal
    assert found.elsewhere is not None
    assert "drawn = lax.pmean(" in text.splitlines()[found.elsewhere.place[0] - 1]
    others = judged(program(*WRONG["a count"][:2])).unequal
    assert [one.elsewhere for one in others] == [None, None]


def test_jax_has_the_same_values(tmp_path: Path) -> None:
    programs = {f"wrong {name}": program(*case[:2]) for name, case in WRONG.items()}
    programs |= {f"right {name}": program(*case) for name, case in RIGHT.items()}
    equal = in_jax(tmp_path, programs, EQUAL)
    assert equal == {name: name.startswith("right") for name in programs}


ALONE = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(jax.sharding.AxisType.Auto,) * 2)


def f(x{of_x}, w{of_w}):
    def local(x, w):
        y = x @ w
        return {result}

    return jax.shard_map(local, mesh=mesh, in_specs=(P(), P(None, "t")), out_specs=P(), check_vma=False)(x, w)
"""


@pytest.mark.once
@pytest.mark.parametrize("annotated", [True, False], ids=["annotated", "bare"])
@pytest.mark.parametrize(
    ("result", "is_right"),
    [
        ("jnp.diff(y, axis=1)", False),
        ("jnp.sort(y, axis=1)", False),
        ("jnp.diff(lax.all_gather(y, 't', axis=1, tiled=True), axis=1)", True),
        ("lax.psum(y.sum(1), 't')", True),
        ("y[:, 0]", True),  # copies may have been given, one after another
    ],
)
def test_a_function_that_nothing_calls(
    result: str,
    is_right: bool,
    annotated: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = (
        {"of_x": ": 'f32[\"B M\"]'", "of_w": ": 'f32[\"M F\"]'"}
        if annotated
        else {"of_x": "", "of_w": ""}
    )
    text = ALONE.format(result=result, **said)
    path = tmp_path / "functions.py"
    path.write_text(
        text.replace("import jax\n", "import jax\nfrom shardtypes import f32\n", 1)
    )
    main([str(path), "--no-cache", "--format", "concise"])
    found = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(str(path))
    ]
    assert (found == []) == is_right, found
    assert all(
        " ST301 " in line or " ST302 " in line or " ST316 " in line for line in found
    )


DRAWN = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((2, 4), ('d', 't'))


def own(key):
    index = jax.lax.axis_index('{axis}')
    return jax.random.fold_in(key, index)


def noisy(x, key):
    noise = jax.random.normal(own(key), x.shape)
    return x + noise


if __name__ == '__main__':
    mapped = jax.shard_map(noisy, mesh=mesh, in_specs=(P('d'), P()), out_specs=P('d'), check_vma=False)
    mapped(jnp.ones((8, 3)), jax.random.key(0))
"""


def test_a_difference_is_shown_where_it_begins_and_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key is of the wrong axis: copies of a shard get other noise. What a rule says of the call is the same."""
    path = tmp_path / "program.py"
    path.write_text(DRAWN.format(axis="d"))
    assert main([str(path), "--no-cache"]) == 0
    capsys.readouterr()
    path.write_text(DRAWN.format(axis="t"))
    assert main([str(path), "--no-cache", "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["code"], finding["line"]) == ("ST301", 15)
    (begun,) = finding["related"]
    assert (begun["line"], begun["message"]) == (10, "it begins to vary here")


HIDDEN = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

mesh = jax.make_mesh((2, 4), ('d', 't'), axis_types=(AxisType.Auto,) * 2)


def fitted(w, x):
    hidden = jnp.tanh(x @ w['up'])
    out = {part}
    return lax.pmean(out.mean(0), 'd')  # on four devices, as the shape says


if __name__ == '__main__':
    specs = {{'up': P(None, 't'), 'down': P('t')}}
    mapped = jax.shard_map(
        lambda w, x: jax.tree.map(lambda leaf: leaf, fitted(w, x)),
        mesh=mesh, in_specs=(specs, P('d')), out_specs=P(), check_vma=False,
    )
    w = {{'up': jnp.sin(jnp.arange(48.0)).reshape(3, 16), 'down': jnp.cos(jnp.arange(32.0)).reshape(16, 2)}}
    mapped(w, jnp.sin(jnp.arange(24.0)).reshape(8, 3))
"""


def test_what_makes_of_shards_what_is_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The finding is at the last reduction; the one that is missing is of a product before it."""
    path = tmp_path / "program.py"
    product = "hidden @ w['down'].reshape(4, 2)"
    path.write_text(HIDDEN.format(part=f"lax.psum({product}, 't')"))
    assert main([str(path), "--no-cache"]) == 0
    capsys.readouterr()
    path.write_text(HIDDEN.format(part=product))
    assert main([str(path), "--no-cache", "--format", "json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["code"], finding["line"]) == ("ST301", 13)
    notes = [(one["line"], one["message"]) for one in finding["related"]]
    assert (12, "each device has its own along 't'") in notes
