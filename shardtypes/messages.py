"""The messages of the run-time checks. One function a message; a test states each word for word."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from shardtypes.lang import messages as lang
from shardtypes.lang.array_names import SHARDTYPES_DTYPES
from shardtypes.sites import Binding

_SHORT_DTYPES = {dtype: name for name, dtype in SHARDTYPES_DTYPES.items()}
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


def no_expression(text: str) -> str:
    """A string that stands where a type is expected, and that Python cannot read."""
    return f"{text!r} is no Python expression"


def short_dtype(dtype: Any) -> str:
    """``f32`` for float32: the names of the annotations."""
    return _SHORT_DTYPES.get(str(dtype), str(dtype))


def array_text(dtype: Any, dims: Sequence[Any]) -> str:
    """``f32[16, 64]``."""
    return f"{short_dtype(dtype)}[{', '.join(str(n) for n in dims)}]"


def declared_actual(declared: str, actual: str) -> str:
    """The two lines under every mismatch."""
    return f"\n  declared {declared}\n  actual   {actual}"


def not_an_array(declared: str, value: Any) -> str:
    """A value that is no JAX array."""
    kind = type(value)
    name = (
        f"{kind.__module__}.{kind.__qualname__}"
        if kind.__module__ != "builtins"
        else kind.__qualname__
    )
    hint = ""
    if kind.__module__.partition(".")[0] == "numpy" or kind in (
        bool,
        int,
        float,
        complex,
        list,
    ):
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
    return lang.wrong_dtype(want, got) + declared_actual(declared, actual)


def wrong_rank(want: str, got: int, declared: str, actual: str) -> str:
    """Another number of dimensions than declared."""
    return lang.wrong_rank(want, str(got)) + declared_actual(declared, actual)


def other_dtype(dtype: Any) -> str:
    """What to do about a dtype."""
    return (
        f"convert it with .astype(jax.numpy.{dtype}), or correct the annotation"
        if dtype is not None
        else "convert it with .astype(…), or correct the annotation"
    )


OTHER_RANK = (
    "pass an array of the declared number of dimensions, or correct the annotation"
)
OTHER_SIZE = "pass an array of the declared size, or correct the annotation"


def other_size(names: Collection[str]) -> str:
    """What to do about a size that contradicts these names."""
    known = ", ".join(sorted(names))
    return f"pass arrays that agree in {known}, or give the dimension another name"


def other_size_of_variable(names: Collection[str]) -> str:
    """The same for a value that is assigned to an annotated variable."""
    known = ", ".join(sorted(names))
    return f"assign an array that agrees in {known}, or annotate the variable where it is given another shape"


def size_differs(dim: int, want: str, got: Any, declared: str, actual: str) -> str:
    """A size that is not the declared one."""
    return lang.wrong_size(dim, want, str(got)) + declared_actual(declared, actual)


def named_size_differs(name: str, want: Any, got: Any, place: Binding | None) -> str:
    """``check_size`` against an earlier binding."""
    bound = f", bound by {place}" if place is not None else ""
    return f"{name} is {got}, expected {want}{bound}"


def unbound_axis(axis: str, bound: Mapping[str, int], declared: str) -> str:
    """An axis that neither the surrounding shard_map or pmap nor the mesh has."""
    return (
        f"{lang.unbound_axis(axis, bound)}\n  declared {declared}\n"
        f"  run it in shard_map or pmap over {axis!r}, or put a mesh that has it in force"
    )


def pending_over_automatic(axes: Sequence[str]) -> str:
    """A partial sum that is to be placed on a mesh that cannot hold it."""
    return (
        f"JAX keeps partial sums over Explicit mesh axes only, not over {lang.axes_text(axes)}: "
        "make the mesh with axis_types=(jax.sharding.AxisType.Explicit, …), or reduce it"
    )


def pending_in_old_jax(version: str) -> str:
    """A whole array that is to become a partial sum where JAX gets that wrong."""
    return (
        f"JAX {version} makes partial sums that add up to the array times the number of devices: "
        "placing one needs JAX 0.9 or newer"
    )


def axes_not_known(sharding: Any) -> str:
    """A sharding of which nothing says over which axes it splits."""
    return f"the sharding has no axis names, and no mesh is in force to supply them: {sharding}"


def abstract_mesh(mesh: str, devices: int) -> str:
    """An abstract mesh where arrays are to be placed."""
    return (
        f"the mesh {mesh} is abstract, so no array can be placed on it: make one with jax.make_mesh, which needs "
        f"{devices} devices"
    )


def dropped_without_mesh(spec: Any) -> str:
    """A constraint where no mesh is in force."""
    return (
        f"the constraint {spec} has no effect: no mesh is in force on this thread; "
        "put it in force with jax.set_mesh(mesh), or pass mesh=…"
    )


def dropped_by_size(
    dim: int, size: int, parts: int, axes: Sequence[str], spec: Any
) -> str:
    """A constraint on a dimension that its axes do not divide."""
    reason = lang.indivisible(size, parts, axes)
    return f"the constraint {spec} has no effect on dimension {dim}: {reason}, so JAX leaves it replicated"


# how the reason begins of a partial sum that is not declared as one
UNDECLARED = "the value is a partial sum"
REDUCE_IT = "reduce it (jax.sharding.reshard; inside shard_map lax.psum), or declare it, as in {U:t}"


def undeclared_sum(axes: Collection[str]) -> str:
    """A partial sum whose annotation does not declare it."""
    return f"the value {lang.undeclared_sum(sorted(axes))}"


def no_partial_sum(axes: Collection[str]) -> str:
    """A value that is reduced where its annotation declares a partial sum."""
    return f"expected {lang.partial_sum(sorted(axes))}, got a value that is already reduced"


def other_reduction(axes: Collection[str], kind: str) -> str:
    """A partial maximum or minimum where a partial sum is declared."""
    over = lang.axes_text(sorted(axes))
    return (
        f"expected {lang.partial_sum(sorted(axes))}, got a partial {kind} over {over}"
    )


def sharding_differs(reason: str, declared: str, actual: str, mesh: str) -> str:
    """Another layout than declared."""
    shown = f"\n  mesh     {mesh}" if mesh and " on mesh " not in actual else ""
    return f"{reason}{declared_actual(declared, actual)}{shown}"


def not_checked(function: str) -> str:
    """``source`` of a function that has no checks."""
    return f"{function} is not checked by shardtypes"


def no_checker(function: str, reason: str) -> str:
    """``source`` of a function that only the general checks know."""
    return f"{function} has no checker of its own: {reason}"
