"""mypy with the plugin on the example models: silent on the correct ones, and it reports what the linter does."""

from __future__ import annotations

import os
import re
from pathlib import Path

import mypy.api
import pytest

from tests.models.examples import MODELS, NAMES, Bug, bugs, copy

ERROR = re.compile(
    r"^(?P<path>[^:]+):(?P<line>\d+)(?::\d+)*: error: .*\[(?P<code>[\w-]+)\]$"
)

# One bug a model by default; each costs mypy a second or two.
FEW = (
    "transformer/einsum-letters-swapped",
    "flax_logical/swapped-arguments",
    "pmap_classifier/wrong-result-annotation",
    "equinox_jaxtyping/wrong-local-annotation",
)
SEEN = [
    bug
    for bug in bugs()
    if bug.shardlint and (bug.id in FEW or os.environ.get("SHARDTYPES_ALL_BUGS"))
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all runs: the first one reads all of jax."""
    return tmp_path_factory.mktemp("mypy_cache")


@pytest.mark.once
@pytest.mark.parametrize("model", NAMES)
def test_correct_model_is_silent(
    model: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err, status = run(MODELS / model, cache, monkeypatch)
    assert status == 0, out + err


@pytest.mark.once
@pytest.mark.parametrize("bug", SEEN, ids=lambda bug: bug.id)
def test_bug_is_reported_on_its_line(
    bug: Bug, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edited copy is read anew; jax comes from the cache."""

    project = copy(bug.model, tmp_path)
    line = bug.apply(project)
    out, err, status = run(project, cache, monkeypatch)
    found = {
        (m["code"], m["path"], int(m["line"]))
        for m in map(ERROR.match, out.splitlines())
        if m
    }
    assert status == 1, out + err
    wanted = bug.findings(project, line)
    assert found == {(f"shardlint-{code}", *place) for code, *place in wanted}, out


def run(
    project: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str, int]:
    """mypy as configured in ``project``."""
    monkeypatch.chdir(project)
    return mypy.api.run(
        ["--cache-dir", str(cache), "--no-pretty", "--no-error-summary"]
    )
