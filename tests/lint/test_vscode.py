"""The extension for Visual Studio Code, as far as it can be held to the server without Node; `make vscode` runs its own
tests."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from scripts.check_release import newest_release
from shardlint.server.features import FIX_ALL
from shardlint.server.preferences import KEYS, Preferences
from tests.support import ROOT, run_python

pytestmark = pytest.mark.once

FOLDER = ROOT / "editors" / "vscode"


@cache
def manifest() -> dict[str, Any]:
    found = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]


def source(name: str) -> str:
    return (FOLDER / "src" / f"{name}.ts").read_text(encoding="utf-8")


def strings_of(name: str, text: str) -> list[str]:
    """The strings of an array that a constant of a TypeScript module holds."""
    (body,) = re.findall(rf"const {name} = \[(.*?)\]", text, re.DOTALL)
    return re.findall(r'"([^"]*)"', body)


def settings() -> dict[str, dict[str, Any]]:
    declared = manifest()["contributes"]["configuration"]["properties"]
    return {name.removeprefix("shardlint."): one for name, one in declared.items()}


def test_the_version_is_that_of_the_project() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    versions = {manifest()["version"], lock["version"], lock["packages"][""]["version"]}
    assert versions == {newest_release(ROOT)[0]}
    changelog = (FOLDER / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {newest_release(ROOT)[0]} " in changelog


def test_what_it_asks_for_is_what_the_project_asks_for() -> None:
    oldest = dict(re.findall(r'const OLDEST_(\w+) = "([^"]+)"', source("versions")))
    assert f">={oldest['PYTHON']}" == project()["requires-python"]
    assert [f"pygls>={oldest['PYGLS']}"] == project()["optional-dependencies"]["server"]
    assert oldest.keys() == {"PYTHON", "PYGLS", "SHARDTYPES"}
    assert f'"{project()["name"]}[server]"' in source("messages")


def test_its_settings_are_those_that_are_read() -> None:
    """By the extension, or by the server, with the same defaults but for pictures, which not all editors show.

    The client library reads the last one itself.
    """
    read = source("settings")
    starting, running = strings_of("STARTING", read), strings_of("RUNNING", read)
    assert list(settings()) == [*starting, *running, "trace.server"]
    assert running == list(KEYS)
    defaults = {key: settings()[key]["default"] for key in KEYS}
    assert defaults.pop("hoverPictures")
    for key, default in defaults.items():
        assert default is getattr(Preferences(), KEYS[key])


def test_every_setting_is_documented() -> None:
    for page in (FOLDER / "README.md", ROOT / "docs" / "editors.md"):
        text = page.read_text(encoding="utf-8")
        for name in settings():
            assert f"`shardlint.{name}`" in text, (page, name)


def test_its_commands_are_those_that_are_registered() -> None:
    declared = [one["command"] for one in manifest()["contributes"]["commands"]]
    entry = source("extension")
    assert sorted(re.findall(r'command\("([\w.]+)"', entry)) == sorted(declared)
    others = set(re.findall(r'"(shardlint\.\w+)"', entry + source("status")))
    assert others - set(declared) == set()


def test_it_asks_for_the_action_that_the_server_has() -> None:
    assert f'const FIX_ALL = "{FIX_ALL}"' in source("extension")
    for page in (FOLDER / "README.md", ROOT / "docs" / "editors.md"):
        assert f'"{FIX_ALL}": "explicit"' in page.read_text(encoding="utf-8")


def test_lines_of_a_check_are_findings(tmp_path: Path) -> None:
    """The pattern of the task takes a line of the real output apart."""
    path = tmp_path / "model.py"
    text = "from shardtypes import f32\ndef f(x: f32['B M']) -> f32['M B']:\n    return x\n"
    path.write_text(text)
    given = re.search(r"const options = \[(.*?)\]", source("extension"))
    assert given is not None
    options = re.findall(r'"([^"]*)"', given[1])
    done = run_python("-m", "shardlint", "check", "--no-cache", *options, tmp_path)
    assert done.returncode == 0
    (matcher,) = manifest()["contributes"]["problemMatchers"]
    (line,) = done.stdout.splitlines()
    pattern = matcher["pattern"]
    found = re.match(pattern["regexp"], line)
    assert found is not None
    parts = [found[pattern[name]] for name in ("file", "line", "column", "code")]
    assert parts == [str(path), "3", "12", "ST201"]
    assert found[pattern["message"]].startswith("result of f: expected")


def test_the_lock_file_names_no_server() -> None:
    """npm takes packages from the registry of whoever builds; their contents are held by the hashes."""
    text = (FOLDER / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    assert not any("resolved" in one for one in packages.values())
    assert all("integrity" in one for name, one in packages.items() if name)
    names = {**manifest()["dependencies"], **manifest()["devDependencies"]}
    assert all(version[0].isdigit() for version in names.values()), names


def test_it_has_the_licence_of_the_project() -> None:
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert manifest()["license"] == project()["license"]
