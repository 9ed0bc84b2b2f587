"""Settings: read once into a frozen value; whatever is not understood is an error that says where."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from shardlint.config import Config, ConfigError, find, load, parse, parse_mesh


def test_all_keys() -> None:
    config = parse(
        {
            "select": ["ST2", "ST301"], "ignore": ["ST207"], "per-file-ignores": {"tests/*": ["ST2"]},
            "mesh": {"d": 2, "t": 4}, "exclude": ["old"], "src": ["lib"], "jobs": 3, "cache-dir": ".c",
        },
        "f.toml", Path("/p"),
    )  # fmt: skip
    assert config == Config(
        ("ST2", "ST301"),
        ("ST207",),
        (("tests/*", ("ST2",)),),
        {"d": 2, "t": 4},
        ("old",),
        ("lib",),
        3,
        ".c",
        Path("/p"),
    )
    with pytest.raises(FrozenInstanceError):
        config.jobs = 4  # type: ignore[misc]  # that it cannot be assigned is the point


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"selct": []},
            "unknown key 'selct' in the shardlint configuration; did you mean 'select'?",
        ),
        ({"select": "ST2"}, "'select' must be a list of strings, got 'ST2'"),
        ({"ignore": [1]}, "'ignore' must be a list of strings, got [1]"),
        (
            {"mesh": {"d": 0}},
            "'mesh' must be a table of axis = size, or a list of axis names, got {'d': 0}",
        ),
        (
            {"mesh": {"d": True}},
            "'mesh' must be a table of axis = size, or a list of axis names, got {'d': True}",
        ),
        (
            {"mesh": "d:2"},
            "a mesh is written like d=2,t=4 (an axis name, '=', a size of at least 1), got 'd:2'",
        ),
        (
            {"explicit-axes": "d"},
            "'explicit-axes' must be true, false or a list of axis names, got 'd'",
        ),
        (
            {"explicit-axes": ["x"], "mesh": {"d": 2}},
            "'x' in 'explicit-axes' is not an axis of 'mesh'",
        ),
        (
            {"jobs": -1},
            "'jobs' must be a number of processes (0: one per core), got -1",
        ),
        ({"cache-dir": 1}, "'cache-dir' must be a string, got 1"),
        (
            {"per-file-ignores": []},
            "'per-file-ignores' must be a table of pattern = [codes], got []",
        ),
    ],
)
def test_errors(document: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(document, "f.toml", Path())
    assert str(caught.value) == f"f.toml: {message}"


@pytest.mark.parametrize(
    "text", ["", "d=2,,t", "d=0", "d=x", "=2", "d=2,d=4", "d 2", "2=2", "d=²"]
)
def test_no_mesh(text: str) -> None:
    with pytest.raises(ValueError, match="a mesh is written like"):
        parse_mesh(text)


def test_mesh() -> None:
    assert parse_mesh(" d=2, t ") == {"d": 2, "t": None}


def test_nearest_file_wins(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.shardlint]\njobs = 2\n")
    assert find(inner).jobs == 2
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find(inner).jobs == 2
    (inner / "shardlint.toml").write_text("jobs = 5\n")
    assert (find(inner).jobs, find(inner).root) == (5, inner)


def test_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "shardlint.toml"
    path.write_text("jobs = \n")
    with pytest.raises(
        ConfigError,
        match=r"shardlint\.toml: is not valid TOML: Invalid value \(at line 1",
    ):
        load(path)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "pyproject.toml").write_text("")
    with pytest.raises(ConfigError, match=r"has no \[tool.shardlint\] table"):
        load(tmp_path / "pyproject.toml")
