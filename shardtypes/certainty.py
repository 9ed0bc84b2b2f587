"""What an error in a trace proves: that annotations do not hold, or only that a function needs more than types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import jax
from jax.sharding import AbstractMesh, Mesh

from shardtypes.errors import TypeCheckError

# Where JAX and its companions compare shapes; what they raise elsewhere is about meshes, values or devices.
_SHAPE_RULES = (
    "einops",
    "jax._src.api",
    "jax._src.core",
    "jax._src.custom_derivatives",
    "jax._src.image",
    "jax._src.interpreters",
    "jax._src.lax",
    "jax._src.nn",
    "jax._src.numpy",
    "jax._src.ops",
    "jax._src.random",
    "jax._src.scipy",
    "jax._src.util",
    "numpy",
    "opt_einsum",
)
#: What a result that leaves ``shard_map`` unreduced raises there, on every mesh that has the axis.
_SHARD_MAP, _UNREDUCED = "jax._src.shard_map", "require replication"
_NEEDS_VALUES = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
_UNBOUND = re.compile(r"unbound axis name:? '?(\w+)")
_FILTERING = "jax_traceback_filtering"


def unbound_axis(error: Exception | None) -> str | None:
    """The axis name that a collective asked for and nothing around it binds, if that is the error."""
    found = _UNBOUND.search(str(error)) if isinstance(error, NameError) else None
    return found[1] if found else None


_NO_MESH = re.compile(
    r"needs a mesh|non-empty mesh|context mesh cannot be empty|not under a mesh context|no mesh"
)
_MISSING_AXIS = re.compile(
    r"Resource axis: (\w+) of|specs refers to '(\w+)'|mesh has no axis '(\w+)'"
)


def needs_mesh(error: Exception | None) -> bool:
    """Whether there is an error because no mesh is in force."""
    return (
        isinstance(error, (ValueError, RuntimeError))
        and _NO_MESH.search(str(error)) is not None
    )


def missing_axes(error: Exception | None) -> list[str]:
    """The axes that the mesh in force lacks, if that is the error."""
    return [next(filter(None, found)) for found in _MISSING_AXIS.findall(str(error))]


def auto_axes_refused(error: Exception | None) -> bool:
    """Whether Explicit axes were needed."""
    text = str(error)
    wants_explicit = "AxisType.Auto" in text or "of type `Explicit`" in text
    return isinstance(error, ValueError) and wants_explicit


def mesh_to_lie_on(error: Exception | None) -> Any:
    """The mesh of a ``shard_map`` that wants its arguments to lie on it already, for its axes are Explicit; None
    if that is not the error. JAX says the mesh nowhere but in the frame that raises."""
    if not isinstance(
        error, ValueError
    ) or "does not match the specs of the input" not in str(error):
        return None
    meshes = [
        frame.f_locals["mesh"] for frame in _frames(error) if "mesh" in frame.f_locals
    ]
    return next(
        (mesh for mesh in reversed(meshes) if isinstance(mesh, (Mesh, AbstractMesh))),
        None,
    )


def lacks_surroundings(error: Exception | None) -> bool:
    """Whether an error says that a mesh, one of its axes, or another kind of axes is missing around the function."""
    if error is None:
        return False
    found = unbound_axis(error), mesh_to_lie_on(error)
    if any(one is not None for one in found):
        return True
    return needs_mesh(error) or auto_axes_refused(error) or bool(missing_axes(error))


def _frames(error: BaseException) -> Iterator[FrameType]:
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_globals.get("__name__") == _SHARD_MAP:
            yield tb.tb_frame
        tb = tb.tb_next


def user_place(error: BaseException | None) -> tuple[str, int] | None:
    """File and line of the user's code, the innermost, at which an error was raised."""
    tb = error.__traceback__ if error is not None else None
    place = None
    while tb is not None:
        module = str(tb.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        if module not in _NOT_USERS:
            place = tb.tb_frame.f_code.co_filename, tb.tb_lineno
        tb = tb.tb_next
    return place


_NOT_USERS = (
    "jax",
    "jaxlib",
    "numpy",
    "einops",
    "opt_einsum",
    "shardtypes",
    "typeguard",
    "functools",
    "contextlib",
)


def why_uncertain(error: Exception | None) -> str | None:
    """Why an error says nothing certain about the annotations; None where it does."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, TypeCheckError) or type(error).__name__ == "ShardingTypeError":
        return None
    if unbound_axis(error) is not None:
        return f"it runs inside shard_map, and its annotations do not say how to enter it: {text}"
    if isinstance(error, _NEEDS_VALUES):
        return f"what it does depends on values: {text}"
    module = _raised_in(error)
    if isinstance(error, (TypeError, ValueError)) and module.startswith(_SHAPE_RULES):
        return None
    if isinstance(error, ValueError) and module == _SHARD_MAP and _UNREDUCED in text:
        return None
    return f"{_STOPS}: {type(error).__name__}: {text}"


_STOPS = "it stops before its result is known"


def refuses(error: Exception | None) -> bool:
    """Whether the function itself refuses what it was given."""
    return error is not None and (why_uncertain(error) or "").startswith(_STOPS)


def raised_by_program(error: Exception | None) -> bool:
    """Whether a statement of the program itself raised an error, as an assertion does."""
    package = _raised_in(error).partition(".")[0]
    return bool(package) and package not in _NOT_USERS


def _raised_in(error: Exception | None) -> str:
    tb = error.__traceback__ if error is not None else None
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return "" if tb is None else str(tb.tb_frame.f_globals.get("__name__", ""))


@contextmanager
def whole_tracebacks() -> Iterator[None]:
    """Have JAX leave its own frames in tracebacks: they tell who raised an error."""
    before = getattr(jax.config, _FILTERING)
    jax.config.update(_FILTERING, "off")
    try:
        yield
    finally:
        jax.config.update(_FILTERING, before)
