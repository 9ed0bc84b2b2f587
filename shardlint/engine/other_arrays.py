"""Arrays of other libraries: what has a shape in a module that uses them need not be one of JAX's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.imports import imported
from shardlint.values import Unknown, Value

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: Whose arrays have methods and arguments of their own.
_OTHERS = frozenset(
    """torch tensorflow tf pandas xarray scipy cupy polars mxnet PIL""".split()
)
#: Those that einops takes, too.
_OF_EINOPS = frozenset({"torch", "tensorflow", "tf", "cupy", "mxnet"})


def is_about_jax(it: Interpreter, module: str) -> bool:
    """Whether what has a shape in a module is one of JAX's arrays: it imports JAX, and no library with others."""
    names = _libraries(it, module)
    return "jax" in names and names.isdisjoint(_OTHERS)


def has_others(it: Interpreter, module: str) -> bool:
    """Whether a module imports a library with arrays of its own."""
    return not _libraries(it, module).isdisjoint(_OTHERS)


@knows(f"einops.{name}" for name in ("rearrange", "reduce", "repeat"))
def rearranged(site: Site) -> Value | None:
    """What einops makes of something unknown where that may be an array of another library; None for any other."""
    if not site.args or not isinstance(site.args[0], Unknown):
        return None
    if _libraries(site.it, site.frame.module).isdisjoint(_OF_EINOPS):
        return None
    return Unknown("an array of one library or another")


def _libraries(it: Interpreter, module: str) -> frozenset[str]:
    """What a module imports, by the first part of each name."""
    known = it.libraries.get(module)
    if known is None:
        source = it.project.module(module)
        names = () if source is None else imported(source)
        known = frozenset(name.partition(".")[0] for name in names)
        it.libraries[module] = known
    return known
