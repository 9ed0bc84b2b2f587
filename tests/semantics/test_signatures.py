"""The parameters of public functions are JAX's, so that a call which does not fit is known to be refused."""

from __future__ import annotations

import inspect
from inspect import Parameter, Signature

import pytest

from shardlint.ops.lowered import is_lowered
from shardtypes.semantics.registry import LOWERINGS, public_signature
from tests.semantics.call import resolved

pytestmark = pytest.mark.once
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_SEVERAL = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_BY_PLACE = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def in_jax(name: str) -> Signature | None:
    try:
        return inspect.signature(resolved(name))
    except (AttributeError, ImportError, TypeError, ValueError):
        return None  # of another release, or NumPy's


def takes_several(signature: Signature) -> bool:
    return any(one.kind in _SEVERAL for one in signature.parameters.values())


PAIRS = {
    name: (public_signature(name), there)
    for name in LOWERINGS
    if is_lowered(name) and not name.startswith("jax.Array.")
    if (there := in_jax(name)) is not None
    if not takes_several(public_signature(name)) and not takes_several(there)
}


def faults(own: Signature, there: Signature) -> list[str]:
    """What JAX takes and the lowering does not, and what it needs."""
    named = {one.name for one in there.parameters.values() if one.kind in _NAMED}
    missing = named - own.parameters.keys()
    found = [f"takes no {name}" for name in sorted(missing)]
    by_place = [one for one in there.parameters.values() if one.kind in _BY_PLACE]
    own_by_place = [one for one in own.parameters.values() if one.kind in _BY_PLACE]
    for mine, theirs in zip(own_by_place, by_place, strict=False):
        is_named = theirs.kind is Parameter.POSITIONAL_OR_KEYWORD
        if is_named and mine.name != theirs.name:
            found.append(f"takes {mine.name} in the place of {theirs.name}")
    needed = [one.name for one in by_place if one.default is Parameter.empty]
    own_needed = [one for one in own_by_place if one.default is Parameter.empty]
    if len(own_needed) > len(needed):
        found.append(f"needs more than {needed}")
    return found


def test_they_take_what_jax_takes() -> None:
    wrong = {name: faults(*pair) for name, pair in PAIRS.items()}
    assert not {name: found for name, found in wrong.items() if found}


def test_most_are_compared() -> None:
    assert len(PAIRS) > 400
