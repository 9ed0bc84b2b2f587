"""``explain(f, *args)``: what the compiler chose, beside what was declared."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import jax
from jax.tree_util import keystr, tree_flatten_with_path

from shardtypes.array_arguments import of_array_arguments
from shardtypes.array_text import without_mesh
from shardtypes.checked import evaluated_hints
from shardtypes.collectives import Collective, collectives_of
from shardtypes.compiled import without_questions
from shardtypes.dtypes import ArrayType, array_spec
from shardtypes.function_names import display_name
from shardtypes.layout_lookup import layout
from shardtypes.layouts import Layout
from shardtypes.meshes import current_mesh, format_mesh, mesh_sizes
from shardtypes.partition_specs import map_type
from shardtypes.pictures import picture
from shardtypes.sharding_comparison import claims, compare_named
from shardtypes.switches import enabled
from shardtypes.trace_forms import innermost

if TYPE_CHECKING:
    from shardtypes.proving.intermediates import Intermediates


@dataclass(frozen=True)
class Row:
    """One array that goes in or comes out. ``bytes_per_device`` is what each device holds of it; ``differs`` says in
    what the compiler's choice is not what is declared, empty where it is."""

    name: str
    declared: str | None
    chosen: str
    bytes_per_device: int
    replicated: bool
    differs: str = ""
    layout: Layout | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {name: value for name, value in vars(self).items() if name != "layout"}


@dataclass(frozen=True)
class Explanation:
    """The arguments and results of a compiled function with the layout that the compiler chose for each, and the
    communication that it put in. Arguments that the program does not use are left out. Where it maps over devices,
    ``intermediates`` says how the arrays move over the mesh, a line of the program at a time; ``unfollowed`` why it
    does not."""

    function: str
    mesh: str
    arguments: tuple[Row, ...]
    results: tuple[Row, ...]
    collectives: tuple[Collective, ...] = ()
    intermediates: Intermediates | tuple[()] = ()
    unfollowed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for reports."""
        return {
            "function": self.function,
            "mesh": self.mesh,
            "arguments": [row.to_dict() for row in self.arguments],
            "results": [row.to_dict() for row in self.results],
            "collectives": [asdict(entry) for entry in self.collectives],
            "intermediates": [list(each.row) for each in self.intermediates],
        }

    def __str__(self) -> str:
        lines = [self._title()]
        width = max(
            (len(row.name) for row in (*self.arguments, *self.results)), default=0
        )
        for title, rows in (("arguments", self.arguments), ("results", self.results)):
            lines.append(f"  {title}")
            for row in _largest_first(rows):
                declared = f"  declared {row.declared}" if row.declared else ""
                mark = "  replicated" if row.replicated else ""
                lines.append(
                    f"    {row.name:<{width}}  {row.chosen}  {row.bytes_per_device:,} bytes a device{mark}{declared}"
                )
                if row.differs:
                    lines.append(f"    {'':<{width}}    but {row.differs}")
        lines.append("  collectives" if self.collectives else "  no collectives")
        lines += [f"    {entry}" for entry in self.collectives]
        if self.intermediates:
            lines += [
                "  on the devices",
                textwrap.indent(str(self.intermediates), "    "),
            ]
        if self.unfollowed:
            lines.append(f"  on the devices: not followed: {self.unfollowed}")
        return "\n".join(lines)

    def _title(self) -> str:
        return self.function + (f" on mesh {self.mesh}" if self.mesh else "")

    def _repr_html_(self) -> str:
        """With a picture of each layout, for notebooks."""
        parts = [f"<h4><code>{escape(self._title())}</code></h4>"]
        for title, rows in (("arguments", self.arguments), ("results", self.results)):
            parts.append(f"<h5>{title}</h5>")
            for row in _largest_first(rows):
                words = [
                    f"<code>{escape(row.name)}</code>: {row.bytes_per_device:,} bytes a device"
                ]
                words += ["<b>replicated</b>"] if row.replicated else []
                words += (
                    [f"declared <code>{escape(row.declared)}</code>"]
                    if row.declared
                    else []
                )
                words += [f"<b>but {escape(row.differs)}</b>"] if row.differs else []
                parts.append(f"<p>{', '.join(words)}</p>")
                parts.append(picture(row.layout) if row.layout is not None else "")
        items = "".join(
            f"<li><code>{escape(str(entry))}</code></li>" for entry in self.collectives
        )
        parts.append(
            f"<h5>collectives</h5><ul>{items}</ul>"
            if items
            else "<p>no collectives</p>"
        )
        if self.intermediates:
            table = escape(str(self.intermediates))
            pictures = self.intermediates._repr_html_()
            parts.append(f"<h5>on the devices</h5><pre>{table}</pre>")
            parts.append(f"<details><summary>as pictures</summary>{pictures}</details>")
        if self.unfollowed:
            parts.append(
                f"<p>on the devices: not followed: {escape(self.unfollowed)}</p>"
            )
        return "".join(parts)


def _largest_first(rows: tuple[Row, ...]) -> list[Row]:
    """Replicated arrays before the others, larger ones before smaller."""
    return sorted(rows, key=lambda row: (not row.replicated, -row.bytes_per_device))


def explain(f: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """Compile a function for these arguments: how each argument and result is sharded, and which collectives run.

    ``f`` may be jitted or not; the arguments may be arrays or ``ShapeDtypeStruct`` with shardings. What else they are
    or hold (numbers, strings, functions, objects) stays what it is where ``f`` is not jitted. Nothing is run.
    Axis names are those of the mesh in force, else of the mesh of the arguments or results.
    """
    jitted: Any = f
    if not hasattr(f, "lower"):
        of_arrays, args, kwargs = of_array_arguments(f, args, kwargs)
        jitted = jax.jit(of_arrays)
    with without_questions():
        compiled = jitted.lower(*args, **kwargs).compile()
    mesh = current_mesh()
    concrete = mesh if isinstance(mesh, jax.sharding.Mesh) else _mesh_of(compiled)
    layouts = layout(compiled, mesh=concrete)
    hints = _hints(f)
    names = argument_names(f, args)
    declared: dict[str, ArrayType] = {}
    for name in {*names.values(), *kwargs}:
        declared.update(_declared(name, hints.get(name)))
    arguments = []
    for path, found in tree_flatten_with_path(layouts.arguments, is_leaf=_is_layout)[0]:
        if isinstance(found, Layout):
            first, second, *rest = path
            name = names[second.idx] if first.idx == 0 else str(second.key)
            arguments.append(
                _row(name + keystr(tuple(rest)), found, declared, concrete)
            )
    declared = _declared("result", hints.get("return"))
    results = [
        _row("result" + keystr(path), found, declared, concrete)
        for path, found in tree_flatten_with_path(layouts.results, is_leaf=_is_layout)[
            0
        ]
        if isinstance(found, Layout)
    ]
    intermediates, unfollowed = _followed(jitted, args, kwargs, concrete)
    return Explanation(
        display_name(f),
        format_mesh(concrete),
        tuple(arguments),
        tuple(results),
        collectives_of(compiled, concrete),
        intermediates,
        unfollowed,
    )


def _followed(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], mesh: Any
) -> tuple[Intermediates | tuple[()], str]:
    """How the arrays move over the mesh where the function maps over devices by hand, or why that is not known."""
    from shardtypes.proving import follow  # takes its time to import

    try:
        with enabled(False):
            return follow(f, args, kwargs, mesh), ""
    except Exception as error:  # noqa: BLE001 - the function compiles: what fails is following it on one device, and is said
        return (), f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _is_layout(x: Any) -> bool:
    return isinstance(x, Layout)


def _mesh_of(compiled: Any) -> jax.sharding.Mesh | None:
    for sharding in jax.tree_util.tree_leaves(
        (compiled.input_shardings, compiled.output_shardings)
    ):
        if isinstance(getattr(sharding, "mesh", None), jax.sharding.Mesh):
            return sharding.mesh  # type: ignore[no-any-return]  # just seen to be one
    return None


def argument_names(f: Any, args: tuple[Any, ...]) -> dict[int, str]:
    """The parameter that each positional argument that is traced belongs to; static ones are not counted."""
    static = getattr(getattr(f, "_jit_info", None), "static_argnums", ()) or ()
    named: list[str] = []
    for parameter in inspect.signature(f).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            named += [f"{parameter.name}[{i}]" for i in range(len(args) - len(named))]
        elif len(named) < len(args):
            named.append(parameter.name)
    return dict(enumerate(name for i, name in enumerate(named) if i not in static))


def _hints(f: Any) -> dict[str, Any]:
    inner = innermost(f)
    try:
        return evaluated_hints(inner)
    except (NameError, AttributeError, SyntaxError):
        # what an annotation names cannot be found: the layouts can be told all the same
        return {}


def _declared(name: str, hint: Any) -> dict[str, ArrayType]:
    if hint is None:
        return {}
    try:
        tree = map_type(hint, lambda a: a)
    except TypeError:
        return {}  # no array type: nothing is declared
    flat, _ = tree_flatten_with_path(tree, is_leaf=lambda x: isinstance(x, ArrayType))
    return {name + keystr(path): leaf for path, leaf in flat}


def _row(name: str, found: Layout, declared: dict[str, ArrayType], mesh: Any) -> Row:
    promise = declared.get(name)
    differs = ""
    if promise is not None and found.dims is not None:
        wanted = claims(array_spec(promise), found.shape)
        sizes = mesh_sizes(mesh)
        pending = array_spec(promise).shape.pending
        if wanted is not None and all(
            axis in sizes for axes in (*wanted, pending) for axis in axes or ()
        ):
            differs = compare_named(wanted, pending, found, sizes, found.sizes)
    replicated = (
        len(found.indices()) > 1
        and found.shard_shape == found.shape
        and not found.pending
    )
    chosen = without_mesh(found.dtype, found)
    text = repr(promise) if promise is not None else None
    return Row(name, text, chosen, found.bytes_per_device, replicated, differs, found)
