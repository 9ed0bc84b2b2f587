"""What the checks say. One function a message; a test states each word for word."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shardtypes.lang.messages import wrong_size

if TYPE_CHECKING:
    from shardtypes.layouts import Layout
    from shardtypes.scopes import Binding

SCOPE_HINT = (
    "calls in an open Scope share their names: if the callee means another size by it, "
    "decorate the callee with @typechecked(scope=True) or @scope"
)
ENCLOSING_HINT = (
    "a function sees the names of the function around it: if it means another size by it, "
    "give the dimension another name"
)


def missing_package(name: str, package: str) -> str:
    """A name of ours that needs a package which is not installed."""
    return f"shardtypes.{name} needs {package}: install it with pip install 'shardtypes[jax]'"


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
    from shardtypes.beneath import beneath
    from shardtypes.layouts import layout
    from shardtypes.meshes import bound_axes

    bound = bound_axes()
    if bound:
        return array_text(value.dtype, value.shape) + f" per device, with {_axes_text(bound)}"
    try:
        under = beneath(value)
        lies = layout(under.value).without(under.mapped) if under is not None else None
    except (TypeError, ValueError):
        lies = None  # no layout is known here: the shape alone is what can be said
    return described(value.dtype, lies) if lies is not None else array_text(value.dtype, value.shape)


def described(dtype: Any, lies: Layout) -> str:
    """An array as an annotation writes it, from its layout: ``f32[16, 64/t] on mesh d=2, t=4``."""
    text = array_text(dtype, str(lies).split() if lies.dims is not None else lies.shape)
    return text if lies.mesh is None else f"{text} on mesh {_axes_text(lies.mesh.shape)}"


def array_text(dtype: Any, dims: Sequence[Any]) -> str:
    """``f32[16, 64]``."""
    return f"{short_dtype(dtype)}[{', '.join(str(n) for n in dims)}]"


def _axes_text(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def declared_actual(declared: str, actual: str) -> str:
    """The two lines under every mismatch."""
    return f"\n  declared {declared}\n  actual   {actual}"


def not_an_array(declared: str, value: Any) -> str:
    """A value that is no JAX array."""
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__
    hint = ""
    if kind.__module__.partition(".")[0] == "numpy" or kind in (bool, int, float, complex, list):
        hint = "; convert it with jax.numpy.asarray"
    elif value is None:
        hint = f"; declare {declared} | None if it may be missing"
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
    plural = "" if want.split()[-1] == "1" else "s"
    return f"expected {want} dimension{plural}, got {got}" + declared_actual(declared, actual)


def other_dtype(dtype: Any) -> str:
    """What to do about a dtype."""
    return (
        f"convert it with .astype(jax.numpy.{dtype}), or correct the annotation"
        if dtype is not None
        else "convert it with .astype(…), or correct the annotation"
    )


OTHER_RANK = "pass an array of the declared number of dimensions, or correct the annotation"
OTHER_SIZE = "pass an array of the declared size, or correct the annotation"


def other_size(names: Collection[str]) -> str:
    """What to do about a size that contradicts these names."""
    known = ", ".join(sorted(names))
    return f"pass arrays that agree in {known}, or give the dimension another name"


def size_differs(dim: int, want: str, got: Any, declared: str, actual: str) -> str:
    """A size that is not the declared one."""
    return wrong_size(dim, want, str(got)) + declared_actual(declared, actual)


def named_size_differs(name: str, want: Any, got: Any, place: Binding | None) -> str:
    """``check_size`` against an earlier binding."""
    bound = f", bound by {place}" if place is not None else ""
    return f"{name} is {got}, expected {want}{bound}"


def unbound_axis(axis: str, bound: Mapping[str, int], declared: str) -> str:
    """An axis that neither the surrounding shard_map/pmap nor the mesh has."""
    known = ", ".join(f"{a}={n}" for a, n in bound.items()) or "none"
    return (
        f"mesh axis {axis!r} is not bound here; bound axes: {known}\n  declared {declared}\n"
        f"  run it in shard_map or pmap over {axis!r}, or put a mesh that has it in force"
    )


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


def sharding_differs(reason: str, declared: str, actual: str, mesh: str) -> str:
    """Another layout than declared."""
    said = any(words in actual for words in (" on mesh ", " per device, "))
    return f"{reason}{declared_actual(declared, actual)}" + (f"\n  mesh     {mesh}" if mesh and not said else "")
