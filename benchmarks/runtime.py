"""What a check costs at run time, beside its peers, in one process.

Usage: ``python -m benchmarks.runtime``, in an environment with jaxtyping, beartype, typeguard and chex. Times are the
thread's microseconds a call of a function of three arrays, as ``benchmarks/timing.py`` takes them. Ends with status 1
where a cost exceeds its bound.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import beartype
import chex
import flax.struct
import jax
import jax.numpy as jnp
import jaxtyping
import typeguard
from jax.sharding import AxisType
from jaxtyping import Float

import shardtypes
from benchmarks.timing import Repeated, Rounds, added, in_turns, share
from shardtypes import _stats, f32
from shardtypes.answers_folder import keep_in

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


@beartype.beartype
def by_beartype_alone(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return b


@typeguard.typechecked
def by_typeguard_alone(x: jax.Array, w: jax.Array, b: jax.Array) -> jax.Array:
    return b


ALONE, TYPEGUARD_ALONE = "beartype, no shapes", "typeguard, no shapes"
FUNCTIONS = {
    "bare": bare,
    "ifs by hand": by_hand,
    ALONE: by_beartype_alone,
    TYPEGUARD_ALONE: by_typeguard_alone,
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


# A tree of 400 arrays, and a loop that checks as much by hand.
@dataclasses.dataclass
class Layer:
    w: f32["M F"]
    b: f32["F"]


@shardtypes.typechecked
def ours_tree(layers: list[Layer], scales: dict[str, f32["F"]]) -> None:
    return None


def tree_bare(layers, scales):
    return None


def tree_by_hand(layers, scales):
    for layer in layers:
        w, b = layer.w, layer.b
        if w.ndim != 2 or b.ndim != 1:
            raise ValueError("rank")
        if w.shape[1] != b.shape[0]:
            raise ValueError("size")
        if w.dtype != jnp.float32 or b.dtype != jnp.float32:
            raise ValueError("dtype")
    sizes = {scale.shape[0] for scale in scales.values() if scale.ndim == 1}
    if len(sizes) > 1:
        raise ValueError("size")
    for scale in scales.values():
        if scale.ndim != 1 or scale.dtype != jnp.float32:
            raise ValueError("rank or dtype")


ROUNDS = 31
# What a call may add: (title, which, at most this share, of what this one adds).
EAGER, TRACED, COMPILED = "an eager call", "a call in a trace", "a compiled call"
SHARDED_CALL = "an eager call on a mesh, axes in annotations"
TREE, DECORATING = "a tree of 400 arrays", "decorating 1,000 functions"
MADE = "an object that JAX makes of a class that checks its fields"
FIRST = "the first call of a jit on Auto axes"
IMPORTING = "what a program that has JAX imports besides"
RECORDED = ", recorded"
OURS, HOOK, BY_TYPEGUARD = (
    "shardtypes",
    "shardtypes, import hook",
    "typeguard + shardtypes",
)
KEPT = OURS + ", answers on disk"
BY_HAND = "ifs by hand"
BOUNDS = [
    (EAGER, OURS, 1.5, BY_HAND),
    (EAGER, OURS, 0.08, BEARTYPE),
    (EAGER, HOOK, 0.08, BEARTYPE),
    (EAGER, OURS + RECORDED, 1.3, OURS),
    (EAGER, BY_TYPEGUARD, 0.35, TYPEGUARD),
    (TRACED, OURS, 0.1, BEARTYPE),
    (TRACED, HOOK, 0.1, BEARTYPE),
    (TRACED, BY_TYPEGUARD, 0.4, TYPEGUARD),
    (SHARDED_CALL, OURS, 3, BY_HAND),
    (SHARDED_CALL, OURS + RECORDED, 1.3, OURS),
    (SHARDED_CALL, BY_TYPEGUARD, 0.45, TYPEGUARD),
    (TREE, OURS, 2, BY_HAND),
    (TREE, OURS + RECORDED, 1.3, OURS),
    (COMPILED, OURS, 1.05, "bare"),
    (COMPILED, BY_TYPEGUARD, 1.05, "bare"),
    (FIRST, OURS, 1.25, "bare"),
    (FIRST, KEPT, 1.2, "bare"),
    (DECORATING, OURS, 1 / 50, "typeguard"),
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
        if refused == (name in ("bare", ALONE, TYPEGUARD_ALONE)):
            raise SystemExit(f"{name} {'checks' if refused else 'does not check'}")


def main() -> int:
    """Run every comparison."""
    arguments = jnp.ones((8, 4)), jnp.ones((4, 3)), jnp.ones(3)
    all_check(arguments)
    versions = f"Python {sys.version.split()[0]}, JAX {jax.__version__}, jaxtyping {jaxtyping.__version__}"
    print(f"{versions}, beartype {beartype.__version__}, chex {chex.__version__}")
    eager = with_recording(calls_of(FUNCTIONS, arguments))
    kept = report(EAGER, in_turns(eager, ROUNDS, 300), "bare")
    kept &= report(TRACED, measure_traced(arguments), "bare")
    kept &= report(SHARDED_CALL, measure_sharded(), "bare")
    kept &= report(TREE, measure_tree(), "bare")
    kept &= report(MADE, measure_made(), "bare")
    compiled = {name: calling(f, arguments) for name, f in FUNCTIONS.items()}
    kept &= report(COMPILED, in_turns(compiled, 5 * ROUNDS, 300), None)
    kept &= report(FIRST, measure_first_calls(), None)
    kept &= report(DECORATING, measure_decorating(), None)
    report(IMPORTING, measure_imports(), "import jax")
    return 0 if kept else 1


def calls_of(
    functions: Mapping[str, Callable[..., Any]], arguments: Sequence[Any]
) -> dict[str, Callable[[], Any]]:
    """What calls each function with the arguments."""
    return {name: (lambda f=f: f(*arguments)) for name, f in functions.items()}


def with_recording(calls: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """The calls, and that of ours once more while recording is on."""
    ours = calls[OURS]

    def recorded(times: int) -> None:
        _stats.record(True)
        for _ in range(times):
            ours()
        _stats.record(False)

    return {**calls, OURS + RECORDED: Repeated(recorded)}


def measure_tree() -> Rounds:
    """Calls with 160 layers of two arrays each, and 80 arrays in a dict."""
    layers = [Layer(jnp.ones((4, 3)), jnp.ones(3)) for _ in range(160)]
    scales = {f"scale_{n}": jnp.ones(3) for n in range(80)}
    functions = {"bare": tree_bare, BY_HAND: tree_by_hand, OURS: ours_tree}
    calls = calls_of(functions, (layers, scales))
    return in_turns(with_recording(calls), ROUNDS, 10)


@flax.struct.dataclass
class Bare:
    w: f32["M F"]
    b: f32["F"]


@shardtypes.typechecked
@flax.struct.dataclass
class Checked:
    w: f32["M F"]
    b: f32["F"]


def measure_made() -> Rounds:
    """What making one of its leaves takes, as JAX does for the result of a compiled call."""
    found = {}
    for name, cls in {"bare": Bare, OURS: Checked}.items():
        made = cls(jnp.ones((4, 3)), jnp.ones(3))
        leaves, structure = jax.tree.flatten(made)
        found[name] = lambda s=structure, leaves=leaves: s.unflatten(leaves)
    return in_turns(found, ROUNDS, 300)


def block(x, q, w):
    return x + jax.nn.gelu(jnp.einsum("blm,mn->bln", x, q)) @ w


@shardtypes.typechecked
def checked_block(
    x: f32["B/d L M"], q: f32["M F/t"], w: f32["F/t M"]
) -> f32["B/d L M"]:
    return x + jax.nn.gelu(jnp.einsum("blm,mn->bln", x, q)) @ w


def plain_loss(layers, x):
    for q, w in layers:
        x = block(x, q, w)
    return (x**2).mean()


def checked_loss(layers, x):
    for q, w in layers:
        x = checked_block(x, q, w)
    return (x**2).mean()


LOWERED = "bare, lowered once more"


def measure_first_calls() -> Rounds:
    """The processor's seconds, of all threads, that the first call of a ``jit`` takes on Auto axes, gradients too.

    One of the cases is traced and lowered a second time, from the beginning: no compiler can be asked without that.
    """
    losses = {
        "bare": plain_loss,
        LOWERED: plain_loss,
        OURS: checked_loss,
        KEPT: checked_loss,
    }
    found: Rounds = {name: [] for name in losses}
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
    with jax.set_mesh(mesh), tempfile.TemporaryDirectory() as folder:
        q = shardtypes.shard(jnp.ones((64, 256)), f32["M F/t"])
        w = shardtypes.shard(jnp.ones((256, 64)), f32["F/t M"])
        x = shardtypes.shard(jnp.ones((8, 16, 64)), f32["B/d L M"])
        order = list(losses.items())
        for _ in range(15):
            for name, loss in order:
                before = keep_in(Path(folder) if name == KEPT else None)
                jax.clear_caches()
                start = time.process_time()
                if name == LOWERED:
                    jax.jit(jax.grad(loss)).lower([(q, w)] * 6, x)
                    jax.clear_caches()
                jax.block_until_ready(jax.jit(jax.grad(loss))([(q, w)] * 6, x))
                found[name].append(time.process_time() - start)
                keep_in(before)
            order.reverse()
        if len(os.listdir(folder)) != 1:
            raise SystemExit("the answers of one program are one file")
    return found


def measure_decorating() -> Rounds:
    """Each decorator, on so many functions; typeguard's on a tenth of them, times ten."""
    doors = {
        OURS: (shardtypes.typechecked, ours.__wrapped__),
        "typeguard": (typeguard.typechecked, ours.__wrapped__),
        BEARTYPE: (by_beartype, unchecked_peer),
    }
    several = {
        name: (lambda door=door, f=f: [door(copy_of(f)) for _ in range(100)])
        for name, (door, f) in doors.items()
    }
    found = in_turns(several, 11, 1)
    return {name: [10 * spent for spent in times] for name, times in found.items()}


IMPORTS = {
    "import jax": "",
    "import shardtypes": "import shardtypes",
    "f32 and typechecked": "from shardtypes import f32, typechecked",
    "jaxtyping and beartype": "import jaxtyping, beartype",
}


def measure_imports() -> Rounds:
    """What processes say that an import takes of their thread, once JAX is there."""
    program = (
        "import time, jax, jax.numpy\n"
        "start = time.thread_time()\n"
        "{}\n"
        "print(time.thread_time() - start)"
    )
    found: Rounds = {name: [] for name in IMPORTS}
    for _ in range(5):
        for name, line in IMPORTS.items():
            command = [sys.executable, "-c", program.format(line)]
            output = subprocess.run(command, check=True, capture_output=True, text=True)
            found[name].append(float(output.stdout))
    return found


def measure_traced(arguments: tuple[Any, ...]) -> Rounds:
    """Calls with traced arguments, inside one trace."""
    found: Rounds = {}

    def traced(*values: Any) -> None:
        found.update(
            in_turns(
                calls_of(FUNCTIONS, values),
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
        return in_turns(with_recording(calls_of(SHARDED, values)), ROUNDS, 200)


def calling(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Callable[[], Any]:
    """The compiled form of a function, called."""
    compiled = jax.jit(lambda *a: function(*a))
    return lambda: compiled(*arguments)


if __name__ == "__main__":
    sys.exit(main())
