"""Tangents and Jacobians in guarded code: ``jvp``, ``linearize``, ``jacfwd``, ``jacrev`` and ``hessian``.

What takes cotangents back is linear in them, and is computed with primitives itself: taken back once more, it carries
tangents forward. So a primitive says its derivative once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from shardlint.evaluation.derivatives import (
    decorating,
    deriving,
    ended,
    inputs_of,
    is_float,
    start,
    vjp,
)
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import tick
from shardlint.evaluation.mapping import vmap
from shardlint.evaluation.outside import provide
from shardtypes.semantics import gradient
from shardtypes.semantics.array import Array, Arrays
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.creation import eye
from shardtypes.semantics.lowerings.shapes import moveaxis, reshape
from shardtypes.semantics.primitives.structure import zeros_like
from shardtypes.semantics.trees import flatten, map_leaves, unflatten

Push = Callable[..., Any]
"""Tangents of the results for tangents of the arguments."""


@provide("jax.jvp")
def jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The result, and its derivative along the tangents."""
    with deriving() as level:
        result, push, aux = _linearized(fun, tuple(primals), has_aux, level)
        tangent = push(*tangents)
    found = (result, tangent, aux) if has_aux else (result, tangent)
    return ended(found)


@provide("jax.linearize")
def linearize(fun: Any, *primals: Any, has_aux: bool = False) -> Any:
    """The result, and the function that gives its derivative along tangents."""
    with deriving() as level:
        result, push, aux = _linearized(fun, primals, has_aux, level)

    def pushed(*tangents: Any) -> Any:
        return ended(push(*tangents))

    answer = ended(result)
    return (answer, pushed, ended(aux)) if has_aux else (answer, pushed)


def _linearized(
    fun: Any, primals: tuple[Any, ...], has_aux: bool, level: int
) -> tuple[Any, Push, Any]:
    tick(10)
    leaves, structure = flatten(map_leaves(asarray, primals))
    inputs = inputs_of(leaves, level)
    found = fun(*unflatten(structure, inputs))
    result, aux = found if has_aux else (found, None)
    outputs, shape = flatten(map_leaves(asarray, result))
    moving = [leaf for leaf in inputs if is_float(leaf)]
    cotangents = [start(leaf, level) for leaf in outputs]
    back = gradient.pulled_back(outputs, cotangents, moving, level=level)

    def push(*tangents: Any) -> Any:
        given, _ = flatten(map_leaves(asarray, tangents))
        forward = [
            tangent
            for leaf, tangent in zip(inputs, given, strict=True)
            if is_float(leaf)
        ]
        _refuse_more_axes(moving, forward)
        pushed = gradient.pulled_back(back, forward, cotangents, level=level)
        typed = [
            replace(one, varying=leaf.varying)
            for one, leaf in zip(pushed, outputs, strict=True)
        ]
        return unflatten(shape, typed)

    return unflatten(shape, outputs), push, aux


def _refuse_more_axes(primals: Arrays, tangents: Arrays) -> None:
    for primal, tangent in zip(primals, tangents, strict=True):
        if primal.varying is None or tangent.varying is None:
            continue
        if tangent.varying - primal.varying:
            raise NotEvaluable("a tangent that varies over more axes than its value")


# --- Jacobians --------------------------------------------------------------------------------------------------------


def jacrev(fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
    """The Jacobian, a row at a time."""

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, whole = _by_argument(fun, argnums, args, kwargs)
        with deriving():
            found = vjp(whole, *chosen, has_aux=has_aux)
            result, pull = found[0], found[1]
            outputs, shape = flatten(result)
            rows = [_row(pull, outputs, place) for place in range(len(outputs))]
        jacobian = unflatten(shape, [_only(row, argnums) for row in rows])
        return ended((jacobian, found[2]) if has_aux else jacobian)

    return _named(run, "jacrev", fun)


def _row(pull: Any, outputs: Sequence[Array], place: int) -> Any:
    """The derivatives of one array of the results by all arguments."""
    sizes = _shape(outputs[place])

    def pulled(seed: Array) -> Any:
        given = [zeros_like(one) for one in outputs]
        given[place] = seed
        return pull(unflatten(flatten(list(outputs))[1], given))

    taken = vmap(pulled)(_basis(outputs[place]))
    return map_leaves(lambda leaf: reshape(leaf, (*sizes, *_shape(leaf)[1:])), taken)


def jacfwd(fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
    """The Jacobian, a column at a time."""

    def run(*args: Any, **kwargs: Any) -> Any:
        chosen, whole = _by_argument(fun, argnums, args, kwargs)
        inputs, structure = flatten(map_leaves(asarray, chosen))
        with deriving() as level:
            result, push, aux = _linearized(whole, chosen, has_aux, level)
            columns = [
                _column(push, inputs, structure, place) for place in range(len(inputs))
            ]
        shape = flatten(result)[1]
        by_output = [
            _only(unflatten(structure, list(row)), argnums)
            for row in zip(*columns, strict=True)
        ]
        jacobian = unflatten(shape, by_output)
        return ended((jacobian, aux) if has_aux else jacobian)

    return _named(run, "jacfwd", fun)


def _column(
    push: Push, inputs: Sequence[Array], structure: Any, place: int
) -> list[Array]:
    """The derivatives of all results by one array of the arguments."""
    sizes = _shape(inputs[place])

    def pushed(seed: Array) -> Any:
        given = [zeros_like(one) for one in inputs]
        given[place] = seed
        return push(*unflatten(structure, given))

    taken, _ = flatten(vmap(pushed)(_basis(inputs[place])))
    return [
        reshape(moveaxis(leaf, 0, -1), (*_shape(leaf)[1:], *sizes)) for leaf in taken
    ]


def hessian(fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
    """The second derivatives."""
    return jacfwd(jacrev(fun, argnums, has_aux), argnums, has_aux)


for _name, _make in {
    "jax.jacrev": jacrev,
    "jax.jacobian": jacrev,
    "jax.jacfwd": jacfwd,
    "jax.hessian": hessian,
}.items():
    provide(_name)(decorating(_make))


def _by_argument(
    fun: Any, argnums: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], Any]:
    """The arguments by which a derivative is taken, and the function of these alone."""
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def whole(*chosen: Any) -> Any:
        given = list(args)
        for place, one in zip(places, chosen, strict=True):
            given[place] = one
        return fun(*given, **kwargs)

    return tuple(args[place] for place in places), whole


def _only(derivatives: Any, argnums: Any) -> Any:
    """By one argument there is no tuple around."""
    return derivatives[0] if isinstance(argnums, int) else tuple(derivatives)


def _shape(array: Array) -> list[int]:
    return [int(size) for size in array.dims]  # type: ignore[arg-type]  # numbers


def _basis(array: Array) -> Array:
    """All arrays of this shape that are one in one place, stacked."""
    sizes = _shape(array)
    count = math.prod(sizes)
    return cast(reshape(eye(count), (count, *sizes)), array.dtype or "float32")


def _named(made: Any, transformation: str, function: Any) -> Any:
    made.__wrapped__ = function
    made.__name__ = f"{transformation}({getattr(function, '__name__', 'a function')})"
    return made
