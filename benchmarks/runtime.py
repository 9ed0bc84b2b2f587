"""What a check costs at run time, beside its peers: one process, rounds interleaved, best round of each.

Usage: ``python benchmarks/runtime.py``. Times are microseconds a call of a function of three arrays.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable
from typing import Any

import beartype
import jax
import jax.numpy as jnp
import jaxtyping
import typeguard
from jaxtyping import Float

import shardtypes
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


peer = jaxtyping.jaxtyped(typechecker=beartype.beartype)(unchecked_peer)


try:
    import chex  # measured where it is installed
except ModuleNotFoundError:
    chex = None


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
    "shardtypes": ours,
    "typeguard": by_typeguard,
    "jaxtyping + beartype": peer,
    **({"chex, by hand": by_chex} if chex is not None else {}),
}


def measure(cases: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, float]:
    """The microseconds that one call takes, in the best of the rounds: others are disturbed."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
    for _ in range(rounds):
        for name, case in cases.items():
            start = time.perf_counter()
            for _ in range(calls):
                case()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: min(each) for name, each in times.items()}


def report(title: str, times: dict[str, float], baseline: str | None) -> None:
    """Print times, what each adds to the baseline, and that as a share of the peer's."""
    base = times[baseline] if baseline else 0.0
    peer_adds = times["jaxtyping + beartype"] - base
    print(f"\n{title}")
    for name, spent in times.items():
        added = spent - base
        print(f"  {name:22}{spent:10.2f} µs   adds {added:10.2f} µs   {added / peer_adds:6.2f} of the peer")


def main() -> None:
    """Run every comparison."""
    arguments = jnp.ones((8, 4)), jnp.ones((4, 3)), jnp.ones(3)
    print(f"JAX {jax.__version__}, jaxtyping {jaxtyping.__version__}, beartype {beartype.__version__}")
    eager = {name: (lambda f=f: f(*arguments)) for name, f in FUNCTIONS.items()}
    report("an eager call", measure(eager, 30, 300), "bare")
    report("a call in a trace", measure_traced(arguments), "bare")
    compiled = {name: calling(f, arguments) for name, f in FUNCTIONS.items()}
    report("a compiled call", measure(compiled, 30, 300), None)
    doors = {
        "shardtypes": (shardtypes.typechecked, ours.__wrapped__),
        "typeguard": (typeguard.typechecked, ours.__wrapped__),
        "jaxtyping + beartype": (jaxtyping.jaxtyped(typechecker=beartype.beartype), unchecked_peer),
    }
    decorating = {
        name: (lambda door=door, f=f: [door(copy_of(f)) for _ in range(200)]) for name, (door, f) in doors.items()
    }
    report("decorating 200 functions", measure(decorating, 3, 1), None)


def measure_traced(arguments: tuple[Any, ...]) -> dict[str, float]:
    """As ``measure``, of calls with traced arguments, inside one trace."""
    found: dict[str, float] = {}

    def traced(*values: Any) -> None:
        found.update(measure({name: (lambda f=f: f(*values)) for name, f in FUNCTIONS.items()}, 30, 100))

    jax.make_jaxpr(traced)(*arguments)
    return found


def copy_of(function: Any) -> Any:
    """A new function with the same code and annotations."""
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__)
    made.__annotations__, made.__module__ = dict(function.__annotations__), function.__module__
    made.__qualname__ = function.__qualname__
    return made


def calling(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[], Any]:
    """The compiled form of a function, called."""
    compiled = jax.jit(lambda *a: function(*a))
    return lambda: compiled(*arguments)


if __name__ == "__main__":
    main()
