"""Where the program says that arrays are to lie, outside of mapped code."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from shardlint.evaluation import refusals
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK, Resolver, code_of, layouts
from shardlint.evaluation.layouts import Given, Layout, Layouts, replicated_states
from shardlint.evaluation.meshes import (
    Device,
    Mesh,
    Sharding,
    SingleDevice,
    Spec,
    current,
)
from shardlint.evaluation.outside import provide
from shardlint.evaluation.recording import Where
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.collectives import bound
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.trees import flatten, paths_of, spread_prefix, unflatten


def _is_placement(value: Any) -> bool:
    return value is None or isinstance(value, (Device, Sharding, SingleDevice, Spec))


def layout_of(
    placement: Any, rank: int, by: Where | None = None, is_constrained: bool = False
) -> Layout | None:
    """How an array of this rank lies by a sharding or a spec; None where it says nothing, or its mesh is not known."""
    if isinstance(placement, Sharding):
        mesh, spec = placement.mesh, placement.spec
    else:
        mesh, spec = current(), placement
    if not isinstance(mesh, Mesh) or not isinstance(spec, Spec):
        return None
    sizes = {name: int(size) for name, size in mesh.shape.items()}
    if not spec.mentioned <= sizes.keys():
        return None
    axes = tuple(
        tuple(name for name in names if sizes[name] > 1) for names in spec.axes(rank)
    )
    return Layout(axes, tuple(sizes.items()), spec.where, by, is_constrained)


def _spec_of(placement: Any) -> Spec | None:
    spec = placement.spec if isinstance(placement, Sharding) else placement
    return spec if isinstance(spec, Spec) else None


def _refuse_longer(leaf: Array, placement: Any, path: str) -> None:
    """JAX refuses a spec of more entries than dimensions."""
    spec = _spec_of(placement)
    if spec is not None and len(spec) > leaf.rank:
        raise refusals.is_longer(path, len(spec), leaf.rank, spec.where)


def _refuse_indivisible(leaf: Array, layout: Layout | None, what: str) -> None:
    """JAX refuses to cut a dimension into parts of different sizes."""
    if layout is None:
        return
    sizes = dict(layout.mesh)
    for dimension, axes in enumerate(layout.axes):
        size = int(leaf.dims[dimension])  # type: ignore[arg-type]  # a number
        devices = math.prod(sizes[axis] for axis in axes)
        if size % devices:
            raise refusals.does_not_divide(
                what, dimension, size, axes, devices, layout.spec
            )


def _each(tree: Any, placements: Any) -> list[Any] | None:
    """The placement of each array of a tree; None where it is not known which is whose."""
    try:
        return spread_prefix(placements, tree, _is_placement)
    except ValueError:
        return None


def _array(leaf: Any) -> Any:
    """What is placed is an array of JAX's."""
    is_numeric = (
        isinstance(leaf, (np.ndarray, np.generic)) and leaf.dtype.kind in "biuf"
    )
    return asarray(leaf) if is_numeric else leaf


def _device_put(x: Any, device: Any = None, *args: Any, **options: Any) -> Any:
    return _placed(x, device, is_constrained=False)


def placed(array: Array, placement: Any) -> Any:
    """An array that is made as a sharding says."""
    return _lying(array, placement, "", "the array")


def _with_sharding_constraint(x: Any, shardings: Any = None, **options: Any) -> Any:
    return _placed(x, shardings, is_constrained=True)


def _placed(x: Any, placements: Any, is_constrained: bool) -> Any:
    """A tree as it is to lie."""
    found = _each(x, placements)
    leaves, structure = flatten(x)
    leaves = [_array(leaf) for leaf in leaves]
    if found is None or bound().axes:
        return unflatten(structure, leaves)
    what = None if is_constrained else "the argument"
    made = [
        _lying(leaf, placement, "", what)
        for leaf, placement in zip(leaves, found, strict=True)
    ]
    return unflatten(structure, made)


def _lying(
    leaf: Any, placement: Any, path: str, what: str | None, by: Where | None = None
) -> Any:
    """An array as a placement says; without ``what`` to call it, a constraint, which need not divide it."""
    if not isinstance(leaf, Array) or placement is None:
        return leaf
    if isinstance(placement, SingleDevice):
        placement = placement.device
    if isinstance(placement, Device):
        return layouts().on_device(leaf, placement.id)
    _refuse_longer(leaf, placement, path)
    layout = layout_of(placement, leaf.rank, by, is_constrained=what is None)
    if what is not None:
        _refuse_indivisible(leaf, layout, what)
    return leaf if layout is None else layouts().placed(leaf, layout)


provide("jax.device_put")(_device_put)
for _name in ("lax.with_sharding_constraint", "reshard", "sharding.reshard"):
    provide(f"jax.{_name}")(_with_sharding_constraint)


class Jitted:
    """A function under ``jit``, which computes the same. JAX looks at how arguments lie where nothing traces it."""

    where: Where | None = None
    """Where ``jit`` is called, if it is."""

    def __init__(
        self,
        fun: Any,
        in_shardings: Any = None,
        out_shardings: Any = None,
        static_argnums: Any = None,
        **options: Any,
    ) -> None:
        self.in_shardings = in_shardings
        self.out_shardings = out_shardings
        self.has_static = static_argnums is not None
        self.given: list[Simulated] = []
        self.first: dict[str, Layout] = {}
        self.fun = fun
        functools.update_wrapper(self, fun)
        # calls of it are calls of a function of the program
        self.__code__ = code_of(fun)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        about = layouts()
        if about.depth or bound().axes:
            return self.fun(*args, **kwargs)
        arguments = self._arguments(about, args, kwargs)
        about.depth += 1
        about.begin_step()
        try:
            results = self.fun(*args, **kwargs)
        finally:
            about.depth -= 1
        self._note_states(about, arguments)
        return self._results(about, results)

    def _arguments(
        self, about: Layouts, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[tuple[str, Array, Layout]]:
        """The arrays that it is given of which it is known how they lie. Raises where JAX does."""
        leaves, structure = flatten(args)
        placements: Sequence[Any] = [None] * len(leaves)
        if self.in_shardings is not None and not kwargs and not self.has_static:
            placements = _each(args, self.in_shardings) or placements
        found = []
        for path, leaf, placement in zip(
            paths_of(structure), leaves, placements, strict=True
        ):
            if not isinstance(leaf, Array):
                continue
            before = about.of(leaf)
            wanted = layout_of(placement, leaf.rank, self.where)
            if wanted is not None:
                _refuse_longer(leaf, placement, path)
                _refuse_indivisible(leaf, wanted, f"argument {path}")
                _refuse_other(path, before, wanted)
            layout = wanted or before
            if layout is not None:
                found.append((path, leaf, layout))
        return found

    def _note_states(
        self, about: Layouts, arguments: Sequence[tuple[str, Array, Layout]]
    ) -> None:
        """Keep which state, that it gave itself, is whole on every device and should not be."""
        own = {id(value) for value in self.given}
        given = [
            Given(
                path,
                leaf.dims,
                layout,
                self.first.setdefault(path, layout),
                id(leaf.value) in own,
                id(leaf.value) in about.differentiated,
            )
            for path, leaf, layout in arguments
        ]
        for state in replicated_states(given):
            about.states.setdefault((state.where, state.path), state)

    def _results(self, about: Layouts, results: Any) -> Any:
        """What it gives, as its shardings say."""
        about.forget(self.given)
        placements = _each(results, self.out_shardings)
        leaves, structure = flatten(results)
        made = [
            _lying(leaf, placement, path, f"result {path}".rstrip(), self.where)
            for path, leaf, placement in zip(
                paths_of(structure),
                leaves,
                placements or [None] * len(leaves),
                strict=True,
            )
        ]
        self.given = [
            leaf.value
            for leaf in made
            if isinstance(leaf, Array) and leaf.value is not None
        ]
        return unflatten(structure, made)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


def _refuse_other(path: str, before: Layout | None, wanted: Layout) -> None:
    """JAX moves no array that lies otherwise than ``in_shardings`` say."""
    if before is None or before.is_constrained or not wanted.differs_from(before):
        return
    raise refusals.lies_otherwise(path, str(before), str(wanted), before.spec)


setattr(Jitted, MARK, True)


def register(resolver: Resolver) -> None:
    """Attributes of functions under ``jit``: those of the functions, and none of what is compiled."""

    def of_jitted(jitted: Jitted, name: str) -> Any:
        if name in functools.WRAPPER_ASSIGNMENTS or name == "__wrapped__":
            return getattr(jitted, name)
        raise NotEvaluable(f"the attribute {name} of a function under jit")

    resolver.of_type[Jitted] = of_jitted


@provide("jax.jit")
def _jit(fun: Any = None, *args: Any, **options: Any) -> Any:
    if fun is None:
        return functools.partial(_jit, **options)
    return Jitted(fun, *args, **options)
