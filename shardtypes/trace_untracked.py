"""What leaves ``shard_map`` as replicated where JAX does not track over which axes values vary (``check_vma=False``).

Such a result is whatever the first device has, and no rule of JAX says so. Where a reduction does not make it the same
on all devices, ``prove`` is asked.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from shardtypes.trace_calls import Call, mesh_in_force

_MADE_ALIKE = {
    "psum",
    "psum_invariant",
    "pmax",
    "pmin",
    "all_gather",
    "all_gather_invariant",
}
# Whose parts have the same operands and results as they have.
_CALLS = {"jit", "pjit", "closed_call", "remat2", "checkpoint", "core_call"}
_REPLICATED = "returned as replicated"


@dataclass(frozen=True)
class Untracked:
    """``wrong`` says what is certainly wrong with what leaves ``shard_map``; None if that is not known."""

    wrong: str | None


def untracked(call: Call, sizes: Mapping[str, Any]) -> Untracked | None:
    """What is known of a call's replicated results; None where nothing is left open."""
    run, traced = call.prepared(sizes)
    with mesh_in_force(call.around.mesh):
        jaxpr = jax.make_jaxpr(run)(traced).jaxpr
    maps = [eqn for eqn in equations(jaxpr) if _is_untracked_map(eqn)]
    if not any(map(_is_open, maps)):
        return None
    return _proved(call, run, traced)


def _proved(call: Call, run: Any, traced: Any) -> Untracked | None:
    from shardtypes.proving import prove  # what most traces have no need of

    try:
        proof = prove(run, traced, mesh=call.around.mesh)
    except Exception:  # noqa: BLE001 - what cannot be compared is said to be left open
        return Untracked(None)
    if proof.ok is True:
        return None
    if proof.ok is False and proof.culprit is not None:
        if _REPLICATED in proof.culprit.what:
            where = textwrap.indent(str(proof.culprit), "  ")
            return Untracked(f"{proof.reason}\n{where}")
    return Untracked(None)


def equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a program, and of what is inside of them."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in _parts(eqn):
            yield from equations(inner)


def _is_untracked_map(eqn: Any) -> bool:
    """Whether this is a ``shard_map`` that does not track varying axes."""
    tracks = eqn.params.get("check_vma", eqn.params.get("check_rep", True))
    return eqn.primitive.name == "shard_map" and not tracks


def _parts(eqn: Any) -> Iterator[Any]:
    for value in eqn.params.values():
        for part in value if isinstance(value, (list, tuple)) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def _is_open(eqn: Any) -> bool:
    """Whether a result that is declared the same on all devices along an axis may differ."""
    params = eqn.params
    manual = frozenset(params.get("newly_manual_axes", params["mesh"].axis_names))
    entering = [_axes(spec) & manual for spec in params["in_specs"]]
    leaving = _varying(params["jaxpr"], entering, manual)
    declared = [_axes(spec) for spec in params["out_specs"]]
    return any(not axes <= named for axes, named in zip(leaving, declared, strict=True))


def _axes(spec: Any) -> frozenset[str]:
    entries = [entry if isinstance(entry, tuple) else (entry,) for entry in spec]
    return frozenset(axis for entry in entries for axis in entry if axis is not None)


def _varying(
    jaxpr: Any, entering: Sequence[frozenset[str]], manual: frozenset[str]
) -> list[frozenset[str]]:
    """The axes along which each result of a part of a mapped program may vary."""
    varies: dict[Any, frozenset[str]] = dict(zip(jaxpr.invars, entering, strict=True))

    def of(atom: Any) -> frozenset[str]:
        is_literal = hasattr(atom, "val")
        return frozenset() if is_literal else varies.get(atom, frozenset())

    for eqn in jaxpr.eqns:
        operands = [of(atom) for atom in eqn.invars]
        results = _results(eqn, operands, manual)
        varies.update(zip(eqn.outvars, results, strict=True))
    return [of(atom) for atom in jaxpr.outvars]


def _results(
    eqn: Any, operands: list[frozenset[str]], manual: frozenset[str]
) -> list[frozenset[str]]:
    name = eqn.primitive.name
    parts = list(_parts(eqn))
    if name in _CALLS and len(parts) == 1:
        return _varying(parts[0], operands, manual)
    union = frozenset[str]().union(*operands)
    if name in _MADE_ALIKE and eqn.params.get("axis_index_groups") is None:
        union -= _named(eqn)
    elif parts or name == "axis_index":
        union |= manual if parts else _named(eqn)
    return [union] * len(eqn.outvars)


def _named(eqn: Any) -> frozenset[str]:
    named = eqn.params.get("axes", eqn.params.get("axis_name", ()))
    return frozenset(named if isinstance(named, tuple) else (named,))
