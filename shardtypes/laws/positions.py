"""What a position may depend on: itself alone (``independent``), or no later one (``causal``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from shardtypes.laws.arguments import AxesOf, Call, Leaf, call_of, out_axes_of
from shardtypes.laws.changes import changed, with_random_weights
from shardtypes.laws.culprit import culprit
from shardtypes.laws.dependence import Dependence
from shardtypes.laws.differences import differs, largest, on_host, wide
from shardtypes.laws.fillings import judged
from shardtypes.laws.program import Program, program_of
from shardtypes.laws.proofs import affordable, depends
from shardtypes.laws.source import where_of
from shardtypes.laws.verdict import CannotTell, SaysNothing, Verdict
from shardtypes.laws.walk import Host

_POSITIONS = 8
RANDOM_WEIGHTS = "with random numbers for weights that are all zeros or ones"


@dataclass(frozen=True)
class _Law:
    """``may`` says for positions of the result, in front, and of the arguments whether one may depend on the other."""

    name: str
    may: Callable[[Host, Any], Host]
    first: int = 0


_INDEPENDENT = _Law("independent", lambda at, of: at == of)
_CAUSAL = _Law("causal", lambda at, of: at >= of, first=1)


def independent(
    f: Callable[..., Any],
    dim: str = "B",
    /,
    *examples: Any,
    in_axes: Any = ...,
    out_axes: Any = ...,
    sizes: Mapping[str, int] | None = None,
    seeds: int = 3,
    tolerance: float | None = None,
    **named: Any,
) -> Verdict:
    """What is computed for one position of a dimension, such as an example of a batch, depends on no other.

    One position after the other is changed. An argument that has the dimension twice is kept as it is, and so is what
    does not have it.

    Args:
        f: The function.
        dim: The dimension, as the annotations of parameters and result name it.
        examples: Its arguments; what is not given is made from annotations.
        in_axes: Where each argument has the dimension, as ``jax.vmap`` takes it, in place of annotations; None for what
            does not have it.
        out_axes: The same of the result.
        sizes: Sizes of names for arguments that are made; small ones by default.
        seeds: How many changes are tried.
        tolerance: A number of the result has moved if it did by more than this part of the largest of its array; by
            default it goes by dtype.
        named: Arguments by name.
    """
    call = lambda: call_of(f, dim, examples, named, in_axes, out_axes, sizes)  # noqa: E731
    return judged(
        f, call, lambda made: _tried(made, _INDEPENDENT, dim, seeds, tolerance)
    )


def causal(
    f: Callable[..., Any],
    dim: str = "L",
    /,
    *examples: Any,
    in_axes: Any = ...,
    out_axes: Any = ...,
    sizes: Mapping[str, int] | None = None,
    seeds: int = 3,
    tolerance: float | None = None,
    **named: Any,
) -> Verdict:
    """What is computed for one position of a dimension, such as a token, depends on no later one.

    Arguments as those of ``independent``. What is changed is what stands at a position: floats and keys, where there
    are any, else integers, of several arrays those that do not only count. Masks and the numbers of positions stay.
    """
    call = lambda: call_of(f, dim, examples, named, in_axes, out_axes, sizes)  # noqa: E731
    return judged(
        f, call, lambda made: _tried(made, _CAUSAL, dim, seeds, tolerance), masks=True
    )


@dataclass(frozen=True)
class _Leak:
    """A position of a leaf of the result that another one reached, with the arguments of both runs."""

    leaf: int
    at: int
    of: int
    error: float
    where: Host
    base: Sequence[Any]
    other: Sequence[Any]
    random_weights: bool


def _tried(
    call: Call, law: _Law, dim: str, seeds: int, tolerance: float | None
) -> Verdict:
    count = call.size(dim)
    program = program_of(call)
    result = program.results(call.values)
    axes = out_axes_of(call, result, dim)
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(result)]
    placed = list(zip(axes, shapes, strict=True))
    sized = [
        axis if axis is not None and shape[axis] == count else None
        for axis, shape in placed
    ]
    if all(axis is None for axis in sized):
        other = next(shape[axis] for axis, shape in placed if axis is not None)
        raise CannotTell(
            f"the dimension {dim!r} has size {count} in the arguments and {other} in the result"
        )
    search = _Search(call, program, law, sized, count, tolerance)
    leak = next(search.leaks(seeds), None)
    if leak is not None:
        return _failed(call, program, law, dim, sized, leak, _paths(result))
    if call.refilled and not search.mixes:
        raise SaysNothing(f"no position of {dim!r} moves another")
    proof = _proved(call, program, law, sized, count)
    if proof is not None:
        return _right(call, law, dim, proof)
    if not search.moved:
        raise CannotTell(
            f"no result changed with any position of {dim!r}: give other examples"
        )
    tried = ", ".join(map(str, search.positions))
    reason = f"{call.name}: {law.name} in {dim!r}: holds in numbers, positions {tried} changed with {seeds} seeds"
    return Verdict(True, reason)


class _Search:
    def __init__(
        self,
        call: Call,
        program: Program,
        law: _Law,
        axes: AxesOf,
        count: int,
        tolerance: float | None,
    ) -> None:
        self.moved = self.mixes = False
        number = min(_POSITIONS, count - law.first)
        steps = np.linspace(law.first, count - 1, number)
        self.positions = sorted({int(step) for step in np.round(steps)})
        self._call = call
        self._program = program
        self._law = law
        self._axes = axes
        self._count = count
        self._tolerances = program.allowed(tolerance)
        if law is _CAUSAL:
            self._content = content(call)
        else:
            self._content = {leaf.name for leaf in call.leaves}

    def leaks(self, seeds: int) -> Iterator[_Leak]:
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            values = self._values(seed, rng)
            call = self._call.with_values(values)
            before = self._program.run(values)
            if not any(
                np.isfinite(wide(array)).any()
                for array in before
                if array.dtype.kind in "fc"
            ):
                if any(array.dtype.kind in "fc" for array in before):
                    raise SaysNothing(
                        "no number of the result is finite: give other examples"
                    )
            for of in self.positions:
                other = [self._changed(leaf, of, rng) for leaf in call.leaves]
                after = self._program.run(other)
                found = self._compared(before, after, of)
                if found is not None:
                    self._must_repeat(values, before)
                    yield replace(
                        found,
                        base=values,
                        other=other,
                        random_weights=values is not self._call.values,
                    )

    def _values(self, seed: int, rng: np.random.Generator) -> list[Any]:
        if seed == 0:
            return self._call.values
        return with_random_weights(self._call.leaves, rng)

    def _changed(self, leaf: Any, of: int, rng: np.random.Generator) -> Any:
        if not isinstance(leaf.axis, int) or leaf.name not in self._content:
            return leaf.value
        where = np.broadcast_to(
            along(np.arange(self._count) == of, leaf.value.ndim, leaf.axis),
            leaf.value.shape,
        )
        return changed(leaf, where, rng)

    def _compared(self, before: list[Host], after: list[Host], of: int) -> _Leak | None:
        at = np.arange(self._count)
        for number, (one, two, axis) in enumerate(
            zip(before, after, self._axes, strict=True)
        ):
            if axis is None:
                continue
            moved = differs(one, two, self._tolerances[number])
            self.moved |= bool(moved.any())
            elsewhere = along(at != of, moved.ndim, axis)
            self.mixes |= bool((moved & elsewhere).any())
            forbidden = along(~self._law.may(at, of), moved.ndim, axis)
            wrong = moved & forbidden
            if wrong.any():
                others = tuple(other for other in range(wrong.ndim) if other != axis)
                places = np.flatnonzero(wrong.any(others))
                nearest = np.argmin(np.abs(places - of))
                place = int(places[nearest])
                wrong = wrong & along(at == place, wrong.ndim, axis)
                difference = np.abs(wide(one) - wide(two))[wrong]
                error = float(difference.max()) / largest(one, two)
                return _Leak(number, place, of, error, wrong, (), (), False)
        return None

    def _must_repeat(self, values: list[Any], before: list[Host]) -> None:
        again = self._program.run(values)
        for number, (one, two) in enumerate(zip(before, again, strict=True)):
            if differs(one, two, self._tolerances[number]).any():
                raise CannotTell("it gives other results for the same arguments")


def _failed(
    call: Call,
    program: Program,
    law: _Law,
    dim: str,
    axes: AxesOf,
    leak: _Leak,
    paths: list[str],
) -> Verdict:
    canonical = law.may(np.arange(call.size(dim)), leak.of)
    homes = [
        np.broadcast_to(
            along(canonical, on_host(leaf.value).ndim, leaf.axis), leaf.value.shape
        )
        if isinstance(leaf.axis, int)
        else np.zeros(np.shape(leaf.value), bool)
        for leaf in call.leaves
    ]
    place = culprit(
        program, leak.base, leak.other, homes, canonical, leak.leaf, leak.where
    )
    reason = (
        f"{call.name}: not {law.name} in {dim!r}: position {leak.at} of result{paths[leak.leaf]} depends on "
        f"position {leak.of}, which moves it by {leak.error:.2g} of its largest value"
    )
    if place is not None:
        reason += f"; they first mix in {place}"
    if leak.random_weights and any(
        a is not b for a, b in zip(call.values, leak.base, strict=True)
    ):
        reason += f" ({RANDOM_WEIGHTS})"
    return Verdict(
        False,
        reason,
        positions=(leak.at, leak.of),
        where=where_of(place),
    )


def _right(call: Call, law: _Law, dim: str, proof: Dependence) -> Verdict:
    sizes = [f"{name}={size}" for name, size in call.sizes.items()]
    where = " at the sizes of the examples"
    if sizes:
        where = f" at {', '.join(sizes)}"
    assumed = tuple(proof.assumed)
    reason = f"{call.name}: {law.name} in {dim!r}: proved for all values{where}"
    return Verdict(True, "; ".join([reason, *assumed]), proved=True, assumed=assumed)


def _proved(
    call: Call, program: Program, law: _Law, axes: AxesOf, count: int
) -> Dependence | None:
    """What was found to depend on what, if that proves the law."""
    if program.jaxpr is None or not affordable(program.jaxpr, count):
        return None
    at = np.arange(count)
    on = []
    for leaf in call.leaves:
        rank = np.ndim(leaf.value)
        if isinstance(leaf.axis, int):
            changed = at.reshape(-1, *(1,) * rank)
            on.append(changed == along(at, rank, leaf.axis))
        else:
            on.append(np.zeros((count, *(1,) * rank), bool))
    found = depends(program, call, on, count)
    if found is None:
        return None
    dependence, results = found
    for array, axis in zip(results, axes, strict=True):
        if axis is None:
            continue
        for of in range(count):
            forbidden = along(~law.may(at, of), array.ndim - 1, axis)
            if (array[of] & forbidden).any():
                return None
    return dependence


def content(call: Call) -> set[str]:
    """The arguments that hold what stands at the positions; others say where they are, and what may know of what.

    Those are floats and keys, where there are any, else integers that do not only count. Raises ``CannotTell``.
    """
    there = [leaf for leaf in call.leaves if isinstance(leaf.axis, int)]
    found = [leaf for leaf in there if leaf.kind in ("f", "key")]
    if not found:
        found = numbers = [leaf for leaf in there if leaf.kind == "i"]
        if len(numbers) > 1:
            found = [leaf for leaf in numbers if not leaf.made and not _counts(leaf)]
        if len(numbers) > 1 and not found:
            names = ", ".join(leaf.name for leaf in numbers)
            raise CannotTell(
                f"which of {names} are positions is not known: give examples"
            )
    return {leaf.name for leaf in found}


def _counts(leaf: Leaf) -> bool:
    """Whether numbers never go down along the dimension, as positions and the numbers of segments do."""
    assert isinstance(leaf.axis, int)
    return bool(
        (np.diff(on_host(leaf.value).astype(np.int64), axis=leaf.axis) >= 0).all()
    )


def along(values: Host, rank: int, axis: int) -> Host:
    """One value for each position, as an array of so many dimensions that has them at ``axis``."""
    sizes = [1] * rank
    sizes[axis] = values.size
    return values.reshape(sizes)


def _paths(result: Any) -> list[str]:
    return [
        jax.tree_util.keystr(path)
        for path, _ in jax.tree_util.tree_flatten_with_path(result)[0]
    ]
