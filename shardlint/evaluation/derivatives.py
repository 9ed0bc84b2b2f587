"""``grad``, ``vjp`` and custom derivatives in guarded code."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import (
    MARK,
    layouts,
    note_cotangent,
    note_rule,
    sending,
    tick,
)
from shardlint.evaluation.mapping import Region, met_in, note_gradient
from shardlint.evaluation.outside import provide
from shardtypes.lang import dtypes
from shardtypes.semantics import gradient
from shardtypes.semantics.array import Array, Node
from shardtypes.semantics.gradient import watched
from shardtypes.semantics.lowerings.collectives import binding, bound, typed
from shardtypes.semantics.lowerings.convert import asarray, constant
from shardtypes.semantics.primitives.structure import zeros_like
from shardtypes.semantics.trees import Structure, flatten, map_leaves, unflatten


def is_float(leaf: Any) -> bool:
    return isinstance(leaf, Array) and bool(
        dtypes.is_kind(leaf.dtype, "floating", "complex")
    )


def _one(result: Any) -> Array:
    array = asarray(result)
    if array.dims != ():
        raise TypeError("the gradient of something that is no scalar")
    return array


def _seed(result: Array) -> Array:
    return replace(constant(1.0, (), result.dtype or "float32"), varying=result.varying)


_levels: ContextVar[tuple[int, ...]] = ContextVar("shardlint_derivatives", default=())
"""The numbers of the derivatives under way, the innermost last."""
_numbers = itertools.count(1)


@contextmanager
def deriving() -> Iterator[int]:
    """In the block, what is computed is derived by something, which has the number that is given."""
    level = next(_numbers)
    token = _levels.set((*_levels.get(), level))
    try:
        yield level
    finally:
        _levels.reset(token)


def _pulled_back(
    results: Sequence[Array],
    cotangents: Sequence[Array],
    inputs: Sequence[Array],
    level: int,
) -> list[Array]:
    """The cotangents of the inputs; what is sent for them is kept where that is asked for."""
    told = sending()
    with nullcontext() if told is None else told.backward():
        return gradient.pulled_back(results, cotangents, inputs, note_cotangent, level)


def _note(fun: Any, given: Any, pulled: Any, calls: Sequence[Region]) -> None:
    """Let a gradient be compared that goes through calls of mapped functions, and is taken by no other derivative."""
    if calls and not _levels.get():
        note_gradient(fun, detached(given), detached(pulled), calls)


def ended(tree: Any) -> Any:
    """What a derivative gives. If it is in no other one, nobody asks how that was computed: arrays that knew would keep
    all that they were computed from, for each step of a training."""
    return tree if _levels.get() else detached(tree)


def inputs_of(leaves: Sequence[Any], level: int) -> list[Any]:
    """The arrays by which the derivative of this level is taken; others as they are."""
    return [watched(typed(leaf), level) if is_float(leaf) else leaf for leaf in leaves]


def start(array: Array, level: int = 0) -> Array:
    """A tangent, or a cotangent, of an array, in which what comes of it is linear: where it starts does not matter."""
    return watched(replace(zeros_like(array), varying=array.varying), level)


def value_and_grad(
    fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any
) -> Any:
    """The function that gives the result and its gradient."""

    def run(*args: Any, **kwargs: Any) -> Any:
        tick(10)
        places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        places = tuple(place % len(args) for place in places)
        given = list(args)
        inputs: list[list[Array]] = []
        structures: list[tuple[Structure, list[Any]]] = []
        with deriving() as level, met_in() as calls:
            for place in places:
                leaves, structure = flatten(map_leaves(asarray, args[place]))
                made = inputs_of(leaves, level)
                given[place] = unflatten(structure, made)
                inputs.append([leaf for leaf in made if is_float(leaf)])
                layouts().note_differentiated(inputs[-1])
                structures.append((structure, made))
            found = fun(*given, **kwargs)
            result, aux = found if has_aux else (found, None)
            scalar = _one(result)
            every = [leaf for group in inputs for leaf in group]
            pulled = _pulled_back([scalar], [_seed(scalar)], every, level)
        taken = iter(pulled)
        gradients = []
        for structure, made in structures:
            gradients.append(
                unflatten(
                    structure,
                    [next(taken) if is_float(leaf) else leaf for leaf in made],
                )
            )
        gradient = gradients[0] if isinstance(argnums, int) else tuple(gradients)
        _note(fun, (args, result), gradient, calls)
        return ended((((result, aux) if has_aux else result), gradient))

    run.__wrapped__ = fun  # type: ignore[attr-defined]  # for whoever asks where it is defined
    run.__name__ = f"value_and_grad({getattr(fun, '__name__', 'a function')})"
    return run


def decorating(make: Callable[..., Any]) -> Callable[..., Any]:
    """A transformation that is a decorator where it is used with options only."""

    @functools.wraps(make)
    def decorate(fun: Any = None, *args: Any, **options: Any) -> Any:
        if fun is None:
            return lambda function: make(function, *args, **options)
        return make(fun, *args, **options)

    return decorate


provide("jax.value_and_grad")(decorating(value_and_grad))


def grad(fun: Any, argnums: Any = 0, has_aux: bool = False, **options: Any) -> Any:
    return without_value(value_and_grad(fun, argnums, has_aux), fun, has_aux)


def without_value(both: Any, fun: Any, has_aux: bool) -> Any:
    """The gradient, and what else the function gives, of what gives its value as well."""

    def run(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    run.__wrapped__ = fun  # type: ignore[attr-defined]  # for whoever asks where it is defined
    run.__name__ = f"grad({getattr(fun, '__name__', 'a function')})"
    return run


provide("jax.grad")(decorating(grad))


@provide("jax.vjp")
def vjp(fun: Any, *primals: Any, has_aux: bool = False, **options: Any) -> Any:
    leaves, structure = flatten(map_leaves(asarray, primals))
    with deriving() as level, met_in() as calls:
        made = inputs_of(leaves, level)
        layouts().note_differentiated(made)
        found = fun(*unflatten(structure, made))
    result, aux = found if has_aux else (found, None)
    outputs, shape = flatten(map_leaves(asarray, result))

    def pull(cotangents: Any) -> Any:
        given, _ = flatten(map_leaves(asarray, cotangents))
        inputs = [leaf for leaf in made if is_float(leaf)]
        taken = iter(_pulled_back(outputs, given, inputs, level))
        made_of = [next(taken) if is_float(leaf) else leaf for leaf in made]
        pulled = unflatten(structure, made_of)
        _note(fun, (primals, result, cotangents), pulled, calls)
        return ended(pulled)

    answer = ended(unflatten(shape, outputs))
    return (answer, pull, ended(aux)) if has_aux else (answer, pull)


# --- custom derivatives -----------------------------------------------------------------------------------------------


def detached(tree: Any) -> Any:
    """A tree whose arrays no longer know how they were computed."""
    return map_leaves(
        lambda leaf: replace(leaf, node=None) if isinstance(leaf, Array) else leaf, tree
    )


def _ruled(args: Any) -> int:
    """The derivative that a rule of the program is for: the innermost one that depends on the arguments. 0 where only
    one is under way."""
    levels = _levels.get()
    if len(levels) < 2:
        return 0
    operands = [leaf for leaf in flatten(args)[0] if is_float(leaf)]
    return max(gradient.levels_of(operands), default=0)


def _outer(tree: Any, level: int) -> Any:
    """A tree as it is for the derivatives around one, which go back through what a rule computes of it."""
    if not level:
        return detached(tree)

    def closed(leaf: Any) -> Any:
        return gradient.closed_for(leaf, level) if isinstance(leaf, Array) else leaf

    return map_leaves(closed, tree)


def _attached(
    results: Any,
    args: Any,
    pull: Callable[[Sequence[Array]], Sequence[Any]],
    level: int,
) -> Any:
    """Results that go back to the arguments by a rule of the program, in the derivative of this ``level``; in those
    around it by what they were computed from."""
    operands = [leaf for leaf in flatten(args)[0] if is_float(leaf)]
    leaves, structure = flatten(map_leaves(asarray, results))
    if not any(operand.node is not None for operand in operands):
        return unflatten(structure, leaves)

    def back(cotangents: Sequence[Array | None]) -> Sequence[Array | None]:
        filled = [
            zeros_like(leaf) if one is None else one
            for leaf, one in zip(leaves, cotangents, strict=True)
        ]
        return list(pull(filled))

    node = Node(tuple(operands), back, len(leaves), only_for=level)
    made = [replace(leaf, node=node, output=i) for i, leaf in enumerate(leaves)]
    if level:
        made = [_both(one, leaf) for one, leaf in zip(made, leaves, strict=True)]
    return unflatten(structure, made)


def _both(first: Array, second: Array) -> Array:
    """One value that goes back in two ways."""
    if second.node is None:
        return first
    nowhere: frozenset[int] = frozenset()  # its cotangent is noted once
    ways = (replace(first, sources=nowhere), replace(second, sources=nowhere))
    node = Node(ways, lambda cotangents: (cotangents[0], cotangents[0]))
    return replace(first, node=node, output=0)


def _for_operands(taken: Sequence[Any], args: Sequence[Any]) -> list[Array | None]:
    """The cotangents that a rule gives for all arguments, those of arrays of floats."""
    found: list[Array | None] = []
    for one, arg in zip(taken, args, strict=True):
        leaves = flatten(arg)[0]
        if one is None:
            found.extend(None for leaf in leaves if is_float(leaf))
            continue
        given = flatten(one, lambda leaf: leaf is None)[0]
        for leaf, cotangent in zip(leaves, given, strict=True):
            if is_float(leaf):
                found.append(None if cotangent is None else asarray(cotangent))
    return found


class CustomVjp:
    """``jax.custom_vjp``."""

    def __init__(self, fun: Any, nondiff_argnums: Any = (), **options: Any) -> None:
        self.fun = fun
        self.static = (
            (nondiff_argnums,)
            if isinstance(nondiff_argnums, int)
            else tuple(nondiff_argnums)
        )
        self.rules: tuple[Any, Any] | None = None
        self.__name__ = getattr(fun, "__name__", "custom_vjp")
        # what its rules compute is computed in a call of it
        self.__code__ = getattr(fun, "__code__", None)

    def defvjp(self, fwd: Any, bwd: Any, **options: Any) -> None:
        self.rules = (fwd, bwd)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tick()
        if kwargs:
            raise NotEvaluable("custom_vjp with arguments by name")
        given = map_leaves(
            lambda leaf: asarray(leaf) if isinstance(leaf, (int, float)) else leaf,
            list(args),
        )
        given = [args[i] if i in self.static else one for i, one in enumerate(given)]
        moving = [one for i, one in enumerate(given) if i not in self.static]
        if not any(
            is_float(leaf) and leaf.node is not None for leaf in flatten(moving)[0]
        ):
            return self.fun(*args)
        if self.rules is None:
            raise NotEvaluable("custom_vjp without rules")
        fwd, bwd = self.rules
        level = _ruled(moving)
        plain = [
            one if i in self.static else _outer(one, level)
            for i, one in enumerate(given)
        ]
        result, residuals = fwd(*plain)
        structure = flatten(result)[1]
        static = [args[i] for i in self.static]
        around = bound()  # the rule runs when the mapped function is long left

        def pull(cotangents: Sequence[Array]) -> Sequence[Any]:
            with binding(around.axes, around.checked):
                taken = note_rule(
                    bwd, bwd(*static, residuals, unflatten(structure, list(cotangents)))
                )
            return _for_operands(taken, moving)

        return _attached(result, moving, pull, level)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


class CustomJvp:
    """``jax.custom_jvp``: the rule is linear in the tangents, and taken back through itself."""

    def __init__(self, fun: Any, nondiff_argnums: Any = ()) -> None:
        self.fun = fun
        self.static = (
            (nondiff_argnums,)
            if isinstance(nondiff_argnums, int)
            else tuple(nondiff_argnums)
        )
        self.rule: Any = None

    def defjvp(self, jvp: Any, **options: Any) -> Any:
        self.rule = jvp
        return jvp

    def defjvps(self, *rules: Any) -> None:
        raise NotEvaluable("custom_jvp with a rule for each argument")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tick()
        given = [
            arg if i in self.static else map_leaves(asarray, arg)
            for i, arg in enumerate(args)
        ]
        moving = [one for i, one in enumerate(given) if i not in self.static]
        if not any(
            is_float(leaf) and leaf.node is not None for leaf in flatten(moving)[0]
        ):
            return self.fun(*args, **kwargs)
        if self.rule is None:
            raise NotEvaluable("custom_jvp without a rule")
        level = _ruled(moving)
        plain = [_outer(one, level) for one in moving]
        tangents = map_leaves(start, plain)
        static = [args[i] for i in self.static]
        result, tangent = self.rule(*static, tuple(plain), tuple(tangents))

        def pull(cotangents: Sequence[Array]) -> Sequence[Any]:
            outputs = [asarray(leaf) for leaf in flatten(tangent)[0]]
            return gradient.pulled_back(outputs, list(cotangents), flatten(tangents)[0])

        return _attached(result, moving, pull, level)


for _cls in (CustomVjp, CustomJvp):
    setattr(_cls, MARK, True)


@provide("jax.custom_vjp")
def _custom_vjp(fun: Any = None, nondiff_argnums: Any = (), **options: Any) -> Any:
    if fun is None:
        return functools.partial(_custom_vjp, nondiff_argnums=nondiff_argnums)
    return CustomVjp(fun, nondiff_argnums)


@provide("jax.custom_jvp")
def _custom_jvp(fun: Any = None, nondiff_argnums: Any = (), **options: Any) -> Any:
    if fun is None:
        return functools.partial(_custom_jvp, nondiff_argnums=nondiff_argnums)
    return CustomJvp(fun, nondiff_argnums)
