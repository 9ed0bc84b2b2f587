"""Checks by hand: ``check``, ``check_size``, and the check of a value against any of our annotations."""

from __future__ import annotations

from typing import Any

from shardtypes import messages
from shardtypes.array_check import HERE, ArraySpec, abandon
from shardtypes.dtypes import ArrayType, array_spec, dtype_class
from shardtypes.errors import ShapeError
from shardtypes.frames import table_of_caller
from shardtypes.lang import Shape
from shardtypes.sites import Site
from shardtypes.spec import ShapeSpec, Text, shape_of
from shardtypes.switches import checks_on


def check(dtype: Any, shape_spec: ShapeSpec | Shape | Text, value: Any) -> None:
    """Check an array's dtype, rank, sizes and sharding.

    Names are bound in the open ``Scope``, else in the checked call in whose body this stands, else for this check only.

    Args:
        dtype: One of ours or one of JAX's: ``f32`` or ``jnp.float32``.
        shape_spec: Such as ``'B/d M'``; sizes are those of the global array, also inside ``shard_map``.
        value: The array.

    Raises:
        ShapeError: another dtype, rank or size.
        ShardingError: another sharding.
    """
    __tracebackhide__ = True
    if not checks_on():
        return
    _spec(dtype, shape_spec).check_here(value, Site("", "check"))


def _spec(dtype: Any, shape_spec: ShapeSpec | Shape | Text) -> ArraySpec:
    kind: Any = dtype_class(dtype)
    shape = shape_of(shape_spec)
    return array_spec(kind[shape.text if shape.dialect == "shardtypes" else str(shape)])


def check_type_of(annotation: ArrayType, value: Any, site: Site = HERE) -> None:
    """Check one value against one array annotation. Names are bound where ``check`` binds them."""
    array_spec(annotation).check_here(value, site)


def check_size(name: str, size: Any) -> None:
    """Bind a name to a size, or compare it with what the name stands for already. Raises ``ShapeError``.

    Names are bound where ``check`` binds them; outside of that there is nothing to compare with.
    """
    table = table_of_caller()
    if table is None or not checks_on():
        return
    bound = table.sizes.get(name)
    if bound is None:
        table.bind(name, size, Site("", "check_size"), None)
    elif bound != size:
        raise ShapeError(
            messages.named_size_differs(name, bound, size, table.place(name)),
            Site("", "check_size"),
        )


__all__ = ["abandon", "check", "check_size", "check_type_of"]
