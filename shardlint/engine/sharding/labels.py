"""Names of dimensions, followed from annotations and logical names to where they meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from shardlint import ir
from shardlint.engine.libraries import knows
from shardlint.engine.sharding.contracted import CONTRACTING, Operand, contracted
from shardlint.engine.sharding.site import Site
from shardlint.engine.sharding.specs import shown
from shardlint.logical_rules import RuleList
from shardlint.values import ArrayValue, Dimension, Label, SpecValue, Unknown


def named(value: ArrayValue, spec: SpecValue) -> ArrayValue:
    """The array with these logical names; a dimension without one keeps its label."""
    if (
        value.dims is None
        or spec.entries is None
        or len(value.dims) != len(spec.entries)
    ):
        return value
    dims = tuple(
        Dimension(
            dim.size,
            None,
            Label(entry[0], True, spec.place)
            if entry and len(entry) == 1
            else dim.label,
        )
        for dim, entry in zip(value.dims, spec.entries, strict=True)
    )
    return replace(value, dims=dims)


def words(value: ArrayValue) -> list[str | None]:
    """What the program calls each dimension: its label, else the name of its size."""
    return [
        dim.label.name
        if dim.label is not None
        else dim.size.symbol_name
        if dim.size is not None
        else None
        for dim in value.dims or ()
    ]


def shifted(value: ArrayValue, spec: SpecValue) -> bool:
    """Whether some name stands before the dimension that the program calls so."""
    called = words(value)
    return any(
        entry
        and len(entry) == 1
        and entry[0] in called[i + 1 :]
        and entry[0] != called[i]
        for i, entry in enumerate(spec.entries or ())
    )


def check_order(
    site: Site,
    value: ArrayValue,
    spec: SpecValue,
    lists: Sequence[RuleList],
    operand: ir.Expr | None,
) -> bool:
    """Two names that are exchanged against what the value's annotation calls these dimensions. False after a report.

    It counts only where the exchange changes how the value lies on the mesh.
    """
    if (
        value.dims is None
        or spec.entries is None
        or len(spec.entries) != len(value.dims)
    ):
        return True
    labels = words(value)
    names = [entry[0] if entry and len(entry) == 1 else None for entry in spec.entries]
    for i, j in combinations(range(len(names)), 2):
        if names[i] is None or names[j] is None or names[i] == names[j]:
            continue
        if (names[i], names[j]) != (labels[j], labels[i]):
            continue
        entries = list(spec.entries)
        entries[i], entries[j] = entries[j], entries[i]
        if any(one.resolve(spec.entries) == one.resolve(entries) for one in lists):
            continue
        at = operand.at if operand is not None else site.at
        have, given = (
            " ".join(name or "_" for name in labels),
            shown(spec).removeprefix("P"),
        )
        text = f"the value is {have!r}, but its names are {given}: exchange {names[i]!r} and {names[j]!r}"
        site.report("ST308", at, text)
        return False
    return True


@knows(CONTRACTING, first=True)
def check_contraction(site: Site) -> None:
    """Names that meet in a contraction: a value's X against a kernel's Y, where X is another dimension of the kernel.

    Names that merely differ are no finding: activations and kernels often have names of their own for one dimension.
    """
    for one, i, other_one, k in contracted(site):
        a, b = _constrained(one), _constrained(other_one)
        if a is None or b is None:
            continue
        for value, mine, kernel, its in ((a, i, b, k), (b, k, a, i)):
            label, other = (
                (value.dims or ())[mine].label,
                (kernel.dims or ())[its].label,
            )
            if (
                label is None
                or other is None
                or not other.logical
                or label.name == other.name
            ):
                continue
            if {label.place, other.place} & site.it.wrong_places:
                continue
            rest = [
                dim.label.name
                for n, dim in enumerate(kernel.dims or ())
                if n != its and dim.label is not None
            ]
            if label.name not in rest:
                continue
            place = (
                other.place
                if other.place is not None and other.place[0] == site.frame.module
                else None
            )
            names = tuple(
                dim.label.name if dim.label is not None else "_"
                for dim in kernel.dims or ()
            )
            text = f"{label.name!r} is contracted with {other.name!r} of a kernel whose dimensions are named {names}"
            text += ": exchange its names, or its dimensions"
            related = (
                ((site.frame.module, site.at, "contracted here"),) if place else ()
            )
            site.report("ST403", place[1] if place else site.at, text, related)
            if other.place is not None:
                site.it.wrong_places.add(other.place)
            return


def _constrained(operand: Operand) -> ArrayValue | None:
    """The operand as an array of the rank that the equation tells; something unknown may have been given names, one
    for each of its dimensions."""
    value, rank = operand.value, operand.rank
    if isinstance(value, Unknown) and value.names is not None and rank is not None:
        value = named(ArrayValue((Dimension(None),) * rank), value.names)
    if (
        not isinstance(value, ArrayValue)
        or value.dims is None
        or rank not in (None, len(value.dims))
    ):
        return None
    return value
