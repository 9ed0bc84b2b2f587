"""Names from outside the program: a tree of dotted names, of which some are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import tick
from shardtypes.semantics.array import NoGradient, NotConcrete
from shardtypes.semantics.lowerings import LOWERINGS, Unsupported

#: Modules that are the same under other names.
_ALIASES = {
    "jax.experimental.shard_map.shard_map": "jax.shard_map",
    "jax.experimental.pjit.pjit": "jax.jit",
    "jax.pjit": "jax.jit",
    "jax.remat": "jax.checkpoint",
    "jax.ad_checkpoint.checkpoint": "jax.checkpoint",
    "jax.experimental.multihost_utils": "jax.multihost_utils",
    "jax.experimental.mesh_utils": "jax.mesh_utils",
    "jax.sharding.PartitionSpec": "jax.P",
    "jax.experimental.maps.Mesh": "jax.sharding.Mesh",
    "jax.experimental.pjit.PartitionSpec": "jax.P",
    "jax.interpreters.pxla.PartitionSpec": "jax.P",
    "jax.core.axis_frame": "jax.lax.axis_size",
    "jax.tree_util.tree_map": "jax.tree.map",
    "jax.tree_map": "jax.tree.map",
    "optax.schedules": "optax",
    "optax.transforms": "optax",
}


class Outside:
    """A name outside of the program, such as ``jax.numpy.sum``, before it is known whether it means something here."""

    __slots__ = ("qualname",)

    def __init__(self, qualname: str) -> None:
        self.qualname = qualname

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tick()
        function = known(self.qualname)
        if function is None or not callable(function):
            raise NotEvaluable(f"{self.qualname}, which is not evaluated")
        return guarded(self.qualname, function, args, kwargs)

    def __getitem__(self, item: Any) -> Any:
        function = known(f"{self.qualname}[]")
        return Outside(f"{self.qualname}[]") if function is None else function(item)

    def __iter__(self) -> Iterator[Any]:
        """Python would ask ``__getitem__`` for one item after another, without end."""
        raise NotEvaluable(f"the items of {self.qualname}")

    def __contains__(self, item: Any) -> bool:
        raise NotEvaluable(f"the items of {self.qualname}")

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        found = known(f"{self.qualname}<base>")
        if found is None:
            raise NotEvaluable(f"a class below {self.qualname}")
        if found is object:
            return ()  # which comes last, whatever the order of the bases
        entries = getattr(found, "__mro_entries__", None)
        return (found,) if entries is None else tuple(entries((found,)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outside) and other.qualname == self.qualname

    def __hash__(self) -> int:
        return hash(self.qualname)

    def __repr__(self) -> str:
        return self.qualname


def guarded(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Call a function of ours; what it does not cover is not evaluable."""
    try:
        return function(*args, **kwargs)
    except Unsupported as error:
        raise NotEvaluable(f"{name}: {error}") from error
    except NotConcrete as error:
        raise NotEvaluable(f"{name}: a number that differs between devices") from error
    except NoGradient as error:
        raise NotEvaluable(f"the gradient of {error}") from error


#: Names that mean something besides the lowerings: functions, classes and constants.
KNOWN: dict[str, Any] = {}


def provide(name: str) -> Callable[[Any], Any]:
    """Register a value, or the decorated function or class, under a qualified name."""

    def register(made: Any) -> Any:
        KNOWN[name] = made
        return made

    return register


def known(qualname: str) -> Any:
    """What a qualified name means here, or None."""
    qualname = _canonical(qualname)
    found = KNOWN.get(qualname)
    if found is None:
        found = LOWERINGS.get(qualname)
    return _with_all_names(qualname) if found is None else found


def _with_all_names(qualname: str) -> Any:
    """What a name means below one, such as ``logging``, that has every attribute; or None."""
    above = qualname.rpartition(".")[0]
    while above:
        found = KNOWN.get(above)
        if getattr(found, "has_all_names", False):
            return found
        above = above.rpartition(".")[0]
    return None


@lru_cache(maxsize=4096)
def _canonical(qualname: str) -> str:
    for prefix, other in _ALIASES.items():
        if qualname == prefix or qualname.startswith(prefix + "."):
            qualname = other + qualname.removeprefix(prefix)
    return qualname


def attribute(value: Outside, name: str) -> Any:
    """``value.name``: a constant if it is one, else a name of which nothing is known yet."""
    qualname = f"{value.qualname}.{name}"
    if qualname in KNOWN and KNOWN[qualname] is None:
        return None
    found = known(qualname)
    if found is not None and not callable(found):
        return found
    if isinstance(found, type) or getattr(found, "is_value", False):
        return found
    return Outside(qualname)
