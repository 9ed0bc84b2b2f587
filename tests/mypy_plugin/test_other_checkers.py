"""Type checkers that know nothing of shapes, on a program with ``f32[Array, '…']``.

mypy without the plugin, and those of the others that are installed beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.checkers import (
    PROGRAM,
    Checker,
    annotated_form,
    checkers,
    long_form,
    plain_arrays,
    short_form,
    table_of_models,
)

pytestmark = pytest.mark.once

INSTALLED = [one for one in checkers(Path(sys.executable).parent) if one.is_installed]


def test_mypy_is_among_them() -> None:
    assert "mypy without the plugin" in [one.name for one in INSTALLED]


@pytest.mark.long
@pytest.mark.parametrize("checker", INSTALLED, ids=lambda one: one.name)
def test_the_long_forms_are_ordinary_arrays(tmp_path: Path, checker: Checker) -> None:
    program = PROGRAM.read_text()
    for form in (long_form, annotated_form):
        file = tmp_path / f"{form.__name__}.py"
        file.write_text(form(program))
        errors, shown = checker.check(file)
        assert errors == []
        assert shown.rpartition(".")[2] == "Array"
    file = tmp_path / "short_form.py"
    file.write_text(short_form(program))
    errors, _ = checker.check(file)
    assert errors  # else the program asks nothing of a checker


@pytest.mark.long
def test_converted_models_are_ordinary_programs() -> None:
    """They have no errors of their own but in the short form."""
    mypy = next(one for one in INSTALLED if one.name == "mypy without the plugin")
    row = table_of_models([mypy]).splitlines()[-1]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:3] == ["0", "0"]
    assert int(cells[3]) > 0


def test_plain_arrays_have_no_shapes() -> None:
    text = 'import jax\nfrom shardtypes import f32\nx: list[f32["B"]]\ny: Float[Array, "B"]\n'
    plain = plain_arrays(text)
    assert plain.endswith("x: list[jax.Array]\ny: Array\n")
