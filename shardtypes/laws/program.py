"""A function with its arguments, ready to be run often: compiled, in double precision where it allows that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

# no public way to find the programs inside a program
from jax._src.core import jaxprs_in_params
from jax.sharding import NamedSharding

from shardtypes.kept_meshes import forgetting_meshes
from shardtypes.laws.arguments import Call
from shardtypes.laws.differences import on_host, tolerance_of
from shardtypes.laws.verdict import CannotTell, first_line
from shardtypes.laws.walk import Host
from shardtypes.prng_keys import is_key
from shardtypes.switches import enabled

# The name of a newer JAX, and of an older one.
_home: Any = jax if hasattr(jax, "enable_x64") else jax.experimental
_double_precision: Any = _home.enable_x64


def program_of(call: Call) -> Program:
    """Of a law's function with its arguments."""
    return Program(lambda arrays: call(arrays), call.values)


class Program:
    """``call`` takes a list of arrays. Results are leaves, on the host; ``tree`` is their structure.

    Annotations are not checked while it runs: in double precision they do not hold, and a law asks something else.
    Raises ``CannotTell`` where the function does not run at all.
    """

    def __init__(
        self, call: Callable[[list[Any]], Any], leaves: Sequence[Any], wide: bool = True
    ) -> None:
        self._call = call
        self._places = [getattr(leaf, "sharding", None) for leaf in leaves]
        self._types = [getattr(leaf, "dtype", None) for leaf in leaves]
        self.jaxpr: Any = None
        self.tree: Any = None
        self.wide = wide
        error = self._prepared(leaves)
        if error is not None and wide:
            self.wide = False
            error = self._prepared(leaves)
        self._run: Callable[[list[Any]], Any] = (
            call if error is not None else jax.jit(call)
        )
        try:
            results = self.results(leaves)
        except Exception as broken:
            text = first_line(broken)
            raise CannotTell(
                f"it does not run with these arguments: {type(broken).__name__}: {text}"
            ) from broken
        self.tree = jax.tree.structure(results)
        self.tolerances = [self._tolerance(leaf) for leaf in jax.tree.leaves(results)]

    def allowed(self, tolerance: float | None) -> list[float]:
        """How much each result may differ, where nothing else is asked for."""
        if tolerance is None:
            return self.tolerances
        return [tolerance] * len(self.tolerances)

    def _prepared(self, leaves: Sequence[Any]) -> Exception | None:
        try:
            with self.surroundings():
                self.jaxpr = jax.make_jaxpr(self._call)(self.placed(leaves))
        except Exception as error:  # noqa: BLE001 - a function may refuse doubles, or to be traced, in any way
            return error
        return None

    @contextlib.contextmanager
    def surroundings(self) -> Iterator[None]:
        """What it is traced and run in."""
        # What was traced for other precisions or with checks must not be used again.
        with enabled(False), forgetting_meshes():
            if self.wide:
                with _double_precision(True):
                    yield
            else:
                yield

    def placed(self, leaves: Sequence[Any]) -> list[Any]:
        """The arrays in the precision that it runs in, where they were in the example."""
        return [
            self._placed(leaf, place)
            for leaf, place in zip(leaves, self._places, strict=True)
        ]

    def _placed(self, leaf: Any, place: Any) -> Any:
        if not hasattr(leaf, "dtype") or is_key(leaf):
            return leaf
        array = np.asarray(leaf)
        if self.wide and jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(np.float64)
        if isinstance(place, NamedSharding):
            return jax.device_put(array, place)
        return jnp.asarray(array)

    def results(self, leaves: Sequence[Any]) -> Any:
        """The tree that it returns."""
        with self.surroundings():
            return self._run(self.placed(leaves))

    def run(self, leaves: Sequence[Any]) -> list[Host]:
        """The leaves of the result, on the host."""
        return [on_host(leaf) for leaf in jax.tree.leaves(self.results(leaves))]

    def _tolerance(self, leaf: Any) -> float:
        """By the coarsest dtype of a result or on the way to it."""
        own = tolerance_of(on_host(leaf).dtype)
        if own == 0.0 or self.jaxpr is None:
            return own
        return max([own, *map(tolerance_of, _float_types(self.jaxpr.jaxpr))])


def _float_types(jaxpr: Any) -> set[Any]:
    found: set[Any] = set()
    for eqn in jaxpr.eqns:
        for variable in eqn.outvars:
            dtype = getattr(variable.aval, "dtype", None)
            if dtype is not None and jnp.issubdtype(dtype, jnp.inexact):
                found.add(np.dtype(dtype))
        for inner in jaxprs_in_params(eqn.params):
            found |= _float_types(inner)
    return found
