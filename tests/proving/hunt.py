"""``python -m tests.proving.hunt N [SEED]``: look for wrong proofs in N random programs.

Of every value of a program of which a relation is claimed, the relation is held against numbers. Every so often the
numbers themselves, which are those of simulated devices, are held against eight real ones (``--devices``).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

if __name__ == "__main__":
    os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

import jax

from shardtypes.proving.arguments import Layout
from shardtypes.proving.evaluation import Unevaluated
from shardtypes.proving.numbers import Values, run, without_axes
from shardtypes.proving.observed import joined
from shardtypes.proving.propagation import Proved, propagated
from shardtypes.proving.random_draws import Drawn, related_draws, taken
from shardtypes.proving.state import State, same
from shardtypes.proving.tracing import Traced, traced
from tests.proving.programs import Program, drawn


def question(program: Program) -> tuple[Traced, Traced] | None:
    """The program on its mesh and on one device; None where it does not run on one, or JAX cannot derive it."""
    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in program.shapes]
    try:
        many = traced(program.run, tuple(shapes), {}, program.sizes, None)
    except ValueError as error:
        # of an all_to_all that moves the dimension that it splits
        if "Expected cotangent type" not in str(error):
            raise
        return None
    try:
        one = traced(
            program.run, tuple(shapes), {}, dict.fromkeys(program.sizes, 1), None
        )
    except Exception:  # noqa: BLE001 - what it does is possible on one mesh alone
        return None
    return many, one


def own_draws(program: Program, many: Traced, one: Traced) -> Drawn:
    """What devices draw for shards of what one device draws."""
    shapes = [jax.ShapeDtypeStruct(shape, np.float32) for shape in program.shapes]
    return related_draws(
        many.program, one.program, shapes, [Layout()] * len(shapes), program.sizes
    )


def proof(program: Program, many: Traced, one: Traced) -> Proved:
    given = [same(shape) for shape in program.shapes]
    return propagated(
        many.program,
        one.program,
        given,
        program.sizes,
        drawn=own_draws(program, many, one),
    )


def wrong_claims(
    program: Program, many: Traced, one: Traced, proved: Proved, seed: int = 0
) -> list[str]:
    """Claims that numbers contradict."""
    rng = np.random.default_rng(seed)
    draws = [[rng.normal(size=shape) for shape in program.shapes] for _ in range(2)]
    names, partners = (
        set(proved.claims),
        {partner for _, partner in proved.claims.values()},
    )
    pairs = {
        name: partner for name, (_, partner) in own_draws(program, many, one).items()
    }
    on_many = run(many.program, draws, names | set(pairs))
    instead = taken(
        pairs, on_many, many.program, one.program, program.sizes, len(draws)
    )
    on_one = run(one.program, draws, partners, instead)
    found = []
    for name, (state, partner) in proved.claims.items():
        if name not in on_many.inside or partner not in on_one.inside:
            continue
        if not holds(
            state,
            on_many.inside[name],
            without_axes(on_one.inside[partner]),
            program.sizes,
        ):
            step = next(
                step for step in many.program.all_steps() if name in step.results
            )
            found.append(f"{step.primitive} is not {state}")
    return found


_COMBINED: dict[str, Any] = {
    "sum": np.sum,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "and": np.min,
    "or": np.max,
}


def holds(state: State, values: Values, whole: Any, sizes: Mapping[str, int]) -> bool:
    """Whether numbers are related as claimed."""
    whole = np.asarray(whole, np.float64) if whole.dtype.kind != "c" else whole
    if not whole.size or not values.array.size or not np.isfinite(whole).all():
        return True
    array = np.asarray(values.array, whole.dtype)
    if state.zero:
        return not array.any() and not whole.any()
    named = (*state.axes, *state.over)
    before = whole.ndim - state.rank
    left = list(values.axes)
    for axis in [axis for axis in left if axis not in named]:
        at = left.index(axis)
        first = np.take(array, [0], axis=at)
        if not _close(np.broadcast_to(first, array.shape), array):
            return False
        array = np.take(array, 0, axis=at)
        left.remove(axis)
    for axis in [axis for axis in named if axis not in left]:
        array = np.broadcast_to(array, (sizes[axis], *array.shape))
        left.insert(0, axis)
    combined: dict[str, Any] = {
        "sum": np.sum,
        "max": np.max,
        "min": np.min,
        "prod": np.prod,
        "and": np.min,
        "or": np.max,
    }
    for axis, monoid in state.parts:
        array = combined[monoid](array, axis=left.index(axis))
        left.remove(axis)
    array = joined(
        array, left, {dim: axes for dim, axes in enumerate(state.dims) if axes}, before
    )
    for dim in state.uniform:
        if not state.dims[dim]:
            array, whole = (_one_of(part, before + dim) for part in (array, whole))
            if array is None or whole is None:
                return False
    return array.shape == whole.shape and _close(array, whole * float(state.factor))


def _one_of(array: Any, dim: int) -> Any:
    first = np.take(array, [0], axis=dim)
    return first if _close(np.broadcast_to(first, array.shape), array) else None


def _close(a: Any, b: Any) -> bool:
    scale = max(float(np.max(np.abs(b), initial=0.0)), 1e-6)
    return bool(np.all(np.abs(a - b) <= 1e-6 * scale))


def wrong_numbers(program: Program, many: Traced, seed: int = 0) -> float:
    """How far simulated devices are from real ones, relative to the largest number."""
    rng = np.random.default_rng(seed)
    draw = [rng.normal(size=shape) for shape in program.shapes]
    simulated = [values.array[0] for values in run(many.program, [draw], ()).results]
    sizes = tuple(program.sizes.values())
    devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    abstract, program.mesh = (
        program.mesh,
        jax.sharding.Mesh(devices, tuple(program.sizes)),
    )
    try:
        with jax.default_matmul_precision("highest"):
            real = jax.jit(program.run)(*(np.asarray(one, np.float32) for one in draw))
    finally:
        program.mesh = abstract
    worst = 0.0
    for a, b in zip(simulated, real, strict=True):
        b = np.asarray(b, np.float64)
        if np.isfinite(a).all() and np.isfinite(b).all():
            worst = max(
                worst,
                float(np.max(np.abs(a - b), initial=0.0))
                / max(float(np.max(np.abs(a), initial=0.0)), 1.0),
            )
    return worst


def main(arguments: Sequence[str] | None = None) -> None:
    """Hunt, and say what was found."""
    parser = argparse.ArgumentParser(prog="tests.proving.hunt", description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument(
        "--devices",
        type=int,
        default=0,
        help="of so many programs one runs on real devices as well",
    )
    options = parser.parse_args(arguments)
    counts = dict.fromkeys(
        ("programs", "operations", "known", "claims", "wrong", "devices"), 0
    )
    start = time.perf_counter()
    for seed in range(options.seed, options.seed + options.count):
        program = drawn(seed)
        asked = question(program)
        if asked is None:
            continue
        many, one = asked
        found = proof(program, many, one)
        try:
            wrong = wrong_claims(program, many, one, found, seed)
        except Unevaluated as error:
            print(f"not evaluated: {error} {program}")
            continue
        counts["programs"] += 1
        counts["operations"] += found.all
        counts["known"] += found.known
        counts["claims"] += len(found.claims)
        counts["wrong"] += len(wrong)
        for text in wrong[:3]:
            print(f"WRONG: {text}\n  {program}", flush=True)
        if counts["programs"] % 50 == 0:
            jax.clear_caches()  # each program is another; they would pile up
            print(f"{counts}, {time.perf_counter() - start:.0f} s", flush=True)
        if options.devices and seed % options.devices == 0:
            counts["devices"] += 1
            off = wrong_numbers(program, many, seed)
            if off > 1e-3:
                print(f"NUMBERS: off by {off:.3g}\n  {program}", flush=True)
    said = ", ".join(f"{name} {count}" for name, count in counts.items())
    print(f"{said}, {time.perf_counter() - start:.0f} s")
    sys.exit(1 if counts["wrong"] else 0)


if __name__ == "__main__":
    main()
