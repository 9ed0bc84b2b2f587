"""What JAX refuses when a program runs is reported at the call, with what it says."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from shardlint.evaluation.judgements import Judgement
from tests.evaluation.test_departures import judged
from tests.support import run

JAX_RUNS = """
import json
import sys
import jax

jax.config.update("jax_num_cpu_devices", 8)
errors = {}
for name, text in json.loads(open(sys.argv[1]).read()).items():
    errors[name] = None
    try:
        exec(compile(text, name, "exec"), {"__name__": "__main__"})
    except Exception as error:
        errors[name] = type(error).__name__
print(json.dumps(errors))
"""


def errors_of(programs: dict[str, str], folder: Path) -> dict[str, str | None]:
    """The types of the errors that JAX ends each program with, on eight devices; None where it ends well."""
    (folder / "programs.json").write_text(json.dumps(programs))
    (folder / "runs.py").write_text(JAX_RUNS)
    ended = run([sys.executable, folder / "runs.py", folder / "programs.json"])
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

ROWS = {rows}


def centre(x):
    total = lax.psum(x.sum(0), "d")
    return {{"mean": total / ROWS, "peak": {peak}}}


def main():
    mesh = jax.make_mesh(({devices},), ("d",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(centre, mesh=mesh, in_specs=P({spec}), out_specs=P())
    {call}


if __name__ == "__main__":
    main()
"""
RIGHT = {
    "rows": 8,
    "peak": 'lax.pmax(x.max(), "d")',
    "devices": 4,
    "spec": '"d"',
    "call": "mapped(jnp.ones((ROWS, 4)))",
}
WRONG = {
    "ST301": {"peak": "x.max()"},
    "ST104": {"rows": 10},
    "ST306": {"spec": '"d", None, None'},
}
PLACED = {
    "a constraint": "lax.with_sharding_constraint({value}, {where})",
    "a placement": "jax.device_put({value}, {where})",
    "in a tree": "lax.with_sharding_constraint([{value}, {value}], {where})",
}


@pytest.mark.once  # JAX has no part in it
@pytest.mark.parametrize("code", WRONG)
def test_a_refusal_is_found_at_the_call(code: str) -> None:
    text = PROGRAM.format(**(RIGHT | WRONG[code]))
    judgement = judged(text)
    assert judgement.refusal is not None
    assert judgement.refusal.code == code
    assert judgement.refusal.message.startswith("JAX refuses this call: ")
    assert "mapped(jnp" in text.splitlines()[judgement.refusal.where.place[0] - 1]


def placed(form: str, spec: str) -> str:
    """The program, which lays an array of two dimensions out before it calls the mapped function."""
    where = f"jax.sharding.NamedSharding(mesh, P({spec}))"
    placing = PLACED[form].format(value="jnp.ones((ROWS, 4))", where=where)
    return PROGRAM.format(**(RIGHT | {"call": f"{placing}\n    {RIGHT['call']}"}))


@pytest.mark.once
@pytest.mark.parametrize("form", PLACED)
def test_a_spec_of_more_entries_than_dimensions_is_refused(form: str) -> None:
    assert judged(placed(form, '"d", None')).refusal is None
    refusal = judged(placed(form, '"d", None, None')).refusal
    assert refusal is not None
    assert refusal.code == "ST306"


def test_jax_refuses_such_specs(tmp_path: Path) -> None:
    programs = {form: placed(form, '"d", None, None') for form in PLACED}
    programs["right"] = placed("a placement", '"d", None')
    assert errors_of(programs, tmp_path) == {"right": None} | dict.fromkeys(
        PLACED, "ValueError"
    )


@pytest.mark.once
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {
            "peak": "x.max()",
            "call": "try:\n        mapped(jnp.ones((8, 4)))\n    except ValueError:\n        pass",
        },
        {"rows": 10, "devices": "jax.device_count()"},
    ],
    ids=["right", "caught by the program", "another number of devices would do"],
)
def test_what_need_not_be_refused_is_not_reported(changed: dict[str, object]) -> None:
    assert judged(PROGRAM.format(**(RIGHT | changed))).refusal is None


def test_jax_says_the_same(tmp_path: Path) -> None:
    programs = {"right": PROGRAM.format(**RIGHT)}
    programs |= {
        name: PROGRAM.format(**(RIGHT | changed)) for name, changed in WRONG.items()
    }
    errors = errors_of(programs, tmp_path)
    assert errors == {"right": None} | dict.fromkeys(WRONG, "ValueError")


SIZES = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

WIDTH = 16


def block(x, w, v):
    h = jnp.tanh(x @ w)
    {body}


def main():
    mesh = jax.make_mesh(({devices},), ("t",), axis_types=(AxisType.Auto,))
    specs = (P(), P(None, "t"), P({spec}))
    apply = jax.jit(jax.shard_map(block, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False))
    {call}


if __name__ == "__main__":
    main()
"""
FITTING = {
    "body": 'return lax.psum(h @ v, "t")',
    "devices": 4,
    "spec": '"t"',
    "call": "apply(jnp.ones((2, WIDTH)), jnp.ones((WIDTH, 32)), jnp.ones((32, WIDTH)))",
}
UNFIT = {
    "columns": {"spec": 'None, "t"'},
    "einsum": {"body": 'return lax.psum(jnp.einsum("bh,hm->bm", h, v.T), "t")'},
    "sum": {"body": "return h + x"},
    "reshape": {"body": "return h.reshape(2, 32)"},
    "joined": {"body": "return jnp.concatenate([h, v])"},
    "selected": {"body": "return jnp.where(h > 0, x, h)"},
    "one row for each device": {
        "body": 'return lax.psum_scatter(h @ v, "t", scatter_dimension=1)'
    },
}


@pytest.mark.once
@pytest.mark.parametrize("name", UNFIT)
def test_shapes_that_do_not_go_together_are_refused(name: str) -> None:
    refusal = judged(SIZES.format(**(FITTING | UNFIT[name]))).refusal
    assert refusal is not None
    assert refusal.code == "ST204"
    assert refusal.message.startswith("JAX refuses this call: ")
    line = SIZES.format(**(FITTING | UNFIT[name])).splitlines()[
        refusal.where.place[0] - 1
    ]
    assert line.strip() == (FITTING | UNFIT[name])["body"]


@pytest.mark.once
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"body": "return h + x[:, :4]", "devices": "jax.device_count()"},
        {
            "spec": 'None, "t"',
            "call": "try:\n        "
            + str(FITTING["call"])
            + "\n    except TypeError:\n        pass",
        },
    ],
    ids=["right", "another number of devices would do", "caught by the program"],
)
def test_shapes_that_may_go_together_are_not(changed: dict[str, object]) -> None:
    assert judged(SIZES.format(**(FITTING | changed))).refusal is None


def test_jax_says_the_same_of_shapes(tmp_path: Path) -> None:
    programs = {"right": SIZES.format(**FITTING)}
    programs |= {
        name: SIZES.format(**(FITTING | changed)) for name, changed in UNFIT.items()
    }
    errors = errors_of(programs, tmp_path)
    assert errors.pop("right", "not run") is None
    assert set(errors.values()) <= {"TypeError", "ValueError"}, errors


BINDING = """
import functools
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def total(x):
    return lax.psum(x.sum(), "d")


def main():
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    x = jnp.arange(8.0)
    {call}


main()
"""

BOUND = {
    "pmap": "jax.pmap(total, axis_name='d')(x)",
    "vmap": "jax.vmap(total, axis_name='d')(x)",
    "pmap in vmap": "jax.vmap(lambda y: jax.pmap(lambda z: total(y) + z)(x), axis_name='d')(x)",
    "shard_map": "jax.shard_map(total, mesh=mesh, in_specs=P('d'), out_specs=P())(x)",
}
UNBOUND = {
    "pmap without a name": "jax.pmap(total)(x)",
    "pmap of another name": "jax.pmap(total, axis_name='e')(x)",
    "after pmap": "total(jax.pmap(total, axis_name='d')(x))",
    "vmap without a name": "jax.vmap(total)(x)",
    "jit": "jax.jit(total)(x)",
    "shard_map over another axis": (
        "jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P('t'), out_specs=P(), axis_names={'t'}, check_vma=False))(x)"
    ),
}


@pytest.mark.once
@pytest.mark.parametrize("name", BOUND)
def test_axes_that_are_bound_are_not_refused(name: str) -> None:
    assert judged(BINDING.format(call=BOUND[name])).refusal is None


@pytest.mark.once
@pytest.mark.parametrize("name", UNBOUND)
def test_axes_that_nothing_binds_are_refused(name: str) -> None:
    refusal = judged(BINDING.format(call=UNBOUND[name])).refusal
    assert refusal is not None
    bound = {"pmap of another name": "'e'", "shard_map over another axis": "'t'"}.get(
        name, "none"
    )
    assert (refusal.code, refusal.message) == (
        "ST305",
        f"JAX refuses this call: mesh axis 'd' is not bound here (bound axes: {bound})",
    )
    assert (
        BINDING.splitlines()[refusal.where.place[0] - 1]
        == '    return lax.psum(x.sum(), "d")'
    )


def test_jax_says_the_same_of_axes(tmp_path: Path) -> None:
    errors = errors_of(
        {name: BINDING.format(call=call) for name, call in (BOUND | UNBOUND).items()},
        tmp_path,
    )
    assert errors == dict.fromkeys(BOUND) | dict.fromkeys(UNBOUND, "NameError")


PAIRED = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def times(w, x):
    return {body}


def step(w, x):
    return {step}


def main():
    n = jax.device_count()
    w = {{"a": jnp.ones((n, 3, 3)), "b": np.ones((n, 3))}}
    return jax.pmap(step, axis_name="d")(w, jnp.ones((n, {rows}, 3)))


main()
"""
SUITABLE = {
    "body": 'x @ w["a"]',
    "step": "jax.vmap(times, in_axes=(None, 0))(w, x)",
    "rows": 5,
}
UNPAIRED = {
    "vmap": ("ST211", {"step": "jax.vmap(times)(w, x)"}),
    "vmap by a number of devices": (
        "ST211",
        {"step": "jax.vmap(times, axis_size=jax.device_count())(w, x)"},
    ),
    "scan": ("ST210", {"step": "lax.scan(lambda c, i: (c, i), 0.0, (w, x))"}),
    "map": ("ST210", {"step": "lax.map(lambda both: times(*both), (w, x))"}),
    "axis of a sum": ("ST208", {"body": 'w["b"].sum(axis=1)'}),
    "axis of a sort": ("ST208", {"body": "jnp.sort(x, axis=-2)"}),
    "axis that is put in": ("ST208", {"body": "jnp.expand_dims(x, 3)"}),
    "axis of numpy": ("ST208", {"body": 'np.max(w["b"], axis=1)'}),
    "axis that is moved": ("ST208", {"body": "jnp.moveaxis(x, 1, 0)"}),
}


def paired(name: str) -> str:
    return PAIRED.format(**(SUITABLE | UNPAIRED[name][1]))


@pytest.mark.once
@pytest.mark.parametrize("name", UNPAIRED)
def test_sizes_and_axes_of_mapped_code_are_refused(name: str) -> None:
    refusal = judged(paired(name)).refusal
    assert refusal is not None
    assert refusal.code == UNPAIRED[name][0]
    assert refusal.message.startswith("JAX refuses this call: ")
    (changed,) = UNPAIRED[name][1].values()
    assert (
        paired(name).splitlines()[refusal.where.place[0] - 1] == f"    return {changed}"
    )


@pytest.mark.once
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {
            "rows": 8,
            "step": "jax.vmap(times, in_axes=(None, 0), axis_size=jax.device_count())(w, x)",
        },
        {"step": "times(w, x) if x.ndim > 2 else jax.vmap(times, (None, 0))(w, x)"},
    ],
    ids=["right", "another number of devices would not do", "never called"],
)
def test_mapped_code_that_fits_is_not_refused(changed: dict[str, object]) -> None:
    assert judged(PAIRED.format(**(SUITABLE | changed))).refusal is None


def test_jax_says_the_same_of_mapped_code(tmp_path: Path) -> None:
    programs = {name: paired(name) for name in UNPAIRED}
    programs["right"] = PAIRED.format(**SUITABLE)
    errors = errors_of(programs, tmp_path)
    assert errors.pop("right", "not run") is None
    assert set(errors.values()) == {"ValueError"}, errors


PEAKS = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


@jax.custom_vjp
def peak(x):
    return lax.pmax(x, "d")


peak.defvjp(lambda x: (peak(x), None), lambda _, c: (c,))


def loss(w, x):
    logits = x * w
    scaled = {scaled}
    return lax.psum(jnp.sum(scaled), "d")


def step(w, x):
    return {step}


def main():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    specs = P(), P("d")
    return jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False)(jnp.ones(3), jnp.ones((8, 3)))


main()
"""
OF_STEP = "jax.grad(loss)(w, x)"
WITHOUT_DERIVATIVE = {
    "stopped too late": (
        'jnp.exp(logits - lax.stop_gradient(lax.pmax(logits, "d")))',
        OF_STEP,
    ),
    "not stopped": ('lax.pmin(logits, "d") * logits', OF_STEP),
    "compared": ('jnp.where(lax.pmax(logits, "d") > 0, logits, 0)', OF_STEP),
    "of a tree": ('lax.pmax({"a": x, "b": logits}, "d")["a"]', OF_STEP),
    "pushed forward": (
        'lax.pmax(logits, "d")',
        "jax.jvp(lambda w: loss(w, x), (w,), (w,))",
    ),
    "in a loop": (
        'lax.scan(lambda c, _: (c + lax.stop_gradient(lax.pmax(c, "d")), None), logits, None, length=2)[0]',
        OF_STEP,
    ),
}
WITH_DERIVATIVE = {
    "stopped": ('jnp.exp(logits - lax.pmax(lax.stop_gradient(logits), "d"))', OF_STEP),
    "stopped before it is made": (
        'logits * lax.pmax(jnp.exp(lax.stop_gradient(logits) * 2), "d")',
        OF_STEP,
    ),
    "of data": ('logits * lax.pmax(x, "d")', OF_STEP),
    "of indices": ('logits * lax.pmax(jnp.argmax(logits, axis=-1), "d")', OF_STEP),
    "of a comparison": ('logits * lax.pmax((logits > 0) * 1, "d")', OF_STEP),
    "by a rule": ("logits * peak(logits)", OF_STEP),
    "without a gradient": ('lax.pmax(logits, "d")', "loss(w, x)"),
    "of the result": ("logits", 'lax.pmax(jax.grad(loss)(w, x), "d")'),
    "of aux": (
        'lax.pmax(lax.stop_gradient(logits), "d")',
        "jax.value_and_grad(lambda w: (loss(w, x), x), has_aux=True)(w)[1].max(0)",
    ),
}


def with_peaks(scaled: str, step: str) -> str:
    return PEAKS.format(scaled=scaled, step=step)


@pytest.mark.once
@pytest.mark.parametrize("name", WITHOUT_DERIVATIVE)
def test_extrema_over_devices_have_no_derivative(name: str) -> None:
    refusal = judged(with_peaks(*WITHOUT_DERIVATIVE[name])).refusal
    assert refusal is not None
    assert refusal.code == "ST217"
    assert "lax.stop_gradient to its operand" in refusal.message


@pytest.mark.once
@pytest.mark.parametrize("name", WITH_DERIVATIVE)
def test_extrema_of_what_no_derivative_is_taken_by_are_not_refused(name: str) -> None:
    assert judged(with_peaks(*WITH_DERIVATIVE[name])).refusal is None


def test_jax_says_the_same_of_extrema(tmp_path: Path) -> None:
    both = WITHOUT_DERIVATIVE | WITH_DERIVATIVE
    errors = errors_of({name: with_peaks(*both[name]) for name in both}, tmp_path)
    refused = {name for name, error in errors.items() if error is not None}
    assert refused == set(WITHOUT_DERIVATIVE), errors


@pytest.mark.once
def test_what_equinox_maps_over_is_not_guessed() -> None:
    maps = {"step": "filter_vmap(times)(w, x)"}
    text = PAIRED.format(**(SUITABLE | maps))
    assert judged(f"from equinox import filter_vmap\n{text}").refusal is None


@pytest.mark.once
def test_a_program_without_a_mistake_is_compared() -> None:
    assert judged(PROGRAM.format(**RIGHT)) == Judgement((), ("d",), ())
