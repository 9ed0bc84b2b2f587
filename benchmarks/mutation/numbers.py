"""The truth about shardings: what eight devices compute, beside what one computes; and where results lie.

Concrete programs on small sizes: every number that comes out of a program on a mesh of 2 by 4 must be the one that a
single device gets. Where the numbers cannot tell, as under ``jit``, the layout of the result must be the original's.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.mutation.promises import described
from shardtypes.fields import field_types, is_pytree_dataclass

Outcome = tuple[list[np.ndarray], list[str]]
"""All numbers of a result, and the layout of each array."""

Run = Callable[[int, int], Outcome]
"""A call on a mesh of ``d`` by ``t`` devices."""


class Differs(Exception):
    """The numbers, or the layout, are not those of the original."""


def make_mesh(d: int, t: int) -> jax.sharding.Mesh:
    """A mesh over the first ``d * t`` devices."""
    automatic = (jax.sharding.AxisType.Auto,) * 2
    return jax.make_mesh(
        (d, t), ("d", "t"), axis_types=automatic, devices=jax.devices()[: d * t]
    )


def outcome(result: Any, *, layouts: bool = False) -> Outcome:
    """The numbers of a tree of arrays."""
    leaves = [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, jax.Array)]
    lies = (
        [str(leaf.sharding.shard_shape(leaf.shape)) for leaf in leaves]
        if layouts
        else []
    )
    return [np.asarray(leaf, np.float32) for leaf in leaves], lies


def compare(found: Outcome, wanted: Outcome, tolerance: float) -> None:
    """Raises ``Differs``."""
    if len(found[0]) != len(wanted[0]):
        raise Differs("another number of results")
    for mine, theirs in zip(found[0], wanted[0], strict=True):
        if mine.shape != theirs.shape:
            raise Differs(f"shape {mine.shape}, on one device {theirs.shape}")
        near = np.isclose(
            mine,
            theirs,
            rtol=tolerance,
            atol=tolerance * (1e-3 + np.abs(theirs).max(initial=0.0)),
        )
        # Low precision and optimizers that take signs turn a few tiny differences into visible ones.
        if np.mean(near) < (1.0 if tolerance < 1e-3 else 0.9):
            raise Differs(f"{mine.ravel()[:2]}, on one device {theirs.ravel()[:2]}")
    if found[1] != wanted[1]:
        raise Differs("another layout")


def runs(modules: Mapping[str, types.ModuleType]) -> tuple[dict[str, Run], float]:
    """The calls of a program, and how exact they are."""
    for module, (driver, tolerance) in _DRIVERS.items():
        if module in modules:
            return driver(modules), tolerance
    found: dict[str, Run] = {}
    for name, function in own_functions(modules):
        found[name] = lambda d, t, f=function: _annotated(f, d, t, has_layouts(modules))
    return found, 1e-4


def own_functions(
    modules: Mapping[str, types.ModuleType],
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions that a program defines for others."""
    for module, loaded in modules.items():
        for name, value in vars(loaded).items():
            own = getattr(value, "__module__", None) == module and not name.startswith(
                "_"
            )
            if own and callable(value) and not isinstance(value, type):
                yield f"{module}.{name}", value


def has_layouts(modules: Mapping[str, types.ModuleType]) -> bool:
    """Whether the layouts of results are compared, which takes a run on eight devices."""
    return bool(modules.keys() & {"flax_logical.train", "placed"})


def _annotated(function: Callable[..., Any], d: int, t: int, layouts: bool) -> Outcome:
    """A function of annotated arrays, called with drawn numbers."""
    arguments = arguments_of(function)
    with jax.set_mesh(make_mesh(d, t)):
        return outcome(jax.jit(function)(*arguments), layouts=layouts and d * t > 1)


def arguments_of(function: Callable[..., Any]) -> list[Any]:
    """Numbers for a function of annotated arrays; every dimension divides by eight."""
    hints = typing.get_type_hints(inspect.unwrap(function))
    sizes: dict[str, int] = {}
    draw = np.random.default_rng(0)
    return [
        _drawn(hints[name], sizes, draw)
        for name in inspect.signature(function).parameters
    ]


def _drawn(hint: Any, sizes: dict[str, int], draw: np.random.Generator) -> Any:
    if is_pytree_dataclass(hint):
        return hint(
            **{
                field: _drawn(wanted, sizes, draw)
                for field, wanted in field_types(hint).items()
            }
        )
    array = described(hint)
    assert array is not None
    for dim in array.shape.dims:
        for name in sorted(dim.size.symbols) if dim.size is not None else ():
            sizes.setdefault(name, 8 * (len(sizes) + 1))
    shape = [
        dim.size.evaluate(sizes) if dim.size is not None else 8
        for dim in array.shape.dims
    ]
    if jnp.issubdtype(array.dtype, jnp.integer):
        return jnp.asarray(draw.integers(0, 8, shape), array.dtype)
    return jnp.asarray(draw.normal(size=shape), array.dtype)


# --- the example models -----------------------------------------------------------------------------------------------


def _transformer(modules: Mapping[str, types.ModuleType]) -> dict[str, Run]:
    model, train = modules["transformer.model"], modules["transformer.train"]

    def steps(d: int, t: int) -> Outcome:
        tokens = np.random.default_rng(0).integers(0, 32, (4, 9)).astype(np.uint32)
        with jax.set_mesh(make_mesh(d, t)):
            state, seen = train.init_state(0, model.Config()), []
            batch = model.Batch(
                tokens=jnp.asarray(tokens[:, :-1]), targets=jnp.asarray(tokens[:, 1:])
            )
            for count in range(2):
                state, metrics = train.train_step(state, jnp.uint32(count), batch)
                seen.append(metrics)
            return outcome((seen, state.weights))

    return {"train_step": steps}


def _flax_logical(modules: Mapping[str, types.ModuleType]) -> dict[str, Run]:
    model, train = modules["flax_logical.model"], modules["flax_logical.train"]

    def steps(d: int, t: int) -> Outcome:
        draw = np.random.default_rng(0)
        tokens, labels = (
            jnp.asarray(draw.integers(0, n, (4, 8)), jnp.int32) for n in (32, 5)
        )
        mesh = make_mesh(d, t)
        with jax.set_mesh(mesh):
            state = train.init_state(model.Tagger(), 0, mesh)
            before = outcome(state.params, layouts=d * t > 1)
            state, metrics = train.train_step(
                state, tokens, labels, jnp.ones((4, 8), jnp.bool_)
            )
            after = outcome((metrics, state.params))
            return after[0], before[1]

    return {"train_step": steps}


def _pmap_classifier(modules: Mapping[str, types.ModuleType]) -> dict[str, Run]:
    train = modules["pmap_classifier.train"]
    draw = np.random.default_rng(0)
    images = draw.normal(size=(16, 8, 12)).astype(np.float32)
    labels = draw.integers(0, 6, 16).astype(np.int32)

    def step(d: int, t: int) -> Outcome:
        state, seen = train.init_state(0), []
        run = train.make_train_step(d * t)
        for _ in range(2):
            state, value = run(
                state,
                train.split(images, d * t),
                train.split(labels, d * t),
                np.float32(0.1),
            )
            seen.append(value)
        return outcome((seen, state))

    def evaluate(d: int, t: int) -> Outcome:
        params = train.init_state(0).params
        return outcome(
            train.make_evaluate(d * t)(
                params, train.split(images, d * t), train.split(labels, d * t)
            )
        )

    return {"step": step, "evaluate": evaluate}


_DRIVERS: dict[
    str, tuple[Callable[[Mapping[str, types.ModuleType]], dict[str, Run]], float]
] = {
    "transformer.train": (_transformer, 1e-2),
    "flax_logical.train": (_flax_logical, 1e-3),
    "pmap_classifier.train": (_pmap_classifier, 1e-3),
}
