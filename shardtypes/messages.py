"""What the checks say. One function a message; a test states each word for word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shardtypes.lang.messages import wrong_size
from shardtypes.scopes import Binding

SCOPE_HINT = (
    "names are shared with the caller: if the callee means another size by it, "
    "decorate the callee with @typechecked(scope=True) or @scope"
)


def short_dtype(dtype: Any) -> str:
    """``f32`` for float32: the names of the annotations."""
    from shardtypes.dtypes import ALL_DTYPES

    name = str(dtype)
    return next((c.__name__ for c in ALL_DTYPES if not c.family and c.name == name), name)


def describe(value: Any) -> str:
    """The actual type of a value as an annotation writes it: ``f32[16, 64/t]``, with the mesh where there is one."""
    import jax

    if not isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return type(value).__name__
    dims = [str(n) for n in value.shape]
    tail = ""
    try:
        from shardtypes.layouts import layout
        from shardtypes.meshes import bound_axes, format_mesh

        if not bound_axes():
            lies = layout(value)
            dims = str(lies).split() if lies.dims is not None else dims
            if lies.mesh is not None:
                tail = f" on mesh {format_mesh(lies.mesh)}"
        else:
            tail = " per device, with " + ", ".join(f"{a}={n}" for a, n in bound_axes().items())
    except (TypeError, ValueError):
        pass  # no layout is known here: the shape alone is what can be said
    return f"{short_dtype(value.dtype)}[{', '.join(dims)}]{tail}"


def declared_actual(declared: str, actual: str) -> str:
    """The two lines under every mismatch."""
    return f"\n  declared {declared}\n  actual   {actual}"


def not_an_array(declared: str, value: Any) -> str:
    """A value that is no JAX array."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__
    hint = "; convert it with jax.numpy.asarray" if kind.__module__.partition(".")[0] == "numpy" else ""
    return f"expected a jax.Array, {declared}, got {name}{hint}"


def no_member(declared: str, failures: Sequence[str]) -> str:
    """A value that is none of the members of a union; ``failures`` say why, one a member."""
    reasons = [reason.replace("\n", "\n  ") for reason in failures]
    return f"it is none of {declared}" + "".join(f"\n  {reason}" for reason in reasons)


def wrong_dtype(want: str, got: str, declared: str, actual: str) -> str:
    """Another dtype than declared."""
    return f"dtype is {got}, expected {want}" + declared_actual(declared, actual)


def wrong_rank(want: str, got: int, declared: str, actual: str) -> str:
    """Another number of dimensions than declared."""
    return f"expected {want} dimensions, got {got}" + declared_actual(declared, actual)


def size_differs(
    dim: int,
    want: str,
    got: Any,
    places: Sequence[tuple[str, Any, Binding | None]],
    declared: str,
    actual: str,
    function: str = "",
) -> str:
    """A size that is not the declared one; ``places`` are the names in it, their sizes, and where they were bound."""
    lines = [wrong_size(dim, want, str(got)) + declared_actual(declared, actual)]
    for name, size, place in places:
        lines.append(f"  {name} = {size}" + (f", bound by {place}" if place is not None else ""))
    if any(place is not None and place.site.function != function for _, _, place in places):
        lines.append(f"  {SCOPE_HINT}")
    return "\n".join(lines)


def named_size_differs(name: str, want: Any, got: Any, place: Binding | None) -> str:
    """``check_size`` against an earlier binding."""
    bound = f", bound by {place}" if place is not None else ""
    return f"{name} is {got}, expected {want}{bound}"


def unbound_axis(axis: str, bound: Mapping[str, int], declared: str) -> str:
    """An axis that neither the surrounding shard_map/pmap nor the mesh has."""
    known = ", ".join(f"{a}={n}" for a, n in bound.items()) or "none"
    return f"mesh axis {axis!r} is not bound here; bound axes: {known}\n  declared {declared}"


def abstract_mesh(mesh: str, devices: int) -> str:
    """An abstract mesh where arrays are to be placed."""
    return (
        f"the mesh {mesh} is abstract, so nothing can be put on it: make one with jax.make_mesh, which needs {devices} "
        "devices"
    )


def dropped_without_mesh(spec: Any) -> str:
    """A constraint where no mesh is in force."""
    return (
        f"the constraint {spec} has no effect: no mesh is in force on this thread; "
        "put it in force with jax.set_mesh(mesh), or pass mesh=…"
    )


def dropped_by_size(dim: int, size: int, parts: int, axes: Sequence[str], spec: Any) -> str:
    """A constraint on a dimension that its axes do not divide."""
    return (
        f"the constraint {spec} has no effect on dimension {dim}: its size {size} does not divide over the {parts} "
        f"devices of {'/'.join(axes)}, and JAX leaves it replicated"
    )


def sharding_differs(reason: str, declared: str, actual: str, mesh: str, advice: str) -> str:
    """Another layout than declared."""
    said = any(words in actual for words in (" on mesh ", " per device, "))
    return (
        f"{reason}{declared_actual(declared, actual)}"
        + (f"\n  mesh     {mesh}" if mesh and not said else "")
        + (f"\n  {advice}" if advice else "")
    )
