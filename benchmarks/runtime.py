"""What a check costs at run time, beside its peers, in one process.

Usage: ``python -m benchmarks.runtime``, in an environment with jaxtyping, beartype, typeguard and chex. Times are the
thread's microseconds a call of a function of three arrays, as ``benchmarks/timing.py`` takes them. Ends with status 1
where a cost exceeds its bound.
"""

from __future__ import annotations

import importlib
import os
import statistics
import sys
import tempfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import beartype
import chex
import jax
import jax.numpy as jnp
import jaxtyping
import typeguard
from jax.sharding import AxisType
from jaxtyping import Float

import shardtypes
from benchmarks.timing import Rounds, added, in_turns, share
from shardtypes import f32

shardtypes.register_with_typeguard()


def bare(x, w, b):
    return b


@shardtypes.typechecked
def ours(x: f32["B M"], w: f32["M F"], b: f32["F"]) -> f32["F"]:
    return b


@typeguard.typechecked
def by_typeguard(x: f32["B M"], w: f32["M F"], b: f32["F"]) -> f32["F"]:
    return b


def unchecked_peer(
    x: Float[jax.Array, "B M"], w: Float[jax.Array, "M F"], b: Float[jax.Array, "F"]
) -> Float[jax.Array, "F"]:
    return b


def copy_of(function: Any) -> Any:
    """A new function with the same code and annotations."""
    made = types.FunctionType(
        function.__code__, function.__globals__, function.__name__
    )
    made.__annotations__, made.__module__ = (
        dict(function.__annotations__),
        function.__module__,
    )
    made.__qualname__ = function.__qualname__
    return made


# Two decorators, as jaxtyping's documentation has it: typeguard compiles what it finds in the source below its own, and
# takes "B M" there for code.
_X, _W, _B = Float[jax.Array, "B M"], Float[jax.Array, "M F"], Float[jax.Array, "F"]


@jaxtyping.jaxtyped(typechecker=None)
@typeguard.typechecked
def peer_by_typeguard(x: _X, w: _W, b: _B) -> _B:
    return b


BEARTYPE, TYPEGUARD = "jaxtyping + beartype", "jaxtyping + typeguard"
by_beartype = jaxtyping.jaxtyped(typechecker=beartype.beartype)

HOOKED = """
from shardtypes import f32


def hooked(x: f32["B M"], w: f32["M F"], b: f32["F"]) -> f32["F"]:
    return b
"""


def through_hook() -> Callable[..., Any]:
    """The same function, from a module that our import hook loads."""
    with (
        tempfile.TemporaryDirectory() as folder,
        shardtypes.install_import_hook("hooked_for_benchmark"),
    ):
        (Path(folder) / "hooked_for_benchmark.py").write_text(HOOKED)
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("hooked_for_benchmark").hooked
        finally:
            sys.path.remove(folder)


def by_chex(x, w, b):
    chex.assert_rank([x, w, b], [2, 2, 1])
    chex.assert_equal(x.shape[1], w.shape[0])
    chex.assert_equal(w.shape[1], b.shape[0])
    chex.assert_type([x, w, b], jnp.float32)
    return b


def by_hand(x, w, b):
    if x.ndim != 2 or w.ndim != 2 or b.ndim != 1:
        raise ValueError("rank")
    if x.shape[1] != w.shape[0] or w.shape[1] != b.shape[0]:
        raise ValueError("size")
    if x.dtype != jnp.float32 or w.dtype != jnp.float32 or b.dtype != jnp.float32:
        raise ValueError("dtype")
    return b


FUNCTIONS = {
    "bare": bare,
    "ifs by hand": by_hand,
    "chex": by_chex,
    "shardtypes": ours,
    "shardtypes, import hook": through_hook(),
    "typeguard + shardtypes": by_typeguard,
    BEARTYPE: by_beartype(unchecked_peer),
    TYPEGUARD: peer_by_typeguard,
}


# Annotations that name axes, of arrays that lie so; the peers have no such annotations, and check plain ones.
@shardtypes.typechecked
def ours_sharded(x: f32["B/d M"], w: f32["M F/t"], b: f32["F/t"]) -> f32["F/t"]:
    return b


@typeguard.typechecked
def by_typeguard_sharded(x: f32["B/d M"], w: f32["M F/t"], b: f32["F/t"]) -> f32["F/t"]:
    return b


SHARDED = {
    **FUNCTIONS,
    "shardtypes": ours_sharded,
    "typeguard + shardtypes": by_typeguard_sharded,
}
del SHARDED["shardtypes, import hook"]

ROUNDS = 31
# What a call may add: (title, which, at most this share, of what this one adds).
BOUNDS = [
    ("an eager call", "shardtypes", 1 / 5, BEARTYPE),
    ("an eager call", "shardtypes, import hook", 1 / 5, BEARTYPE),
    ("an eager call", "typeguard + shardtypes", 2 / 3, BEARTYPE),
    ("a call in a trace", "shardtypes", 1 / 2, BEARTYPE),
    ("a call in a trace", "shardtypes, import hook", 1 / 2, BEARTYPE),
    ("a call in a trace", "typeguard + shardtypes", 2 / 3, BEARTYPE),
    ("an eager call on a mesh, axes in annotations", "shardtypes", 1 / 5, BEARTYPE),
    (
        "an eager call on a mesh, axes in annotations",
        "typeguard + shardtypes",
        2 / 3,
        BEARTYPE,
    ),
    ("a compiled call", "shardtypes", 1.05, "bare"),
    ("a compiled call", "typeguard + shardtypes", 1.05, "bare"),
    ("decorating 200 functions", "shardtypes", 1 / 5, "typeguard"),
]


def report(title: str, times: Rounds, baseline: str | None) -> bool:
    """Print times, what each adds to the baseline, and its bounds. Returns whether these are kept."""
    base = times[baseline] if baseline else [0.0] * len(next(iter(times.values())))
    kept = True
    print(f"\n{title}")
    for name, spent in times.items():
        line = f"  {name:24}{_micro(statistics.median(spent))}   adds {_micro(added(spent, base))}"
        for of, which, most, peer in BOUNDS:
            if (of, which) == (title, name):
                found = share(spent, times[peer], base)
                kept = kept and found <= most
                line += f"   {found:5.3f} of {peer}, at most {most:.3f}{'' if found <= most else ': EXCEEDED'}"
        print(line)
    return kept


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:12.2f} µs"


def all_check(arguments: tuple[Any, ...]) -> None:
    """Every function but the bare one refuses a wrong size: what checks nothing is no peer."""
    for name, function in FUNCTIONS.items():
        refused = False
        try:
            function(*arguments[:2], jnp.ones(arguments[2].shape[0] + 1))
        except Exception:  # noqa: BLE001 - each has errors of its own
            refused = True
        if refused == (name == "bare"):
            raise SystemExit(f"{name} {'checks' if refused else 'does not check'}")


def main() -> int:
    """Run every comparison."""
    arguments = jnp.ones((8, 4)), jnp.ones((4, 3)), jnp.ones(3)
    all_check(arguments)
    versions = f"Python {sys.version.split()[0]}, JAX {jax.__version__}, jaxtyping {jaxtyping.__version__}"
    print(f"{versions}, beartype {beartype.__version__}, chex {chex.__version__}")
    eager = {name: (lambda f=f: f(*arguments)) for name, f in FUNCTIONS.items()}
    kept = report("an eager call", in_turns(eager, ROUNDS, 300), "bare")
    kept &= report("a call in a trace", measure_traced(arguments), "bare")
    kept &= report(
        "an eager call on a mesh, axes in annotations", measure_sharded(), "bare"
    )
    compiled = {name: calling(f, arguments) for name, f in FUNCTIONS.items()}
    kept &= report("a compiled call", in_turns(compiled, 5 * ROUNDS, 300), None)
    doors = {
        "shardtypes": (shardtypes.typechecked, ours.__wrapped__),
        "typeguard": (typeguard.typechecked, ours.__wrapped__),
        BEARTYPE: (by_beartype, unchecked_peer),
    }
    decorating = {
        name: (lambda door=door, f=f: [door(copy_of(f)) for _ in range(200)])
        for name, (door, f) in doors.items()
    }
    kept &= report("decorating 200 functions", in_turns(decorating, ROUNDS, 1), None)
    return 0 if kept else 1


def measure_traced(arguments: tuple[Any, ...]) -> Rounds:
    """Calls with traced arguments, inside one trace."""
    found: Rounds = {}

    def traced(*values: Any) -> None:
        found.update(
            in_turns(
                {name: (lambda f=f: f(*values)) for name, f in FUNCTIONS.items()},
                ROUNDS,
                100,
            )
        )

    jax.make_jaxpr(traced)(*arguments)
    return found


def measure_sharded() -> Rounds:
    """Calls with arrays on a mesh of eight devices."""
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    with jax.set_mesh(mesh):
        types_ = f32["8/d 4"], f32["4 12/t"], f32["12/t"]
        values = [
            shardtypes.shard(jnp.ones(shape), t)
            for shape, t in zip([(8, 4), (4, 12), 12], types_, strict=True)
        ]
        return in_turns(
            {name: (lambda f=f: f(*values)) for name, f in SHARDED.items()}, ROUNDS, 200
        )


def calling(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Callable[[], Any]:
    """The compiled form of a function, called."""
    compiled = jax.jit(lambda *a: function(*a))
    return lambda: compiled(*arguments)


if __name__ == "__main__":
    sys.exit(main())
