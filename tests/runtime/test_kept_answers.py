"""The compiler's answers are kept on disk: a later process asks nothing, and says the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import version as jaxlib_version

import shardtypes as st
from shardtypes import f32, kept_answers
from shardtypes.answers_folder import folder_in_force, keep_in
from tests.support import run_python

PROGRAM = """
import json
import sys

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from shardtypes import ShardingError, _stats, f32, typechecked

_stats.record()
mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)


@typechecked
def checked(x: f32["B/d M"]) -> f32["B/d M"]:
    return jnp.tanh(x)


def loop(x):
    return jax.lax.scan(lambda x, _: (checked(x), None), x, None, length=2)[0]


def moved(x):
    return checked(jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("d"))))


def compiled(x):
    return jax.jit(checked)(x)


def gradient(x):
    return jax.jit(jax.grad(lambda x: checked(checked(x)).sum()))(x)


def mapped(x):
    return jax.jit(jax.vmap(checked, in_axes=1))(jnp.stack([x, x], axis=1))


def branch(x):
    return jax.jit(lambda x: jax.lax.cond(x.sum() < 3, moved, checked, x))(x)


def placed(x):
    return jax.jit(checked, out_shardings=NamedSharding(mesh, P("t")))(x)


def ahead(x):
    return jax.jit(checked).lower(x)


def rematerialised(x):
    return jax.jit(jax.grad(lambda x: jax.checkpoint(checked)(x).sum()))(x)


def drawn(x):
    return jax.jit(lambda x: checked(x + jax.random.normal(jax.random.key(0), x.shape)))(x)


PROGRAMS = [
    compiled, loop, jax.jit(loop), jax.jit(moved), gradient, mapped, branch, placed, ahead, rematerialised, drawn,
]
with jax.set_mesh(mesh):
    for program in PROGRAMS:
        for axis in ("d", "t", None):
            x = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P(axis)))
            try:
                program(x)
            except ShardingError as error:
                print(error, *error.__notes__)
counted = _stats.snapshot()
del counted["seconds"]
print({name: sorted(map(str, found.items())) if isinstance(found, dict) else found for name, found in counted.items()})
"""


def run_program(kept: Path | None, dumped: Path) -> tuple[str, int]:
    """What the program prints, and how often the compiler was given questions."""
    flags = f"--xla_force_host_platform_device_count=8 --xla_dump_to={dumped}"
    env = {"XLA_FLAGS": flags, "JAX_COMPILATION_CACHE_DIR": str(kept or "")}
    done = run_python("-c", PROGRAM, env=env)
    assert done.returncode == 0, done.stderr
    asked = 0
    for path in dumped.glob("*before_optimizations.txt"):
        asked += "InspectSharding" in path.read_text()
        path.unlink()
    return done.stdout, asked


def test_a_later_process_asks_nothing_and_says_the_same(tmp_path: Path) -> None:
    """Alarms in the same words, and the same counts, as without a cache."""
    cache, dumped = tmp_path / "cache", tmp_path / "dumped"
    alone, asked_alone = run_program(None, dumped)
    cold, asked_cold = run_program(cache, dumped)
    entries = sorted((cache / "shardtypes").iterdir())
    warm, asked_warm = run_program(cache, dumped)
    assert alone.count("is sharded over 't', expected sharded over 'd'") > 6
    assert alone.count("is not sharded, expected sharded over 'd'") > 6
    assert cold == alone
    assert warm == alone
    assert asked_alone > 20
    # two of the programs are the same for the compiler
    assert len(entries) <= asked_cold <= asked_alone
    assert len(entries) > 20
    assert asked_warm == 0
    assert sorted((cache / "shardtypes").iterdir()) == entries


@st.typechecked
def double(x: f32["B/d M"]) -> f32["B/d M"]:
    return x * 2


@st.typechecked
def double_over_t(x: f32["B/t M"]) -> f32["B/t M"]:
    return x * 2


@st.typechecked
def double_and_name(x: f32["B/d M"]) -> f32["B/d M"]:
    y: f32["B/d M"] = x * 2
    return y


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    """Where answers are kept: JAX has no cache meanwhile."""
    folder: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]  # JAX adds its options there
    jax.config.update("jax_compilation_cache_dir", None)
    before = keep_in(tmp_path / "kept")
    yield tmp_path / "kept"
    keep_in(before)
    jax.config.update("jax_compilation_cache_dir", folder)


OVER_D = P("d")


def entries_of(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")}


def call(
    function: Callable[..., Any],
    mesh: Mesh,
    spec: P = OVER_D,
    shape: tuple[int, ...] = (8, 16),
    **options: Any,
) -> None:
    """Compile a function anew, for an array that lies so."""
    with jax.set_mesh(mesh):
        x = jax.device_put(jnp.ones(shape), NamedSharding(mesh, spec))
        jax.jit(lambda x: function(x), **options)(x)


def alarm(function: Callable[..., Any], mesh: Mesh, spec: P) -> str:
    """What is said of a function that is compiled anew for an array that does not lie as it says."""
    with pytest.raises(st.ShardingError) as caught:
        call(function, mesh, spec)
    return f"{caught.value} {caught.value.__notes__}"


def constrained(x: jax.Array) -> jax.Array:
    return double(jax.lax.with_sharding_constraint(x, P("d")))


def constrained_twice(x: jax.Array) -> jax.Array:
    return double(jax.lax.with_sharding_constraint(x, P("d", "t")))


def test_whatever_may_change_an_answer_gives_another_entry(
    kept: Path, auto_mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    auto = (AxisType.Auto,) * 2
    devices = auto_mesh.devices
    meshes = [
        Mesh(devices.reshape(4, 2), ("d", "t"), axis_types=auto),
        Mesh(devices.reshape(8, 1), ("d", "t"), axis_types=auto),
        Mesh(devices[::-1], ("d", "t"), axis_types=auto),
        Mesh(devices, ("d", "u"), axis_types=auto),
        Mesh(devices, ("d", "t"), axis_types=(AxisType.Auto, AxisType.Explicit)),
    ]
    lies = NamedSharding(auto_mesh, P("d"))
    changes: list[Callable[[], object]] = [
        lambda: call(double, auto_mesh),
        *(lambda mesh=mesh: call(double, mesh) for mesh in meshes),
        lambda: alarm(double, auto_mesh, P("d", "t")),
        lambda: call(double, auto_mesh, shape=(16, 8)),
        lambda: call(double, auto_mesh, shape=(8, 32)),
        lambda: call(constrained, auto_mesh, P("t")),
        lambda: alarm(constrained_twice, auto_mesh, P("t")),
        lambda: call(double_and_name, auto_mesh),
        lambda: call(double, auto_mesh, out_shardings=lies),
        lambda: call(
            double, auto_mesh, compiler_options={"xla_cpu_enable_fast_math": True}
        ),
    ]
    for change in changes:
        before = entries_of(kept)
        cold = change()
        once = entries_of(kept)
        assert len(once) > len(before)
        assert change() == cold
        assert entries_of(kept) == once
    for target, name in ((jax, "__version__"), (jaxlib_version, "__version__")):
        before = entries_of(kept)
        with monkeypatch.context() as patched:
            patched.setattr(target, name, "0.0.1")
            call(double, auto_mesh)
        assert len(entries_of(kept) - before) == 1
    before = entries_of(kept)
    with monkeypatch.context() as patched:
        patched.setenv("XLA_FLAGS", os.environ["XLA_FLAGS"] + " ")
        call(double, auto_mesh)
    assert len(entries_of(kept) - before) == 1
    call(double, auto_mesh)
    assert len(entries_of(kept) - before) == 1


def test_in_shardings_give_another_entry(kept: Path, auto_mesh: Mesh) -> None:
    """Of an array that nobody placed."""
    with jax.set_mesh(auto_mesh):
        for count, spec in enumerate([P("d"), P("t"), P(None, "t"), P()], start=1):
            lies = NamedSharding(auto_mesh, spec)
            for _ in range(2):
                program = jax.jit(lambda x: constrained(x), in_shardings=lies)
                program(np.ones((8, 16), np.float32))
            assert len(entries_of(kept)) == count


def test_another_annotation_is_compared_with_the_same_answers(
    kept: Path, auto_mesh: Mesh
) -> None:
    """Only what the compiler says is kept: a verdict is made of it anew."""
    call(double, auto_mesh)
    before = entries_of(kept)
    with pytest.raises(st.ShardingError, match="is sharded over 'd', expected"):
        call(double_over_t, auto_mesh)
    with pytest.raises(st.ShardingError, match="is sharded over 't', expected"):
        call(double, auto_mesh, P("t"))
    call(double_over_t, auto_mesh, P("t"))
    call(double, auto_mesh)
    assert len(before) == 1
    assert len(entries_of(kept)) == 2


def truncated(text: str, _: str) -> str:
    return text[: len(text) // 2]


def of_another_program(_: str, other: str) -> str:
    return other


def of_another_sharding(text: str, other: str) -> str:
    return json.dumps({**json.loads(text), "answers": json.loads(other)["answers"]})


def of_another_form(text: str, _: str) -> str:
    return json.dumps([text])


def nested_too_deep(_: str, __: str) -> str:
    return "[" * 100_000


def no_text(_: str, __: str) -> str:
    return ""


@pytest.mark.parametrize(
    "damage",
    [
        truncated,
        of_another_program,
        of_another_sharding,
        of_another_form,
        nested_too_deep,
        no_text,
    ],
)
def test_a_damaged_entry_is_written_anew(
    damage: Callable[[str, str], str], kept: Path, auto_mesh: Mesh
) -> None:
    """That of arrays that lie otherwise would be an alarm."""
    call(double, auto_mesh)
    (entry,) = kept.iterdir()
    with pytest.raises(st.ShardingError):
        call(double, auto_mesh, P("t"))
    (other,) = set(kept.iterdir()) - {entry}
    text = entry.read_text()
    assert damage(text, other.read_text()) != text
    entry.write_text(damage(text, other.read_text()))
    call(double, auto_mesh)
    assert entry.read_text() == text
    assert len(entries_of(kept)) == 2


def test_an_entry_that_is_read_is_believed(kept: Path, auto_mesh: Mesh) -> None:
    """So that the tests above say something: with a right sum, wrong answers are an alarm."""
    call(double, auto_mesh)
    (entry,) = kept.iterdir()
    with pytest.raises(st.ShardingError):
        call(double, auto_mesh, P("t"))
    (other,) = set(kept.iterdir()) - {entry}
    answers = json.loads(other.read_text())["answers"]
    summed = {"sum": kept_answers._checksum(entry, answers), "answers": answers}
    entry.write_text(json.dumps(summed))
    with pytest.raises(st.ShardingError, match="is sharded over 't'"):
        call(double, auto_mesh)


def test_entries_are_bounded_in_number(
    kept: Path, auto_mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were used last stay, and files of others."""
    monkeypatch.setattr(kept_answers, "MOST_ENTRIES", 10)
    call(double, auto_mesh)
    (used,) = kept.iterdir()
    for number in range(12):
        (kept / f"{number:040}.json").write_text("{}")
        os.utime(kept / f"{number:040}.json", (number, number))
    (kept / "README").write_text("not ours")
    os.utime(used, (0, 0))
    call(double, auto_mesh)
    assert len(entries_of(kept)) == 14
    call(double_and_name, auto_mesh)
    (new,) = (
        entries_of(kept)
        - {used.name, "README"}
        - {f"{number:040}.json" for number in range(12)}
    )
    youngest = {f"{number:040}.json" for number in range(5, 12)}
    assert entries_of(kept) == {used.name, new, "README", *youngest}


def test_a_folder_that_cannot_be_written_loses_nothing(
    kept: Path, auto_mesh: Mesh
) -> None:
    """A folder stands in the place of an entry, then a file in that of the folder."""
    call(double, auto_mesh)
    (entry,) = kept.iterdir()
    entry.unlink()
    entry.mkdir()
    call(double, auto_mesh)
    assert list(kept.iterdir()) == [entry]
    keep_in(entry.with_name("file") / "kept")
    entry.with_name("file").write_text("")
    call(double, auto_mesh)
    with pytest.raises(st.ShardingError, match="is sharded over 't'"):
        call(double, auto_mesh, P("t"))


FULL = """
import resource
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
"""


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """No file may have a byte: the folder stays empty, and nothing is said."""
    program = """
import sys

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from shardtypes import ShardingError, f32, typechecked


@typechecked
def checked(x: f32["B/d M"]) -> f32["B/d M"]:
    return x * 2


mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
with jax.set_mesh(mesh):
    jax.jit(checked)(jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P("d"))))
    try:
        jax.jit(checked)(jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P("t"))))
    except ShardingError:
        sys.exit(42)
"""
    env = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    full = run_python("-c", FULL + program, env=env)
    assert (full.returncode, full.stdout, full.stderr) == (42, "", "")
    assert list((tmp_path / "shardtypes").iterdir()) == []
    assert run_python("-c", program, env=env).returncode == 42
    assert len(list((tmp_path / "shardtypes").iterdir())) == 2


def test_nothing_is_kept_where_other_code_decides(kept: Path, auto_mesh: Mesh) -> None:
    """A rule of the program's own says how its operation is sharded: it may say something else in the next process."""

    @custom_partitioning
    def negated(x: jax.Array) -> jax.Array:
        return -x

    def partition(mesh: Any, arguments: Any, result: Any) -> Any:
        shardings = tuple(argument.sharding for argument in arguments)
        return mesh, lambda x: -x, result.sharding, shardings

    negated.def_partition(
        infer_sharding_from_operands=lambda mesh, arguments, result: (
            arguments[0].sharding
        ),
        partition=partition,
        sharding_rule="i j -> i j",
    )
    call(lambda x: double(negated(x)), auto_mesh)
    assert not kept.exists()
    call(lambda x: double(-x), auto_mesh)
    assert len(entries_of(kept)) == 1


def test_answers_lie_below_the_cache_that_jax_is_given(
    kept: Path, tmp_path: Path
) -> None:
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path / "jax"))
        assert folder_in_force() == tmp_path / "jax" / "shardtypes"
        jax.config.update("jax_enable_compilation_cache", False)
        assert folder_in_force() == kept
    finally:
        jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", "gs://bucket/jax")
    assert folder_in_force() is None
    jax.config.update("jax_compilation_cache_dir", None)
    assert folder_in_force() == kept
    keep_in(None)
    assert folder_in_force() is None
