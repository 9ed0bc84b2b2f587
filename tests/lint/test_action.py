"""The GitHub Action and the other templates: their commands, run as the services run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from shardlint.options import baseline_options, check_options
from tests.lint.adopting import HEAD, MODEL, NORM, RIGHT, project
from tests.support import ROOT
from tests.test_packaging import commit_all

pytestmark = pytest.mark.once  # the action is a text

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
PAGE = (ROOT / "docs" / "adopting.md").read_text("utf-8")
_INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


def step(identity: str) -> dict[str, Any]:
    (found,) = [one for one in ACTION["runs"]["steps"] if one.get("id") == identity]
    assert isinstance(found, dict)
    return found


def run_check(
    folder: Path, temporary: Path, **inputs: str
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run the step with inputs in place of their defaults; gives what it sets as outputs, too."""
    temporary.mkdir(exist_ok=True)
    binaries = temporary / "bin"
    binaries.mkdir(exist_ok=True)
    command = binaries / "shardlint"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m shardlint "$@"\n')
    command.chmod(0o755)
    values = {name: str(one["default"]) for name, one in ACTION["inputs"].items()}
    assert set(inputs) <= set(values)
    values |= inputs
    env = {
        name: _INPUT.sub(lambda match: values[match[1]], text)
        for name, text in step("check")["env"].items()
    }
    output = temporary / "output"
    output.write_text("")
    places = {
        "BIN": str(binaries),
        "GITHUB_OUTPUT": str(output),
        "RUNNER_TEMP": str(temporary),
        "PYTHONPATH": str(ROOT),
    }
    script = temporary / "step.sh"
    script.write_text(step("check")["run"])
    done = subprocess.run(
        # as the service does for `shell: bash`
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
        cwd=folder,
        env={**os.environ, **env, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    return done, output.read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    files = {"a b/model.py": MODEL, "right.py": f"{HEAD}{RIGHT}"}
    return project(tmp_path / "repo", files)


def test_findings_are_annotations_and_fail(folder: Path, tmp_path: Path) -> None:
    done, output = run_check(folder, tmp_path / "temp")
    assert (done.returncode, output) == (1, "")
    rows = done.stdout.splitlines()
    assert len(rows) == 2
    assert rows[0].startswith("::error file=a b/model.py,line=6,")
    done, _ = run_check(folder, tmp_path / "temp", fail="false")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    done, _ = run_check(folder, tmp_path / "temp", fail="false", paths="gone.py")
    assert done.returncode == 2
    done, _ = run_check(folder, tmp_path / "temp", paths="right.py")
    assert (done.returncode, done.stdout) == (0, "")


def test_paths_options_and_since(folder: Path, tmp_path: Path) -> None:
    done, _ = run_check(
        folder,
        tmp_path / "temp",
        paths="a b\nright.py\n",
        args="--select ST201 --quiet",
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert [row.partition("title=")[2][:5] for row in done.stdout.splitlines()] == [
        "ST201"
    ]
    (folder / ".git").rmdir()
    commit_all(folder)
    (folder / "new.py").write_text(f"{HEAD}{NORM}")
    done, _ = run_check(folder, tmp_path / "temp", since="HEAD")
    assert done.stdout.startswith("::error file=new.py,")
    assert len(done.stdout.splitlines()) == 1


def test_sarif_is_written_with_findings_and_without(
    folder: Path, tmp_path: Path
) -> None:
    for paths, status, count in ((".", 1, 2), ("right.py", 0, 0)):
        done, output = run_check(folder, tmp_path / "temp", sarif="true", paths=paths)
        assert done.returncode == status
        name, _, value = output.strip().partition("=")
        assert name == "sarif-file"
        report = json.loads(Path(value).read_text("utf-8"))
        assert len(report["runs"][0]["results"]) == count


def test_inputs_reach_the_scripts_as_variables_only() -> None:
    """What stands in a script is run: a pull request may choose the names of branches and files."""
    for one in ACTION["runs"]["steps"]:
        assert "${{" not in one.get("run", "")
    used = set(_INPUT.findall((ROOT / "action.yml").read_text("utf-8")))
    assert used | {"python-version"} == set(ACTION["inputs"])


def test_the_manual_names_every_input() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:`([^`]*)`)? ?\|", PAGE, re.MULTILINE)
    documented = dict(rows)
    for name, about in ACTION["inputs"].items():
        assert documented[name] == str(about["default"])
        assert about["description"].endswith(".")


def blocks() -> list[Any]:
    return [
        yaml.safe_load(body)
        for body in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    ]


def test_templates_use_what_there_is() -> None:
    (hook,), workflow, gitlab = blocks()
    (used,) = hook["hooks"]
    assert check_options(["--force-exclude", *used["args"], "a.py"]).paths == ["a.py"]
    assert re.search(used["exclude"], "third_party/a.py")
    assert not re.search(used["exclude"], "src/third_party/a.py")
    (action,) = [
        one
        for one in workflow["jobs"]["shardlint"]["steps"]
        if one["uses"].startswith("shardtypes/")
    ]
    assert set(action["with"]) <= set(ACTION["inputs"])
    job = gitlab["shardlint"]
    command = job["script"][-1].split()
    options = check_options(command[1:])
    assert options.format == "gitlab"
    assert options.output_file == job["artifacts"]["reports"]["codequality"]
    assert baseline_options(["src"]).paths == ["src"]
