"""``explain(f, *args)``: what the compiler chose, beside what was declared."""

from __future__ import annotations

import inspect
import math
import typing
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import jax
from jax.tree_util import keystr, tree_flatten_with_path

from shardtypes.checked import _closure, _globals, display_name
from shardtypes.dtypes import ArrayType
from shardtypes.layouts import Layout, layout
from shardtypes.meshes import current_mesh, format_mesh
from shardtypes.messages import short_dtype
from shardtypes.partition_specs import map_type


@dataclass(frozen=True)
class Row:
    """One array that goes in or comes out. ``bytes_per_device`` is what each device holds of it."""

    name: str
    declared: str | None
    chosen: str
    bytes_per_device: int
    replicated: bool


@dataclass(frozen=True)
class Explanation:
    """The arguments and results of a compiled function, with the layout that the compiler chose for each."""

    function: str
    mesh: str
    arguments: tuple[Row, ...]
    results: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for reports."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.function}" + (f" on mesh {self.mesh}" if self.mesh else "")]
        width = max((len(row.name) for row in (*self.arguments, *self.results)), default=0)
        for title, rows in (("arguments", self.arguments), ("results", self.results)):
            lines.append(f"  {title}")
            for row in sorted(rows, key=lambda r: (not r.replicated, -r.bytes_per_device)):
                declared = f"  declared {row.declared}" if row.declared else ""
                mark = "  replicated" if row.replicated else ""
                lines.append(
                    f"    {row.name:<{width}}  {row.chosen}  {row.bytes_per_device:,} bytes a device{mark}{declared}"
                )
        return "\n".join(lines)


def explain(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Compile a function for these arguments and say where each argument and result lies.

    ``f`` may be jitted or not; the arguments may be arrays or ``ShapeDtypeStruct`` with shardings. Nothing is run.
    """
    jitted = f if hasattr(f, "lower") else jax.jit(f)
    compiled = jitted.lower(*args, **kwargs).compile()
    mesh = current_mesh()
    bound = inspect.signature(f).bind(*args, **kwargs).arguments
    positional, keyed = compiled.input_shardings
    hints = _hints(f)
    arguments = _rows("", (args, kwargs), (positional, keyed), mesh)
    names = list(bound)
    declared_in: dict[str, str] = {}
    for name in names:
        declared_in.update(_declared(name, hints.get(name)))
    renamed = tuple(_rename(row, names, declared_in) for row in arguments)
    out = jax.eval_shape(f, *args, **kwargs)
    declared_out = _declared("result", hints.get("return"))
    results = tuple(
        Row(row.name, declared_out.get(row.name), row.chosen, row.bytes_per_device, row.replicated)
        for row in _rows("result", out, compiled.output_shardings, mesh)
    )
    return Explanation(display_name(f), format_mesh(mesh), renamed, results)


def _hints(f: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(inspect.unwrap(f), _globals(f), _closure(f), include_extras=True)
    except NameError:
        return {}  # what an annotation names cannot be found: the layouts can be told all the same


def _declared(name: str, hint: Any) -> dict[str, str]:
    if hint is None:
        return {}
    try:
        tree = map_type(hint, lambda a: a)
    except TypeError:
        return {}  # no array type: nothing is declared
    flat, _ = tree_flatten_with_path(tree, is_leaf=lambda x: isinstance(x, ArrayType))
    return {name + keystr(path): repr(leaf) for path, leaf in flat}


def _rename(row: Row, names: list[str], declared: dict[str, str]) -> Row:
    """``[0][1].w`` (second positional argument) → ``batch.w``."""
    rest = row.name[3:]
    if row.name.startswith("[0]["):
        number, _, tail = rest[1:].partition("]")
        name = names[int(number)] + tail
    else:
        key, _, tail = rest[2:].partition("']")
        name = key + tail
    return Row(name, declared.get(name), row.chosen, row.bytes_per_device, row.replicated)


def _rows(prefix: str, values: Any, shardings: Any, mesh: Any) -> list[Row]:
    flat, _ = tree_flatten_with_path(values)
    lies = jax.tree_util.tree_leaves(shardings, is_leaf=lambda s: isinstance(s, jax.sharding.Sharding))
    rows = []
    for (path, value), sharding in zip(flat, lies, strict=False):
        aval = jax.api_util.shaped_abstractify(value) if not hasattr(value, "dtype") else value
        found: Layout = layout(sharding, mesh=mesh, shape=tuple(aval.shape))
        size = math.prod(found.shard_shape) * aval.dtype.itemsize
        replicated = len(sharding.device_set) > 1 and sharding.is_fully_replicated
        dims = ", ".join(str(found).split())
        rows.append(Row(prefix + keystr(path), None, f"{short_dtype(aval.dtype)}[{dims}]", size, replicated))
    return rows
