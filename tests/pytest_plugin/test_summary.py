"""The words of the terminal section, from what a run counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pytest_shardtypes.coverage import Coverage
from pytest_shardtypes.summary import lines
from shardtypes.sharding_check import NO_MESH


def test_a_function_with_unverified_dimensions_is_one_line() -> None:
    """One that no test called is in the list of those, and not here as well."""
    coverage = Coverage(
        checks={"shape": 7},
        not_possible={"a value that is no array": 1, "no mesh in force": 2},
        functions={"m.mlp": 4, "m.right": 1},
        declared={"m.mlp": "m.py:3", "m.never": "m.py:8", "m.right": "m.py:12"},
        dimensions={
            ("m.mlp", "parameter 'x'", 0, "d"): True,
            ("m.mlp", "parameter 'w'", 0, "d"): False,
            ("m.mlp", "parameter 'w'", 1, "t"): False,
            ("m.mlp", "the result", 0, "d"): False,
            ("m.never", "parameter 'x'", 0, "d"): False,
            ("m.right", "the result", 0, "d"): True,
            ("m.Layer", "field 'w'", 1, "t"): False,
        },
        layouts=(),
        too_early=(),
        never_imported=(),
    )
    assert list(lines(coverage, ["m"], Path())) == [
        "checks run: 7 shape",
        "not possible, once: a value that is no array",
        "not possible, 2 times: no mesh in force",
        "annotated functions reached: 2 of 3",
        "never called by a test:",
        "  m.never (m.py:8)",
        "sharded dimensions verified where their axis is larger than 1: 2 of 7",
        "sharding never verified:",
        "  m.Layer: field 'w', dimension 1 over t",
        "  m.mlp: parameter 'w', dimension 0 over d, dimension 1 over t; the result, dimension 0 over d",
    ]


def test_tests_without_a_mesh_have_one_line() -> None:
    """Not one for each function, as all have the same reason."""
    coverage = Coverage(
        checks={"shape": 7},
        not_possible={NO_MESH: 2},
        functions={"m.mlp": 4, "m.norm": 1},
        declared={"m.mlp": "m.py:3", "m.norm": "m.py:8"},
        dimensions={
            ("m.mlp", "parameter 'x'", 0, "d"): False,
            ("m.mlp", "parameter 'w'", 1, "t"): False,
            ("m.norm", "the result", 0, "d"): False,
        },
        layouts=(),
        too_early=(),
        never_imported=(),
    )
    assert list(lines(coverage, ["m"], Path()))[-2:] == [
        "sharded dimensions verified where their axis is larger than 1: 0 of 3",
        "sharding never verified: no annotated function was called on a mesh; mark tests, as in "
        "@pytest.mark.mesh(t=2, d=2)",
    ]
    some = replace(
        coverage,
        dimensions={**coverage.dimensions, ("m.mlp", "the result", 0, "d"): True},
    )
    assert list(lines(some, ["m"], Path()))[-2:] == [
        "  m.mlp: parameter 'w', dimension 1 over t; parameter 'x', dimension 0 over d",
        "  m.norm: the result, dimension 0 over d",
    ]


def test_fields_of_one_class_are_one_line() -> None:
    fitted = "was made of what does not fit its annotation"
    reasons = {f"Model: field '{name}' {fitted}": 33 for name in "abcde"}
    reasons |= {
        f"Head: field 'w' {fitted}": 2,
        "block: parameter 'x': what is assigned to it is not checked": 1,
    }
    coverage = Coverage(
        checks={"shape": 7},
        not_possible=reasons,
        functions={},
        declared={},
        dimensions={},
        layouts=(),
        too_early=(),
        never_imported=(),
    )
    assert list(lines(coverage, ["m"], Path())) == [
        "checks run: 7 shape",
        f"not possible, 2 times: Head: field 'w' {fitted}",
        f"not possible, 165 times: Model: of 5 fields ('a', 'b', 'c', …), each {fitted}",
        "not possible, once: block: parameter 'x': what is assigned to it is not checked",
    ]
