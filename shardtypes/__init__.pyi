"""What ``from shardtypes import …`` offers, for type checkers; at run time the names are loaded when first used."""

from typing import Any

from shardtypes.dtypes import bool_ as bool_
from shardtypes.dtypes import bf16 as bf16
from shardtypes.dtypes import f16 as f16
from shardtypes.dtypes import f32 as f32
from shardtypes.dtypes import f64 as f64
from shardtypes.dtypes import f8_e3m4 as f8_e3m4
from shardtypes.dtypes import f8_e4m3 as f8_e4m3
from shardtypes.dtypes import f8_e4m3b11fnuz as f8_e4m3b11fnuz
from shardtypes.dtypes import f8_e4m3fn as f8_e4m3fn
from shardtypes.dtypes import f8_e4m3fnuz as f8_e4m3fnuz
from shardtypes.dtypes import f8_e5m2 as f8_e5m2
from shardtypes.dtypes import f8_e5m2fnuz as f8_e5m2fnuz
from shardtypes.dtypes import f8_e8m0fnu as f8_e8m0fnu
from shardtypes.dtypes import f4_e2m1fn as f4_e2m1fn
from shardtypes.dtypes import i2 as i2
from shardtypes.dtypes import i4 as i4
from shardtypes.dtypes import i8 as i8
from shardtypes.dtypes import i16 as i16
from shardtypes.dtypes import i32 as i32
from shardtypes.dtypes import i64 as i64
from shardtypes.dtypes import u2 as u2
from shardtypes.dtypes import u4 as u4
from shardtypes.dtypes import u8 as u8
from shardtypes.dtypes import u16 as u16
from shardtypes.dtypes import u32 as u32
from shardtypes.dtypes import u64 as u64
from shardtypes.dtypes import c64 as c64
from shardtypes.dtypes import c128 as c128
from shardtypes.dtypes import key as key
from shardtypes.dtypes import floating as floating
from shardtypes.dtypes import integer as integer
from shardtypes.dtypes import signed as signed
from shardtypes.dtypes import unsigned as unsigned
from shardtypes.dtypes import complexfloating as complexfloating
from shardtypes.dtypes import inexact as inexact
from shardtypes.dtypes import number as number
from shardtypes.dtypes import anydtype as anydtype
from shardtypes.checked import typechecked as typechecked
from shardtypes.errors import ShardTypeError as ShardTypeError
from shardtypes.errors import ShapeError as ShapeError
from shardtypes.errors import ShardingError as ShardingError
from shardtypes.errors import ShapeStringError as ShapeStringError
from shardtypes.explanation import explain as explain
from shardtypes.import_hook import install_import_hook as install_import_hook
from shardtypes.layouts import Layout as Layout
from shardtypes.layouts import layout as layout
from shardtypes.logical_axes import LogicallyPartitioned as LogicallyPartitioned
from shardtypes.logical_axes import RulesFallback as RulesFallback
from shardtypes.logical_axes import axis_rules as axis_rules
from shardtypes.logical_axes import get_logical_axis_rules as get_logical_axis_rules
from shardtypes.logical_axes import logical_to_mesh as logical_to_mesh
from shardtypes.logical_axes import logical_to_mesh_axes as logical_to_mesh_axes
from shardtypes.logical_axes import logical_to_mesh_sharding as logical_to_mesh_sharding
from shardtypes.logical_axes import set_logical_axis_rules as set_logical_axis_rules
from shardtypes.logical_axes import with_logical_constraint as with_logical_constraint
from shardtypes.logical_axes import with_logical_partitioning as with_logical_partitioning
from shardtypes.manual_check import check as check
from shardtypes.manual_check import check_size as check_size
from shardtypes.mapped import typed_shard_map as typed_shard_map
from shardtypes.partition_specs import make_partition_specs as make_partition_specs
from shardtypes.partition_specs import make_shardings as make_shardings
from shardtypes.partition_specs import is_fully_sharded as is_fully_sharded
from shardtypes.placement import shard as shard
from shardtypes.pytrees import pytree_dataclass as pytree_dataclass
from shardtypes.scopes import Scope as Scope
from shardtypes.scopes import scope as scope
from shardtypes.spec import ShapeSpec as ShapeSpec
from shardtypes.spec import DimSpec as DimSpec
from shardtypes.switches import enabled as enabled
from shardtypes.tracing import trace as trace
from shardtypes.typeguard_door import register_with_typeguard as register_with_typeguard

class Array:
    """``Array['layers', T]``: an array type, or a class of arrays, with dimensions in front."""

    def __class_getitem__(cls, item: tuple[str | bytes, Any], /) -> Any: ...
