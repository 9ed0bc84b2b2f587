"""Arguments whose types no annotation says: made where a mapped function's specs say how they are sharded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.meshes import Spec
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import map_leaves


@dataclass(frozen=True)
class Guess:
    """What an argument without annotation may be: an array of at least this ``rank``, and as long as its spec; that of
    the parameter ``whole`` has integers. Those ``as_specs`` have one dimension, or as many as their specs."""

    rank: int = 2
    whole: str | None = None
    as_specs: frozenset[str] = frozenset()


class Unmade:
    """An argument of a function that is called by itself. A function may hand it on; all else needs its value."""

    def __init__(
        self, name: str, reason: str, make: Callable[[str, int], Array]
    ) -> None:
        self.name = name
        self._reason = reason
        self._make = make
        self._made: Any = None

    def made(self, specs: Any) -> Any:
        """Arrays for a tree of specs; the first specs that are asked for decide."""
        if self._made is None:
            self._made = map_leaves(
                lambda spec: self._make(self.name, len(spec or ())),
                specs,
                is_leaf=_is_spec,
            )
        return self._made

    def refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise NotEvaluable(f"its argument {self.name}{self._reason}")

    __hash__ = object.__hash__


_NEEDS_VALUE = """call getitem iter len contains bool int float complex index round abs neg pos invert jax_array
eq ne lt le gt ge add radd sub rsub mul rmul matmul rmatmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow
and rand or ror xor rxor lshift rlshift rshift rrshift divmod rdivmod""".split()
for _name in _NEEDS_VALUE:
    setattr(Unmade, f"__{_name}__", Unmade.refuse)


def refuse_attribute(argument: Unmade, name: str) -> Any:
    """For ``x.shape``, where ``x`` is not made."""
    return argument.refuse()


def filled(args: Sequence[Any], in_specs: Any) -> tuple[Any, ...]:
    """What a mapped function is given, with arrays for the arguments that are not made yet."""
    if not any(isinstance(arg, Unmade) for arg in args):
        return tuple(args)
    specs = (
        in_specs
        if isinstance(in_specs, (tuple, list)) and not _is_spec(in_specs)
        else [in_specs] * len(args)
    )
    if len(specs) != len(args):
        raise ValueError(f"in_specs has {len(specs)} entries for {len(args)} arguments")
    return tuple(
        arg.made(one) if isinstance(arg, Unmade) else arg
        for arg, one in zip(args, specs, strict=True)
    )


def _is_spec(value: Any) -> bool:
    return value is None or isinstance(value, Spec)
