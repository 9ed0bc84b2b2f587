"""A run of pytest that is forked from a warm process is as one in a new interpreter."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, run, run_pytest

# What a run sees before and after it imports JAX.
LOOK = """
import json, os, sys, sysconfig, warnings

def modules():
    standard = {*sys.stdlib_module_names, sysconfig._get_sysconfigdata_name()}
    return sorted(name for name in sys.modules if name.partition(".")[0] not in standard)

def test_it(request):
    before = modules()
    os.environ["JAX_NUM_CPU_DEVICES"] = "3"
    import jax
    seen = {
        "before": before,
        "after": modules(),
        "plugins": sorted(n for n, _ in request.config.pluginmanager.list_name_plugin() if not n.isdigit()),
        "path": sys.path,
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "config": {name: repr(value) for name, value in jax.config.values.items()},
        "origin": [jax.__spec__.name, jax.__spec__.origin, jax.__file__],
        "loader": type(jax.__loader__).__name__,
        "environment": dict(os.environ),
        "filters": [repr(one) for one in warnings.filters],
        "devices": len(jax.devices()),
    }
    import hypothesis
    seen["last"] = modules()
    with open("seen.json", "w") as file:
        json.dump(seen, file)
"""


def seen(folder: Path, fresh: bool) -> dict[str, Any]:
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "JAX_PLATFORMS": "cpu",
        "OPENBLAS_NUM_THREADS": "1",
    }
    arguments = ["-q", "-p", "no:cacheprovider", "test_look.py"]
    if fresh:
        done = run([sys.executable, "-m", "pytest", *arguments], folder, env)
    else:
        done = run_pytest(*arguments, cwd=folder, env={**env, "PYTHONPATH": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stdout + done.stderr
    result: dict[str, Any] = json.loads((folder / "seen.json").read_text())
    return result


def test_a_forked_run_sees_what_a_new_one_sees(tmp_path: Path) -> None:
    (tmp_path / "test_look.py").write_text(LOOK)
    forked, fresh = seen(tmp_path, False), seen(tmp_path, True)
    assert "jax" not in fresh["before"]
    assert "jax" in fresh["after"]
    assert fresh["devices"] == 3
    for name in fresh:
        assert forked[name] == fresh[name], name


@pytest.mark.parametrize("name", ["jax", "hypothesis"])
def test_what_stands_before_it_on_the_path_is_imported(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("mine = True\n")
    (tmp_path / "test_mine.py").write_text(
        f"import {name}\n\ndef test_it():\n    assert {name}.mine\n"
    )
    done = run_pytest("-q", "-p", "no:hypothesispytest", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout
