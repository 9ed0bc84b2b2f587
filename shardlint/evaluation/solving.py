"""``lax.custom_root`` and ``custom_linear_solve`` in guarded code: derivatives of what an equation gives, by the
equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.custom_gradients import linear_transpose
from shardlint.evaluation.derivatives import CustomVjp, detached
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.jacobians import linearize
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.gradient import levels_of
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.creation import zeros_like
from shardtypes.semantics.trees import flatten, map_leaves

Function = Callable[..., Any]


def _is_derived(tree: Any) -> bool:
    """Whether a tree depends on what a derivative is taken by. Raises NotEvaluable for a derivative of one."""
    leaves = [leaf for leaf in flatten(tree)[0] if isinstance(leaf, Array)]
    is_derived = any(leaf.node is not None for leaf in leaves)
    if is_derived and len(levels_of(leaves)) > 1:
        raise NotEvaluable("a second derivative of a solution")
    return is_derived


def _added(tree: Any, other: Any) -> Any:
    return map_leaves(lambda one, more: one + more, tree, other)


def _without_value(tree: Any) -> Any:
    """Zeros that depend on what a tree depends on."""
    return map_leaves(lambda leaf: leaf - detached(leaf), tree)


@provide("jax.lax.custom_root")
def custom_root(
    f: Function,
    initial_guess: Any,
    solve: Function,
    tangent_solve: Function,
    has_aux: bool = False,
) -> Any:
    found = solve(f, detached(map_leaves(asarray, initial_guess)))
    solution, aux = found if has_aux else (found, None)
    solution = detached(map_leaves(asarray, solution))
    residual = map_leaves(asarray, f(solution))
    if _is_derived(residual):
        _, push = linearize(f, solution)
        step = tangent_solve(push, _without_value(residual))
        solution = map_leaves(lambda x, change: x - change, solution, step)
    return (solution, detached(aux)) if has_aux else solution


@provide("jax.lax.custom_linear_solve")
def custom_linear_solve(
    matvec: Function,
    b: Any,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    given = map_leaves(asarray, b)
    found = solve(matvec, detached(given))
    solution, aux = found if has_aux else (found, None)
    solution = detached(map_leaves(asarray, solution))
    product = map_leaves(asarray, matvec(solution))
    residual = map_leaves(lambda one, other: one - other, given, product)
    if _is_derived(residual):
        backward = _Transposed(matvec, solve, transpose_solve, symmetric, has_aux)
        step = CustomVjp(lambda right: map_leaves(zeros_like, right))
        step.defvjp(_Forward(), backward)
        solution = _added(solution, step(residual))
    return (solution, detached(aux)) if has_aux else solution


class _Forward:
    """The change of a solution, which is none."""

    def __call__(self, right: Any) -> Any:
        return map_leaves(zeros_like, right), None


class _Transposed:
    """What takes cotangents of a solution back to the right side: the solution of the transposed equation."""

    def __init__(
        self,
        matvec: Function,
        solve: Function,
        transpose_solve: Function | None,
        symmetric: bool,
        has_aux: bool,
    ) -> None:
        self.matvec = matvec
        self.solve = solve
        self.transpose_solve = transpose_solve
        self.symmetric = symmetric
        self.has_aux = has_aux

    def __call__(self, kept: None, cotangents: Any) -> Any:
        given = detached(cotangents)
        if self.symmetric:
            found = self.solve(self.matvec, given)
        elif self.transpose_solve is None:
            raise NotEvaluable(
                "the gradient of a custom_linear_solve without a transpose"
            )
        else:
            back = linear_transpose(self.matvec, given)
            found = self.transpose_solve(lambda x: back(x)[0], given)
        solution = found[0] if self.has_aux else found
        return (detached(map_leaves(asarray, solution)),)
