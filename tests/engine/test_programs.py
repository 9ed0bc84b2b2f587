"""The programs in ``fixtures/lint/right/programs`` run under JAX: what the linter is silent about is right."""

from __future__ import annotations

import ast
import inspect
import runpy
import typing
from pathlib import Path
from typing import Any

import jax
import pytest

from benchmarks.mutation.promises import described
from tests.engine.given import Given, distinct, literals

RIGHT = Path(__file__).parents[2] / "fixtures" / "lint" / "right"
PROGRAMS = RIGHT / "programs"


@pytest.mark.once
@pytest.mark.parametrize(
    "path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem
)
def test_the_program_runs(path: Path) -> None:
    jax.eval_shape(runpy.run_path(str(path))["main"])


def takes_arrays(function: Any) -> bool:
    hints = typing.get_type_hints(inspect.unwrap(function))
    parameters = list(inspect.signature(function).parameters)
    return bool(parameters) and all(
        described(hints.get(name)) is not None for name in parameters
    )


@pytest.mark.once
@pytest.mark.parametrize(("name", "count"), [("transforms", 30), ("flow", 2)])
def test_the_functions_run(name: str, count: int) -> None:
    path = RIGHT / f"{name}.py"
    namespace = runpy.run_path(str(path))
    given = Given({}, distinct, 0, literals(ast.parse(path.read_text())), namespace)
    functions = [
        f
        for f in namespace.values()
        if getattr(f, "__module__", None) == namespace["__name__"]
    ]
    ready = [f for f in functions if not isinstance(f, type) and takes_arrays(f)]
    assert len(ready) >= count
    for function in ready:
        for arguments in given.calls(function):
            jax.eval_shape(
                lambda function=function, arguments=arguments: (
                    jax.tree.leaves(function(**arguments)) and None
                )
            )
