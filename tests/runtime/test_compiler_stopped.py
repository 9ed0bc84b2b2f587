"""The compiler is stopped once it has answered every question, and not before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import _stats, f32
from shardtypes.compiled import questions
from shardtypes.questions import answers_due
from tests.support import run_python

PROGRAM = """
import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from shardtypes import ShardingError, f32, typechecked

mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)


@typechecked
def checked(x: f32["B/d M"]) -> f32["B/d M"]:
    return jnp.tanh(x)


with jax.set_mesh(mesh):
    right, wrong = (
        jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P(axis)))
        for axis in ("d", "t")
    )
    jax.jit(checked)(right)
    try:
        jax.jit(checked)(wrong)
    except ShardingError:
        print("reported")
"""


def test_no_code_is_made_of_the_program_with_questions(tmp_path: Path) -> None:
    """Of three compilations, two with questions, the compiler ends that which runs."""
    flags = f"--xla_force_host_platform_device_count=8 --xla_dump_to={tmp_path}"
    done = run_python("-c", PROGRAM, env={"XLA_FLAGS": flags})
    assert (done.returncode, done.stdout) == (0, "reported\n"), done.stderr
    begun = list(tmp_path.glob("*jit_checked*before_optimizations.txt"))
    ended = list(tmp_path.glob("*jit_checked*after_optimizations.txt"))
    assert (len(begun), len(ended)) == (3, 1)
    assert "InspectSharding" not in ended[0].read_text()


@st.typechecked
def double(x: f32["B/d M"]) -> f32["B/d M"]:
    return x * 2


def one_by_one(xs: list[jax.Array]) -> list[jax.Array]:
    inner = jax.jit(lambda x: double(x))
    return [inner(x) for x in xs]


def at_depth(xs: list[jax.Array]) -> list[jax.Array]:
    inner = jax.jit(lambda x: double(x))
    middle = jax.jit(lambda x, y: (inner(x), inner(y)))
    return [z for x in xs for z in middle(xs[0], x)]


def in_loops(xs: list[jax.Array]) -> list[jax.Array]:
    step = jax.jit(lambda x, _: (double(x), None))
    return [jax.lax.scan(step, x, None, length=2)[0] for x in xs]


def in_branches(xs: list[jax.Array]) -> list[jax.Array]:
    inner = jax.jit(lambda x: double(x))
    small = xs[0].sum() < 3
    return [jax.lax.cond(small, lambda x: x, inner, x) for x in xs]


def in_a_condition(xs: list[jax.Array]) -> list[jax.Array]:
    """A condition that ``vmap`` maps stands in the body of the loop, too."""

    def more(x: jax.Array) -> jax.Array:
        return double(x).sum() < 1000

    def loop(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(more, lambda x: x + 1, x)

    return [jax.vmap(loop)(jnp.stack([x, x])) for x in xs]


@pytest.mark.parametrize("at", [None, 1, 2])
@pytest.mark.parametrize(
    "program", [one_by_one, at_depth, in_loops, in_branches, in_a_condition]
)
def test_every_call_of_a_function_is_waited_for(
    program: Callable[..., Any], at: int | None, auto_mesh: Mesh
) -> None:
    """The arrays of one call alone lie in another way than declared."""
    axes = ["t" if call == at else "d" for call in range(3)]
    with jax.set_mesh(auto_mesh):
        xs = [
            jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P(axis)))
            for axis in axes
        ]
        before = _stats.snapshot()["not_possible"]
        if at is None:
            jax.jit(program)(xs)
        else:
            with pytest.raises(st.ShardingError, match="is sharded over 't'"):
                jax.jit(program)(xs)
        assert _stats.snapshot()["not_possible"] == before


def test_answers_are_as_many_as_calls(auto_mesh: Mesh) -> None:
    """``double`` asks of its argument and its result."""
    inner = jax.jit(lambda x: double(x))
    middle = jax.jit(lambda x: inner(inner(x)))

    def program(x: jax.Array) -> jax.Array:
        return middle(middle(middle(x))) + double(x)

    with jax.set_mesh(auto_mesh), questions(program, inside=True) as collector:
        assert collector is not None
        x = jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P("d")))
        lowered = jax.jit(program).lower(x)
        due = answers_due(lowered.compiler_ir("stablehlo"))
        assert sorted(due.values()) == [1, 1, 6, 6]
        lowered.compile()
    assert (collector.asked, collector.answered) == (4, 14)


def test_what_has_no_checks_inside_is_traced_once(auto_mesh: Mesh) -> None:
    """The program itself is traced a second time, with its questions, and an inner one only if it has checks."""
    traced: list[str] = []

    @jax.jit
    def without(x: jax.Array) -> jax.Array:
        traced.append("without")
        return jnp.sin(x)

    @jax.jit
    @st.typechecked
    def within(x: f32["B/d M"]) -> f32["B/d M"]:
        traced.append("within")
        return jnp.cos(x)

    @st.typechecked
    def program(x: f32["B/d M"]) -> f32["B/d M"]:
        traced.append("program")
        return without(x)

    def both(x: jax.Array) -> jax.Array:
        return within(program(x))

    with jax.set_mesh(auto_mesh):
        right, wrong = (
            jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P(axis)))
            for axis in ("d", "t")
        )
        jax.jit(program)(right)
        assert sorted(traced) == ["program", "program", "without"]
        traced.clear()
        jax.jit(both)(right)
        assert sorted(traced) == [
            "program",
            "program",
            "within",
            "within",
            "without",
        ]
        for checked in (program, both):
            with pytest.raises(st.ShardingError, match="is sharded over 't'"):
                jax.jit(checked)(wrong)
