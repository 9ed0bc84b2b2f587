"""JAX fails where a finding says that it does: the witness of each finding is replayed."""

from __future__ import annotations

import importlib
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jax
import pytest
from einops import EinopsError
from typeguard import TypeCheckError

from shardlint import ir
from shardlint.engine import run
from shardlint.engine.strings import walk
from shardlint.engine.types import ArrayType
from shardlint.events import Event
from shardlint.lower import lower
from shardlint.project import Project
from shardtypes import install_import_hook
from tests.engine.replay import arguments, of_arrays

CASES = Path(__file__).parents[2] / "fixtures" / "lint" / "wrong"
#: JAX, or einops, itself refuses these.
RAISING = {"ST204", "ST205", "ST206", "ST208", "ST209", "ST210", "ST211", "ST213", "ST214", "ST215", "ST217", "ST218"}
#: Annotations that are not kept: JAX computes on, the run-time checks refuse.
PROMISES = {"ST201", "ST202", "ST203", "ST212"}
REFUSALS = (TypeError, ValueError, IndexError, AssertionError, EinopsError)


@dataclass(frozen=True)
class Replay:
    """A finding, and the functions of its file that lead there: their parameters are all arrays of known rank."""

    path: Path
    event: Event
    functions: tuple[tuple[str, tuple[ArrayType, ...]], ...]


def replays(path: Path) -> list[Replay]:
    name = ".".join(path.relative_to(CASES.parent).with_suffix("").parts)
    modules = {}
    for other in (path.parent.glob("*.py") if path.parent != CASES else [path]):
        one = ".".join(other.relative_to(CASES.parent).with_suffix("").parts).removesuffix(".__init__")
        modules[one] = lower(other.read_bytes(), one, str(other), other.name == "__init__.py").module
    module = modules[name]
    analysis = run(Project(modules), module)
    arrays = of_arrays(analysis.it, module)
    found = []
    for event in analysis.found():
        if event.code in RAISING | PROMISES:
            leading = _leading(module, event.at, arrays)
            if leading:
                found.append(Replay(path, event, tuple((one, arrays[one]) for one in leading)))
    return found


def _leading(module: ir.Module, at: int, arrays: dict[str, tuple[ArrayType, ...]]) -> list[str]:
    """The function around a node, if it takes arrays only, else those that use the definition around the node."""
    spans = zip(module.body, [*module.body[1:], None], strict=True)
    around = next(
        (a for a, b in spans if isinstance(a, (ir.Function, ir.Class)) and a.at <= at and (b is None or at < b.at)),
        None,
    )
    if around is None or around.name in arrays:
        return [around.name] if around is not None else []
    return [
        node.name
        for node in module.body
        if isinstance(node, ir.Function)
        and node.name in arrays
        and any(isinstance(inner, ir.Name) and inner.id == around.name for inner in walk(node.body))
    ]


PATHS = sorted(path for path in CASES.rglob("*.py") if path.name != "__init__.py")
FOUND = [one for path in PATHS for one in replays(path)]
ALL = [one for one in FOUND if one.event.code in RAISING]
PROMISED = [one for one in FOUND if one.event.code in PROMISES]


@cache
def namespace(path: Path) -> dict[str, Any]:
    if path.parent == CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # typeguard warns of what ST106 reports
            return runpy.run_path(str(path))
    sys.path.insert(0, str(CASES.parent))
    try:
        return vars(importlib.import_module(".".join(path.relative_to(CASES.parent).with_suffix("").parts)))
    finally:
        sys.path.remove(str(CASES.parent))


@pytest.mark.parametrize("one", ALL, ids=[f"{r.path.stem}-{r.functions[0][0]}-{r.event.at}" for r in ALL])
def test_jax_fails_at_the_witness(one: Replay) -> None:
    assert any(fails(one, name, types) for name, types in one.functions)


def fails(one: Replay, name: str, types: tuple[ArrayType, ...]) -> bool:
    function = namespace(one.path)[name]
    try:
        jax.eval_shape(function, *arguments(types, one.event.witness))
    except REFUSALS:
        return True
    return False


@pytest.fixture(scope="module")
def checked() -> Iterator[Callable[[Path], dict[str, Any]]]:
    """The modules of the cases with their annotations checked; they are imported once more, under the hook."""
    own = [name for name in sys.modules if name.partition(".")[0] == CASES.name]
    before = {name: sys.modules.pop(name) for name in own}
    sys.path.insert(0, str(CASES.parent))

    def load(path: Path) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # typeguard warns of what ST106 reports
            return vars(importlib.import_module(".".join(path.relative_to(CASES.parent).with_suffix("").parts)))

    with install_import_hook([CASES.name]):
        yield load
    sys.path.remove(str(CASES.parent))
    for name in [name for name in sys.modules if name.partition(".")[0] == CASES.name]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.once
@pytest.mark.parametrize("one", PROMISED, ids=[f"{r.path.stem}-{r.functions[0][0]}-{r.event.at}" for r in PROMISED])
def test_the_run_time_refuses_at_the_witness(one: Replay, checked: Callable[[Path], dict[str, Any]]) -> None:
    functions, witness = checked(one.path), one.event.witness
    for name, types in one.functions:
        # What a witness does not name may be anything; a condition around the finding may want a 1.
        ones = {size: 1 for type_ in types if type_.shape for size in type_.shape.names} | dict(witness)
        if any(refused(functions[name], arguments(types, sizes)) for sizes in (witness, ones)):
            return
    pytest.fail(f"accepted at {dict(witness)}")


def refused(function: Callable[..., object], args: list[jax.ShapeDtypeStruct]) -> bool:
    try:
        jax.eval_shape(function, *args)
    except (TypeCheckError, *REFUSALS):
        return True
    return False


def test_there_are_cases() -> None:
    assert len(ALL) >= 180
    assert {one.event.code for one in ALL} == RAISING
    assert len(PROMISED) >= 70
    assert {one.event.code for one in PROMISED} == PROMISES
