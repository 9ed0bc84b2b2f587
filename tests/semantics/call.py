"""A call of a public function of JAX, and what it gives there and here."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import jax
import numpy as np

from shardtypes.semantics.array import Array
from shardtypes.semantics.gradient import pulled_back, watched
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.simulated import Simulated


@dataclass(frozen=True)
class Call:
    """``args`` and ``kwargs`` are numbers, arrays of NumPy, and lists of these. ``smooth`` tells that a gradient is
    compared; ``random`` that only shape and dtype are, as other numbers are drawn."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    smooth: bool = True
    random: bool = False
    close: float = 1e-7

    def __str__(self) -> str:
        return self.name

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        return resolved(self.name)

    @property
    def own(self) -> Callable[..., Any]:
        """Our lowering."""
        return LOWERINGS[self.name]


def resolved(name: str) -> Any:
    """What a qualified name is in JAX."""
    if name.startswith("jax.Array."):
        method = name.removeprefix("jax.Array.")
        return lambda array, *args, **kwargs: getattr(array, method)(*args, **kwargs)
    parts = name.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        return reduce(getattr, parts[cut:], module)
    raise ModuleNotFoundError(name)


@dataclass(frozen=True)
class Function:
    """A public function as an argument: JAX's there, ours here."""

    name: str


def numbers(
    shape: Sequence[int] | int, low: float = -2.0, high: float = 2.0, seed: int = 0
) -> np.ndarray:
    """Floats that are always the same."""
    return np.random.default_rng(seed).uniform(low, high, shape)


def positions(shape: Sequence[int] | int, high: int, seed: int = 0) -> np.ndarray:
    """Integers from 0 below a limit."""
    return np.random.default_rng(seed).integers(0, high, shape, dtype=np.int32)


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc"


def _leaves(tree: Any) -> list[Any]:
    return [
        np.asarray(leaf) if isinstance(leaf, (bool, int, float)) else leaf
        for leaf in jax.tree.leaves(tree)
    ]


def _with(call: Call, made: Iterable[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with other leaves in place of their arrays of floats."""
    rest = iter(made)
    leaves, structure = jax.tree.flatten((call.args, call.kwargs or {}))
    found: tuple[tuple[Any, ...], dict[str, Any]] = structure.unflatten(
        [next(rest) if _is_float(leaf) else leaf for leaf in leaves]
    )
    return found


def inputs(call: Call) -> list[np.ndarray]:
    """The arrays of floats among the arguments."""
    return [
        leaf
        for leaf in jax.tree.leaves((call.args, call.kwargs or {}))
        if _is_float(leaf)
    ]


def _cotangent(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    made = random.normal(size=tuple(shape))
    return (
        made + 1j * random.normal(size=tuple(shape))
        if dtype.startswith("complex")
        else made
    )


@dataclass(frozen=True)
class Outcome:
    """``types`` are shapes and dtypes without 64-bit numbers."""

    types: list[tuple[tuple[int, ...], str]]
    values: list[np.ndarray]
    gradients: list[np.ndarray]


def in_jax(calls: Sequence[Call]) -> list[Outcome]:
    """What several calls give in JAX, all compiled together: that is many times faster than each alone."""
    types = [types_in_jax(call) for call in calls]

    def run(
        given: list[list[jax.Array]],
    ) -> list[tuple[list[jax.Array], list[jax.Array]]]:
        return [_run(call, arrays) for call, arrays in zip(calls, given, strict=True)]

    with jax.enable_x64(True):
        quick = {
            "xla_backend_optimization_level": 0,
            "xla_llvm_disable_expensive_passes": True,
        }
        found = jax.jit(run, compiler_options=quick)([inputs(call) for call in calls])
    return [
        Outcome(
            kinds,
            [np.asarray(one) for one in values],
            [np.asarray(one) for one in gradients],
        )
        for kinds, (values, gradients) in zip(types, found, strict=True)
    ]


def types_in_jax(call: Call) -> list[tuple[tuple[int, ...], str]]:
    given = [
        jax.ShapeDtypeStruct(x.shape, "complex64" if x.dtype.kind == "c" else "float32")
        for x in inputs(call)
    ]
    with jax.enable_x64(False):
        found = jax.eval_shape(lambda arrays: _called(call, arrays), given)
    return [(one.shape, one.dtype.name) for one in found]


def _called(call: Call, given: Sequence[jax.Array]) -> list[jax.Array]:
    args, kwargs = _with(call, given)
    args, kwargs = jax.tree.map(_in_jax, (args, kwargs))
    return [
        jax.numpy.asarray(leaf)
        for leaf in jax.tree.leaves(call.function(*args, **kwargs))
    ]


def _in_jax(leaf: Any) -> Any:
    if isinstance(leaf, Function):
        return resolved(leaf.name)
    return jax.numpy.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _run(call: Call, given: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
    if not call.smooth or not given:
        return _called(call, given), []

    def floats_of(arrays: list[jax.Array]) -> tuple[list[jax.Array], list[jax.Array]]:
        found = _called(call, arrays)
        return [x for x in found if x.dtype.kind in "fc"], found

    smooth, pull, values = jax.vjp(floats_of, given, has_aux=True)
    (gradients,) = pull(
        [
            jax.numpy.asarray(_cotangent(x.shape, x.dtype.name, i))
            for i, x in enumerate(smooth)
        ]
    )
    return values, gradients


def here(call: Call) -> Outcome:
    """What a call gives by our lowering."""
    with evaluation(), np.errstate(all="ignore"):
        given = [watched(_lifted(x)) for x in inputs(call)]
        args, kwargs = _with(call, given)
        args, kwargs = jax.tree.map(
            _plain, (args, kwargs), is_leaf=lambda leaf: isinstance(leaf, Array)
        )
        found = [_as_array(leaf) for leaf in jax.tree.leaves(call.own(*args, **kwargs))]
        gradients: list[Array] = []
        if call.smooth and given:
            smooth = [
                one
                for one in found
                if (one.dtype or "").startswith(("float", "complex"))
            ]
            taken = [
                _lifted(_cotangent(one.shape or (), one.dtype or "", i))
                for i, one in enumerate(smooth)
            ]
            gradients = pulled_back(smooth, taken, given)
    return Outcome(
        [(tuple(one.dims), one.dtype or "") for one in found],
        [_value(x) for x in found],
        [_value(x) for x in gradients],
    )


def _as_array(leaf: Any) -> Array:
    from shardtypes.semantics.lowerings.convert import asarray

    return asarray(leaf)


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, Function):
        return LOWERINGS[leaf.name]
    return _as_array(leaf) if isinstance(leaf, np.ndarray) else leaf


def _value(array: Array) -> np.ndarray:
    assert array.value is not None
    return np.asarray(array.value.parts[0])


def _lifted(x: np.ndarray) -> Array:
    dtype = "complex64" if x.dtype.kind == "c" else "float32"
    return Array(x.shape, dtype, value=Simulated.everywhere(x))
