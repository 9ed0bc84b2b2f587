"""Results of ``shard_map`` whose type does not say how many arrays they hold, such as ``list[Layer]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from shardtypes.dtypes import ArrayType
from shardtypes.partition_specs import map_type

_Groups = dict[str, list[Any]]


class GroupedResults:
    """Results in groups, one for each array type in their annotation.

    JAX wants the specs of results before the function runs. One spec may stand for a list of any length, so the arrays
    of each type leave ``shard_map`` as a list, and become the result again outside.

    Raises ``TypeError`` where the annotation has a part without an array type, and, in ``group``, where a result has
    another structure than it declares.
    """

    def __init__(
        self, annotation: Any, spec: Callable[[ArrayType], PartitionSpec]
    ) -> None:
        self._annotation = annotation
        types: list[ArrayType] = []
        map_type(annotation, types.append)
        #: of each group
        self.specs = {str(array): spec(array) for array in types}
        self._structure: Any = None
        self._order: list[str] = []

    def group(self, result: Any) -> _Groups:
        """The arrays of a result."""
        types = map_type(self._annotation, lambda array: array, example=result)
        groups: _Groups = {name: [] for name in self.specs}
        self._structure = jax.tree.structure(result)
        self._order = []

        def put(array: ArrayType, part: Any) -> None:
            for leaf in jax.tree.leaves(part):
                groups[str(array)].append(leaf)
                self._order.append(str(array))

        try:
            jax.tree.map(put, types, result, is_leaf=_is_array_type)
        except ValueError as error:
            raise TypeError(
                f"{self._annotation} is declared, and the value is of another structure: {error}"
            ) from None
        return groups

    def whole(self, groups: _Groups) -> Any:
        """The result that was put into groups last."""
        rest = {name: iter(group) for name, group in groups.items()}
        leaves = [next(rest[name]) for name in self._order]
        return jax.tree.unflatten(self._structure, leaves)


def _is_array_type(x: Any) -> bool:
    return isinstance(x, ArrayType)
