"""Parameters of ``flax.linen`` that know the names of their axes, and what is made of such names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from shardlint.evaluation.guards import MARK
from shardlint.evaluation.meshes import Sharding, Spec
from shardlint.evaluation.outside import provide
from shardtypes.semantics.trees import NODE, Registered, map_leaves

_LINEN = "flax.linen"


class Partitioned:
    """``nn.Partitioned`` and ``nn.LogicallyPartitioned``: a parameter and the names of its axes."""

    def __init__(self, value: Any, names: Any, **options: Any) -> None:
        self.value, self.names = value, names

    def unbox(self, **options: Any) -> Any:
        return self.value

    def replace_boxed(self, value: Any) -> Partitioned:
        return Partitioned(value, self.names)

    def get_partition_spec(self) -> Spec:
        return Spec(*self.names)


def _split(box: Partitioned) -> tuple[list[tuple[str, Any]], Any]:
    return [("value", box.value)], tuple(box.names)


def _join(names: Any, children: Sequence[Any]) -> Partitioned:
    return Partitioned(children[0], names)


setattr(Partitioned, MARK, True)
setattr(Partitioned, NODE, Registered(_split, _join))
for _name in ("Partitioned", "LogicallyPartitioned"):
    provide(f"{_LINEN}.{_name}")(Partitioned)
    provide(f"{_LINEN}.meta.{_name}")(Partitioned)


@provide(f"{_LINEN}.with_partitioning")
@provide(f"{_LINEN}.with_logical_partitioning")
def _with_partitioning(fn: Any, names: Any, *args: Any, **options: Any) -> Any:
    """An initializer whose parameter knows the names of its axes."""

    def init(*given: Any, **kwargs: Any) -> Partitioned:
        return Partitioned(fn(*given, **kwargs), names)

    return init


def _is_box(value: Any) -> bool:
    return isinstance(value, Partitioned)


def with_axis(tree: Any, name: Any) -> Any:
    """A tree of variables that are stacked along a first axis of this name."""
    return _renamed(tree, lambda names: (name, *names))


def without_axis(tree: Any) -> Any:
    """A tree of variables of which each is one of several along a first axis."""
    return _renamed(tree, lambda names: names[1:])


def _renamed(tree: Any, rename: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Any:
    return map_leaves(
        lambda leaf: (
            Partitioned(leaf.value, rename(tuple(leaf.names)))
            if _is_box(leaf)
            else leaf
        ),
        tree,
        is_leaf=_is_box,
    )


PARTITION_NAME = "partition_name"
provide(f"{_LINEN}.PARTITION_NAME")(PARTITION_NAME)
provide(f"{_LINEN}.meta.PARTITION_NAME")(PARTITION_NAME)


@provide(f"{_LINEN}.unbox")
@provide(f"{_LINEN}.meta.unbox")
@provide("flax.core.meta.unbox")
def unboxed(tree: Any) -> Any:
    """A tree with parameters for boxes."""
    return map_leaves(
        lambda leaf: leaf.value if _is_box(leaf) else leaf, tree, is_leaf=_is_box
    )


@provide(f"{_LINEN}.get_partition_spec")
def _specs(tree: Any) -> Any:
    """A tree of specs: the names of each box; of anything else, none."""
    return map_leaves(
        lambda leaf: Spec(*leaf.names) if _is_box(leaf) else Spec(),
        tree,
        is_leaf=_is_box,
    )


def _mapped(names: Sequence[Any], rules: Sequence[Any]) -> Spec:
    """The mesh axes of logical names: for each name the first rule whose axes are free."""
    taken: set[str] = set()
    found: dict[Any, Any] = {}
    for logical, axes in rules:
        wanted = {axes} if isinstance(axes, str) else set(axes or ())
        if logical in names and logical not in found and not taken & wanted:
            found[logical] = axes
            taken |= wanted
    return Spec(*(found.get(name) for name in names))


_rules: ContextVar[tuple[Any, ...]] = ContextVar("shardlint_axis_rules", default=())


def _is_spec(value: Any) -> bool:
    return isinstance(value, Spec)


@provide(f"{_LINEN}.logical_to_mesh_axes")
@provide("shardtypes.logical_to_mesh_axes")
def _axes(array_dim_names: Any, rules: Any = None) -> Spec:
    return _mapped(tuple(array_dim_names), _rules.get() if rules is None else rules)


@provide(f"{_LINEN}.logical_to_mesh")
@provide("shardtypes.logical_to_mesh")
def _to_mesh(tree: Any, rules: Any = None) -> Any:
    """A tree of specs with mesh axes for logical names."""
    return map_leaves(lambda spec: _axes(spec, rules), tree, is_leaf=_is_spec)


@provide(f"{_LINEN}.logical_to_mesh_sharding")
@provide("shardtypes.logical_to_mesh_sharding")
def _to_sharding(tree: Any, mesh: Any, rules: Any = None) -> Any:
    return map_leaves(
        lambda spec: Sharding(mesh, _axes(spec, rules)), tree, is_leaf=_is_spec
    )


@provide(f"{_LINEN}.logical_axis_rules")
@provide("flax.nnx.logical_axis_rules")
@provide("shardtypes.axis_rules")
@contextmanager
def _with_rules(rules: Any) -> Iterator[None]:
    """In the block these are the rules. They change where arrays are, and no number."""
    token = _rules.set(tuple(rules))
    try:
        yield
    finally:
        _rules.reset(token)


provide(f"{_LINEN}.get_logical_axis_rules")(lambda: _rules.get())


def _same(x: Any, *args: Any, **options: Any) -> Any:
    return x


_constraint: Callable[..., Any] = _same
for _name in ("with_logical_constraint", "with_sharding_constraint"):
    provide(f"{_LINEN}.{_name}")(_constraint)
provide("shardtypes.with_logical_constraint")(_constraint)
