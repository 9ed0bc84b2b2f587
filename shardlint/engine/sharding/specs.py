"""``PartitionSpec`` and ``NamedSharding`` as values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from shardlint.values import (
    DictValue,
    ExternalValue,
    Literal,
    MeshValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    StringValue,
    Unknown,
    Value,
)

PARTITION_SPEC = frozenset(
    {
        "jax.sharding.PartitionSpec",
        "jax.experimental.pjit.PartitionSpec",
        "jax.partition_spec.PartitionSpec",
    }
)
NAMED_SHARDING = frozenset(
    {"jax.sharding.NamedSharding", "jax.named_sharding.NamedSharding"}
)


def make(
    qualname: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    place: tuple[str, int],
) -> SpecValue | ShardingValue | None:
    """``P(…)`` or ``NamedSharding(mesh, spec)``; None for any other call. ``place`` is (module, node) of the call."""
    if qualname in PARTITION_SPEC:
        entries = tuple(axes_of(value) for value in args)
        called = tuple(axes_of(value, called=True) for value in args)
        return SpecValue(
            entries, place, _unreduced(kwargs), called if called != entries else None
        )
    if qualname in NAMED_SHARDING:
        given = {**dict(zip(("mesh", "spec"), args, strict=False)), **kwargs}
        mesh, spec = given.get("mesh"), given.get("spec")
        return ShardingValue(
            mesh if isinstance(mesh, MeshValue) else None,
            spec if isinstance(spec, SpecValue) else SpecValue(None),
        )
    return None


def _unreduced(kwargs: Mapping[str, Value]) -> frozenset[str] | None:
    """What ``P(…, unreduced={…})`` says; None where it, or something else that it says by keyword, is not known."""
    if kwargs.keys() - {"unreduced"}:
        return None
    given = kwargs.get("unreduced", SequenceValue(()))
    names = axes_of(given)
    return None if names is None else frozenset(names)


def is_other(args: Sequence[Value]) -> bool:
    """Whether ``isinstance(x, PartitionSpec)`` asks it of a list, a dict or a plain tuple."""
    if len(args) != 2 or not isinstance(args[0], (SequenceValue, DictValue)):
        return False
    return (
        isinstance(args[1], ExternalValue)
        and args[1].qualname in PARTITION_SPEC | NAMED_SHARDING
    )


def axes_of(value: Value, called: bool = False) -> tuple[str, ...] | None:
    """One entry of a spec, or one entry of a tuple of names: None, a name, or a tuple of names. With ``called`` an axis
    that is not spelled out has the program's name for it."""
    match value:
        case StringValue(name=name) if called and name:
            return (name,)
        case Literal(value=None):
            return ()
        case Literal(value=str(name)):
            return (name,)
        case SequenceValue(items=items):
            names = [axes_of(item, called) for item in items]
            return (
                tuple(name for one in names for name in one or ())
                if all(map(_is_one, names))
                else None
            )
        case _:
            return None


def _is_one(axes: tuple[str, ...] | None) -> bool:
    return axes is not None and len(axes) == 1


def spec_of(value: Value) -> SpecValue | None:
    """The spec that a value given as sharding or spec stands for; None where it is neither."""
    match value:
        case SpecValue():
            return value
        case ShardingValue(spec=spec):
            return spec
        case _:
            return None


def axes_named(spec: SpecValue) -> Iterator[str]:
    """The mesh axes that a spec spells out, in order."""
    for entry in spec.entries or ():
        yield from entry or ()


def items_of(spec: SpecValue) -> SequenceValue | None:
    """The entries of a spec as Python sees them on iteration: ``P(*spec)``."""
    if spec.entries is None:
        return None
    return SequenceValue(tuple(_entry(entry) for entry in spec.entries))


def _entry(axes: tuple[str, ...] | None) -> Value:
    if axes is None:
        return Unknown("an entry of a spec")
    if len(axes) == 1:
        return Literal(axes[0])
    return (
        SequenceValue(tuple(Literal(axis) for axis in axes)) if axes else Literal(None)
    )


def attribute(value: SpecValue | ShardingValue, name: str) -> Value:
    """``sharding.mesh`` and ``sharding.spec``."""
    if isinstance(value, ShardingValue):
        if name == "spec":
            return value.spec
        if name in ("mesh", "abstract_mesh"):
            return value.mesh if value.mesh is not None else MeshValue(None)
    return Unknown(f".{name} of a sharding")


def shown(spec: SpecValue) -> str:
    """``P('d', None)``, as the user would write it; ``…`` for what is not known."""
    if spec.entries is None:
        return "P(…)"
    parts = [_entry_text(entry) for entry in spec.entries]
    if spec.unreduced:
        parts.append("unreduced={" + ", ".join(map(repr, sorted(spec.unreduced))) + "}")
    return "P(" + ", ".join(parts) + ")"


def _entry_text(axes: tuple[str, ...] | None) -> str:
    if axes is None:
        return "…"
    if not axes:
        return "None"
    return repr(axes[0]) if len(axes) == 1 else repr(axes)
