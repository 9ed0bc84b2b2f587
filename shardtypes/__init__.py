"""Array types with dtype, shape and sharding: ``f32['batch/d embed']``, checked by four tools.

Every name below is loaded on first use, so that ``import shardtypes.lang`` pulls in neither JAX nor NumPy.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from shardtypes.checked import source as source
    from shardtypes.checked import typechecked as typechecked
    from shardtypes.costing import cost as cost
    from shardtypes.dtypes import (
        anydtype as anydtype,
    )
    from shardtypes.dtypes import (
        bf16 as bf16,
    )
    from shardtypes.dtypes import (
        bool_ as bool_,
    )
    from shardtypes.dtypes import (
        c64 as c64,
    )
    from shardtypes.dtypes import (
        c128 as c128,
    )
    from shardtypes.dtypes import (
        complexfloating as complexfloating,
    )
    from shardtypes.dtypes import (
        f4_e2m1fn as f4_e2m1fn,
    )
    from shardtypes.dtypes import (
        f8_e3m4 as f8_e3m4,
    )
    from shardtypes.dtypes import (
        f8_e4m3 as f8_e4m3,
    )
    from shardtypes.dtypes import (
        f8_e4m3b11fnuz as f8_e4m3b11fnuz,
    )
    from shardtypes.dtypes import (
        f8_e4m3fn as f8_e4m3fn,
    )
    from shardtypes.dtypes import (
        f8_e4m3fnuz as f8_e4m3fnuz,
    )
    from shardtypes.dtypes import (
        f8_e5m2 as f8_e5m2,
    )
    from shardtypes.dtypes import (
        f8_e5m2fnuz as f8_e5m2fnuz,
    )
    from shardtypes.dtypes import (
        f8_e8m0fnu as f8_e8m0fnu,
    )
    from shardtypes.dtypes import (
        f16 as f16,
    )
    from shardtypes.dtypes import (
        f32 as f32,
    )
    from shardtypes.dtypes import (
        f64 as f64,
    )
    from shardtypes.dtypes import (
        floating as floating,
    )
    from shardtypes.dtypes import (
        i2 as i2,
    )
    from shardtypes.dtypes import (
        i4 as i4,
    )
    from shardtypes.dtypes import (
        i8 as i8,
    )
    from shardtypes.dtypes import (
        i16 as i16,
    )
    from shardtypes.dtypes import (
        i32 as i32,
    )
    from shardtypes.dtypes import (
        i64 as i64,
    )
    from shardtypes.dtypes import (
        inexact as inexact,
    )
    from shardtypes.dtypes import (
        integer as integer,
    )
    from shardtypes.dtypes import (
        key as key,
    )
    from shardtypes.dtypes import (
        number as number,
    )
    from shardtypes.dtypes import (
        signed as signed,
    )
    from shardtypes.dtypes import (
        u2 as u2,
    )
    from shardtypes.dtypes import (
        u4 as u4,
    )
    from shardtypes.dtypes import (
        u8 as u8,
    )
    from shardtypes.dtypes import (
        u16 as u16,
    )
    from shardtypes.dtypes import (
        u32 as u32,
    )
    from shardtypes.dtypes import (
        u64 as u64,
    )
    from shardtypes.dtypes import (
        unsigned as unsigned,
    )
    from shardtypes.errors import (
        DroppedConstraint as DroppedConstraint,
    )
    from shardtypes.errors import (
        ShapeError as ShapeError,
    )
    from shardtypes.errors import (
        ShapeStringError as ShapeStringError,
    )
    from shardtypes.errors import (
        ShardingError as ShardingError,
    )
    from shardtypes.errors import (
        ShardTypeError as ShardTypeError,
    )
    from shardtypes.explanation import explain as explain
    from shardtypes.import_hook import install_import_hook as install_import_hook
    from shardtypes.layout_lookup import layout as layout
    from shardtypes.layouts import Layout as Layout
    from shardtypes.logical_axes import (
        LogicallyPartitioned as LogicallyPartitioned,
    )
    from shardtypes.logical_axes import (
        RulesFallback as RulesFallback,
    )
    from shardtypes.logical_axes import (
        logical_to_mesh as logical_to_mesh,
    )
    from shardtypes.logical_axes import (
        logical_to_mesh_axes as logical_to_mesh_axes,
    )
    from shardtypes.logical_axes import (
        logical_to_mesh_sharding as logical_to_mesh_sharding,
    )
    from shardtypes.logical_axes import (
        with_logical_constraint as with_logical_constraint,
    )
    from shardtypes.logical_axes import (
        with_logical_partitioning as with_logical_partitioning,
    )
    from shardtypes.logical_rules import axis_rules as axis_rules
    from shardtypes.logical_rules import (
        get_logical_axis_rules as get_logical_axis_rules,
    )
    from shardtypes.logical_rules import (
        set_logical_axis_rules as set_logical_axis_rules,
    )
    from shardtypes.manual_check import check as check
    from shardtypes.manual_check import check_size as check_size
    from shardtypes.mapped import typed_shard_map as typed_shard_map
    from shardtypes.mesh_dependence import mesh_dependent as mesh_dependent
    from shardtypes.partition_specs import (
        is_fully_sharded as is_fully_sharded,
    )
    from shardtypes.partition_specs import (
        make_partition_specs as make_partition_specs,
    )
    from shardtypes.partition_specs import (
        make_shardings as make_shardings,
    )
    from shardtypes.placement import shard as shard
    from shardtypes.proving import prove as prove
    from shardtypes.pytrees import pytree_dataclass as pytree_dataclass
    from shardtypes.scoped_calls import scope as scope
    from shardtypes.scopes import Scope as Scope
    from shardtypes.spec import DimSpec as DimSpec
    from shardtypes.spec import ShapeSpec as ShapeSpec
    from shardtypes.stacked import Array as Array
    from shardtypes.switches import enabled as enabled
    from shardtypes.tracing import trace as trace
    from shardtypes.typeguard_plugin import (
        register_with_typeguard as register_with_typeguard,
    )

_DTYPES = (
    "bool_",
    "bf16",
    "f16",
    "f32",
    "f64",
    "f8_e3m4",
    "f8_e4m3",
    "f8_e4m3b11fnuz",
    "f8_e4m3fn",
    "f8_e4m3fnuz",
    "f8_e5m2",
    "f8_e5m2fnuz",
    "f8_e8m0fnu",
    "f4_e2m1fn",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "u2",
    "u4",
    "u8",
    "u16",
    "u32",
    "u64",
    "c64",
    "c128",
    "key",
    "floating",
    "integer",
    "signed",
    "unsigned",
    "complexfloating",
    "inexact",
    "number",
    "anydtype",
)

_HOMES = {
    **dict.fromkeys(_DTYPES, "dtypes"),
    **dict.fromkeys(
        ("ShardTypeError", "ShapeError", "ShardingError", "ShapeStringError"), "errors"
    ),
    "DroppedConstraint": "errors",
    **dict.fromkeys(("check", "check_size"), "manual_check"),
    "Scope": "scopes",
    "scope": "scoped_calls",
    **dict.fromkeys(("ShapeSpec", "DimSpec"), "spec"),
    "Layout": "layouts",
    "layout": "layout_lookup",
    **dict.fromkeys(
        ("make_partition_specs", "make_shardings", "is_fully_sharded"),
        "partition_specs",
    ),
    **dict.fromkeys(
        (
            "LogicallyPartitioned",
            "RulesFallback",
            "logical_to_mesh",
            "logical_to_mesh_axes",
            "logical_to_mesh_sharding",
            "with_logical_constraint",
            "with_logical_partitioning",
        ),
        "logical_axes",
    ),
    **dict.fromkeys(
        ("axis_rules", "get_logical_axis_rules", "set_logical_axis_rules"),
        "logical_rules",
    ),
    "Array": "stacked",
    "cost": "costing",
    "enabled": "switches",
    "explain": "explanation",
    "mesh_dependent": "mesh_dependence",
    "install_import_hook": "import_hook",
    "pytree_dataclass": "pytrees",
    "register_with_typeguard": "typeguard_plugin",
    "shard": "placement",
    "prove": "proving",
    "trace": "tracing",
    **dict.fromkeys(("source", "typechecked"), "checked"),
    "typed_shard_map": "mapped",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _installed_version()
    # a package of its own, which loads nothing until one of its names is used
    if name == "laws":
        return importlib.import_module("shardtypes.laws")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'shardtypes' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"shardtypes.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name in ("jax", "jaxlib", "numpy", "typeguard"):
            from shardtypes.messages import missing_package

            raise ModuleNotFoundError(
                missing_package(name, error.name), name=error.name
            ) from error
        raise
    globals()[name] = value
    _known_to_typeguard()
    return value


def _installed_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("shardtypes")
    except PackageNotFoundError:  # used from its source tree
        return "source"


def _known_to_typeguard() -> None:
    """Have typeguard check array types, in a program that uses both and loaded typeguard without its plugins."""
    if "typeguard" in sys.modules and "shardtypes.dtypes" in sys.modules:
        importlib.import_module("shardtypes.typeguard_plugin").register_with_typeguard()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
