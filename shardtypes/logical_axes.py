"""Logical axes: rules that say which mesh axes a dimension *name* is sharded over, under flax's names.

With rules in force ``f32['batch embed']`` means ``f32['batch/data embed/model']``; axes written in an annotation win
over rules. Rules set through flax itself are seen too. The answers are flax's for every input, except that a
constraint is applied on every platform, CPU included.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardtypes.array_types import array_annotation, meaning
from shardtypes.constraints import constrain
from shardtypes.dtypes import shape_of_type
from shardtypes.logical_rules import (
    UNASSIGNED,
    Rules,
    frozen,
    get_logical_axis_rules,
    is_free,
)
from shardtypes.meshes import current_mesh


def _names(array_dim_names: Any) -> Sequence[Any] | None:
    """Names from a tuple of names, or from one of our annotations."""
    annotation = array_annotation(meaning(array_dim_names))
    if annotation is not None:
        shape = shape_of_type(annotation)
        return tuple(
            dim.size.symbol_name
            if dim.kind == "size" and dim.size is not None
            else None
            for dim in shape.dims
        )
    return array_dim_names  # type: ignore[no-any-return]


def _assign(array_dim_names: Any, rules: Rules | None) -> list[Any] | None:
    names = _names(array_dim_names)
    if names is None:
        return None
    if rules is None:
        rules = get_logical_axis_rules()
    counts = collections.Counter(names)
    repeated = tuple(
        name for name, count in counts.items() if count > 1 and isinstance(name, str)
    )
    if repeated:
        raise ValueError(
            f"Unsupported: Dimensions {repeated} occur more than once in array names."
        )
    if not isinstance(rules, (tuple, list)):
        raise ValueError("Unknown axis rule specification type.")
    result: list[Any] = [
        UNASSIGNED if isinstance(name, str) else name for name in names
    ]
    for name, axes in rules:
        if name in names:
            position = list(names).index(name)
            if result[position] == UNASSIGNED and is_free(axes, result):
                result[position] = axes
    return result


def logical_to_mesh_axes(
    array_dim_names: Any, rules: Rules | None = None
) -> PartitionSpec | None:
    """The PartitionSpec of an array whose dimensions have these logical names (or this annotation).

    The first rule whose name matches and whose mesh axes are free wins; without one the dimension is unsharded.
    Raises ``ValueError`` for a name that occurs twice.
    """
    result = _assign(array_dim_names, rules)
    if result is None:
        return None
    return PartitionSpec(*(None if axes is UNASSIGNED else axes for axes in result))


def logical_to_mesh(tree: Any, rules: Rules | None = None) -> Any:
    """``logical_to_mesh_axes`` over a tree of logical PartitionSpecs or annotations."""
    return jax.tree_util.tree_map(
        lambda x: logical_to_mesh_axes(x, rules),
        tree,
        is_leaf=lambda x: _is_spec(x),
    )


def logical_to_mesh_sharding(tree: Any, mesh: Mesh, rules: Rules | None = None) -> Any:
    """The NamedShardings of a tree of logical PartitionSpecs or annotations."""
    return jax.tree_util.tree_map(
        lambda spec: NamedSharding(mesh, spec),
        logical_to_mesh(tree, rules),
        is_leaf=lambda x: isinstance(x, PartitionSpec),
    )


class RulesFallback(enum.Enum):
    """What a constraint does with a name for which there is no rule.

    ``AXIS_IS_UNSHARDED`` leaves the dimension whole, ``RAISE_ERROR`` raises ``ValueError``, ``NO_CONSTRAINT`` leaves
    the whole array as it is.
    """

    AXIS_IS_UNSHARDED = "axis_is_unsharded"
    RAISE_ERROR = "raise_error"
    NO_CONSTRAINT = "no_constraint"


def _is_spec(x: Any) -> bool:
    return isinstance(x, PartitionSpec) or array_annotation(meaning(x)) is not None


def _is_logical_spec(x: Any) -> bool:
    if x is None or _is_spec(x):
        return True
    return isinstance(x, tuple) and all(
        e is None or isinstance(e, str) or e is PartitionSpec.UNCONSTRAINED for e in x
    )


def _constrain(
    names: Any, x: Any, fallback: RulesFallback, rules: Rules, mesh: Mesh | None
) -> Any:
    assigned = _assign(names, rules)
    if assigned is None:
        return x
    if any(axes is UNASSIGNED for axes in assigned):
        choice = RulesFallback(fallback.value)  # flax's own enumeration is as good
        if choice is RulesFallback.RAISE_ERROR:
            raise ValueError(f"Axis names {names} did not match a rule")
        if choice is RulesFallback.NO_CONSTRAINT:
            return x
    spec = PartitionSpec(*(None if axes is UNASSIGNED else axes for axes in assigned))
    mesh = mesh if mesh is not None else current_mesh()
    return constrain(x, spec, mesh)


def with_logical_constraint(
    x: Any,
    logical_axis_resources: Any,
    rules: Rules | None = None,
    mesh: Mesh | None = None,
    fallback: RulesFallback = RulesFallback.AXIS_IS_UNSHARDED,
) -> Any:
    """``with_sharding_constraint`` by logical names or annotation, on every platform.

    Without rules nothing is constrained. A constraint that JAX would drop in silence warns with the reason
    (``DroppedConstraint``): no mesh in force, or a size that the axes do not divide.
    """
    if rules is None:
        rules = get_logical_axis_rules()
    if not rules or logical_axis_resources is None:
        return x
    return jax.tree_util.tree_map(
        lambda names, value: _constrain(names, value, fallback, rules, mesh),
        logical_axis_resources,
        x,
        is_leaf=_is_logical_spec,
    )


@jax.tree_util.register_pytree_with_keys_class
@dataclasses.dataclass(frozen=True)
class LogicallyPartitioned:
    """A value with the logical names of its dimensions; a pytree whose one leaf is the value."""

    value: Any
    names: Any
    mesh: Mesh | None = None
    rules: Rules | None = None

    def get_partition_spec(self) -> PartitionSpec:
        """The logical names as a PartitionSpec."""
        names = _names(self.names)
        return PartitionSpec(*names) if names is not None else PartitionSpec()

    def get_sharding(self, mesh: Mesh) -> NamedSharding:
        """The sharding that the names mean on a mesh, under the box's rules or those in force."""
        spec = logical_to_mesh_axes(self.names, self.rules)
        return NamedSharding(mesh, spec if spec is not None else PartitionSpec())

    def unbox(self, apply_constraint: bool = True) -> Any:
        """The value, constrained to where its names put it."""
        if not apply_constraint or (self.mesh is None and current_mesh() is None):
            return self.value
        return with_logical_constraint(
            self.value, self.get_partition_spec(), rules=self.rules, mesh=self.mesh
        )

    def replace_boxed(self, value: Any) -> LogicallyPartitioned:
        """The same box around another value."""
        return dataclasses.replace(self, value=value)

    def add_axis(self, index: int, params: Mapping[Any, Any]) -> LogicallyPartitioned:
        """The box with a dimension more, for flax's ``nn.scan`` and ``nn.vmap``, which pass its ``partition_name``."""
        names = list(_names(self.names) or ())
        names += [None] * (index - len(names))
        names.insert(index, _partition_name(params, self.names))
        return dataclasses.replace(self, names=tuple(names))

    def remove_axis(
        self, index: int, params: Mapping[Any, Any]
    ) -> LogicallyPartitioned:
        """The box with a dimension less, the reverse of ``add_axis``."""
        names = list(_names(self.names) or ())
        removed, name = names.pop(index), _partition_name(params, self.names)
        if removed != name:
            raise ValueError(
                f"dimension {index} of {self.names} is {removed!r}, expected {name!r}"
            )
        return dataclasses.replace(self, names=tuple(names))

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any]], tuple[Any, ...]]:
        """For JAX."""
        rules = frozen(self.rules) if self.rules is not None else None
        return ((jax.tree_util.GetAttrKey("value"), self.value),), (
            self.names,
            self.mesh,
            rules,
        )

    @classmethod
    def tree_unflatten(
        cls, fixed: tuple[Any, ...], children: tuple[Any, ...]
    ) -> LogicallyPartitioned:
        """For JAX."""
        return cls(children[0], *fixed)


def _partition_name(params: Mapping[Any, Any], names: Any) -> Any:
    if "partition_name" not in params:
        raise ValueError(
            f"the dimension that is mapped over an array of {names} has no logical name: pass flax's transformation "
            "metadata_params={'partition_name': 'layers'} (or None)"
        )
    return params["partition_name"]


def _known_to_flax() -> None:
    """Have flax's modules unbox our boxes as they do its own, in a program that uses flax."""
    meta = sys.modules.get("flax.core.meta")
    if meta is not None:
        meta.AxisMetadata.register(LogicallyPartitioned)


def with_logical_partitioning(
    fn: Callable[..., Any],
    names: Any,
    mesh: Mesh | None = None,
    rules: Rules | None = None,
) -> Callable[..., LogicallyPartitioned]:
    """Wrap an initializer so that it returns its value in a ``LogicallyPartitioned``."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> LogicallyPartitioned:
        _known_to_flax()
        return LogicallyPartitioned(fn(*args, **kwargs), names, mesh=mesh, rules=rules)

    return wrapper
