"""``flax.linen``'s lifted transformations in guarded code: of module classes, whose variables get a dimension."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.control import sliced, stacked, transparent
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import tick
from shardlint.evaluation.layers.boxes import (
    PARTITION_NAME,
    with_axis,
    without_axis,
)
from shardlint.evaluation.layers.functions import call
from shardlint.evaluation.layers.linen_modules import Module, Path, Store, applied
from shardlint.evaluation.outside import provide
from shardtypes.semantics.lowerings.convert import asarray, sizes_of
from shardtypes.semantics.trees import flatten

_LINEN = "flax.linen"


@dataclass(frozen=True)
class _Lifted:
    """Which collections get a dimension, what it is called, and which random keys differ along it."""

    axes: Mapping[str, Any]
    splits: Mapping[str, bool]
    axis_name: Any

    @classmethod
    def of(cls, variable_axes: Any, split_rngs: Any, metadata: Any) -> _Lifted:
        axes = {name: _axis(axis) for name, axis in dict(variable_axes or {}).items()}
        name = dict(metadata or {}).get(PARTITION_NAME)
        return cls(axes, dict(split_rngs or {}), name)

    def is_sliced(self, collection: str) -> bool:
        return self.axes.get(collection) is not None


def _axis(given: Any) -> int | None:
    if given is None or given is broadcast:
        return None
    if given != 0:
        raise NotEvaluable("variables with another dimension than the first for copies")
    return 0


class _Broadcast:
    """``nn.broadcast``: what all copies share."""


broadcast = _Broadcast()
provide(f"{_LINEN}.broadcast")(broadcast)


class _Copies:
    """The copies of a module that a transformation makes, each with a part of the variables of the whole."""

    def __init__(
        self, whole: Module, module: Module, lifted: _Lifted, count: int
    ) -> None:
        self.module, self.lifted, self.count = module, lifted, count
        self.store: Store = whole._store
        self.path: Path = whole.path
        self.made: list[dict[str, Any]] = []
        self.drawn = {
            name: self.store.key(name, self.path)
            for name in lifted.splits
            if name in self.store.keys
        }

    def run(self, number: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What one copy computes."""
        tick(10)
        store = Store(
            {name: self._part(name, number) for name in self.store.collections},
            self.store.mutable,
            self._keys(number),
            self.store.is_initializing,
        )
        found = applied(self.module, store, None, args, kwargs)
        self.made.append(store.collections)
        return found

    def finish(self, is_reversed: bool = False) -> None:
        """Put the variables of all copies together, in the order of the copies."""
        if is_reversed:
            self.made.reverse()
        for name in dict.fromkeys(name for made in self.made for name in made):
            if not self.store.mutable(name):
                continue
            rows = [made.get(name, {}) for made in self.made]
            value = rows[-1]
            if self.lifted.is_sliced(name):
                value = with_axis(stacked(rows), self.lifted.axis_name)
            held = self.store.at(name, self.path, is_made=True)
            held.clear()
            held.update(value)

    def _part(self, collection: str, number: int) -> Any:
        held = self.store.at(collection, self.path)
        if not self.lifted.is_sliced(collection):
            return held
        return without_axis(sliced(held, number))

    def _keys(self, number: int) -> dict[str, Any]:
        keys = dict(self.store.keys)
        for name, key in self.drawn.items():
            is_split = self.lifted.splits[name]
            keys[name] = (
                call("random.split", key, self.count)[number] if is_split else key
            )
        return keys


Run = Callable[[Module, Module, Sequence[Any], Mapping[str, Any]], Any]
"""What a transformed module, and the one that it is of, compute of arguments."""


def _class_of(target: Any, title: str, run: Run, methods: Any) -> Any:
    """A class below the target whose calls are transformed."""
    if not _is_module_class(target):
        raise NotEvaluable(
            "a lifted transformation of something that is no module class"
        )
    if methods is not None and set(methods) != {"__call__"}:
        raise NotEvaluable("a lifted transformation of several methods")

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = {
            name: getattr(self, name)
            for name in target.__dataclass_fields__
            if name not in ("parent", "name")
        }
        return run(self, target(**given, parent=None), args, kwargs)

    return type(f"{title}{target.__name__}", (target,), {"__call__": __call__})


def _is_module_class(target: Any) -> bool:
    return isinstance(target, type) and issubclass(target, Module)


def _renaming(title: str) -> Callable[..., Any]:
    """A transformation that changes no number; of a class, one with another name."""

    def transform(target: Any = None, *args: Any, **options: Any) -> Any:
        if _is_module_class(target):
            return type(f"{title}{target.__name__}", (target,), {})
        return transparent(target)

    return transform


for _name, _title in (
    ("remat", "Checkpoint"),
    ("checkpoint", "Checkpoint"),
    ("jit", "Jit"),
):
    provide(f"{_LINEN}.{_name}")(_renaming(_title))


@provide(f"{_LINEN}.scan")
def scan(
    target: Any,
    variable_axes: Any = None,
    variable_broadcast: Any = False,
    variable_carry: Any = False,
    split_rngs: Any = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    methods: Any = None,
    metadata_params: Any = None,
    **options: Any,
) -> Any:
    """``nn.scan``: one module after the other, each with a slice of the variables, a carry between them."""
    if variable_carry or out_axes != 0:
        raise NotEvaluable("nn.scan that carries variables, or stacks elsewhere")
    lifted = _Lifted.of(variable_axes, split_rngs, metadata_params)

    def run(whole: Module, module: Module, args: Any, kwargs: Any) -> Any:
        carry, *xs = args
        axes = _per_argument(in_axes, len(xs))
        count = _count(xs, axes, length)
        copies = _Copies(whole, module, lifted, count)
        rows = []
        for number in reversed(range(count)) if reverse else range(count):
            given = _of_round(xs, axes, number)
            carry, row = copies.run(number, (carry, *given), kwargs)
            rows.append(row)
        copies.finish(reverse)
        if reverse:
            rows.reverse()
        return carry, stacked(rows)

    return _class_of(target, "Scan", run, methods)


@provide(f"{_LINEN}.vmap")
def vmap(
    target: Any,
    variable_axes: Any = None,
    split_rngs: Any = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: Any = None,
    methods: Any = None,
    metadata_params: Any = None,
    **options: Any,
) -> Any:
    """``nn.vmap``: copies side by side, each with a slice of the variables."""
    if out_axes != 0 or axis_name is not None:
        raise NotEvaluable("nn.vmap with a name for its axis, or that stacks elsewhere")
    lifted = _Lifted.of(variable_axes, split_rngs, metadata_params)

    def run(whole: Module, module: Module, args: Any, kwargs: Any) -> Any:
        axes = _per_argument(in_axes, len(args))
        copies = _Copies(whole, module, lifted, _count(args, axes, axis_size))
        rows = [
            copies.run(number, _of_round(args, axes, number), kwargs)
            for number in range(copies.count)
        ]
        copies.finish()
        return stacked(rows)

    return _class_of(target, "Vmap", run, methods)


def _per_argument(given: Any, count: int) -> list[int | None]:
    axes = list(given) if isinstance(given, (tuple, list)) else [given] * count
    return [_axis(axis) for axis in axes]


def _count(args: Sequence[Any], axes: Sequence[Any], given: int | None) -> int:
    """How many rounds there are."""
    sizes = {
        sizes_of(asarray(leaf))[0]
        for arg, axis in zip(args, axes, strict=True)
        if axis is not None
        for leaf in flatten(arg)[0]
    }
    if given is not None:
        sizes.add(int(given))
    if len(sizes) != 1:
        raise ValueError(f"copies over sizes {sorted(sizes)}")
    found: int = sizes.pop()
    return found


def _of_round(args: Sequence[Any], axes: Sequence[Any], number: int) -> list[Any]:
    return [
        arg if axis is None else sliced(arg, number)
        for arg, axis in zip(args, axes, strict=True)
    ]
