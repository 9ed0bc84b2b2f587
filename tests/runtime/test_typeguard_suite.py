"""typeguard's own tests, with our annotations loaded and without: whoever imports us must not change it."""

from __future__ import annotations

import importlib.metadata
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support import run_python

VERSION = importlib.metadata.version("typeguard")
# Imported before typeguard's tests run.
OURS = (
    "import jax.numpy as jnp, shardtypes as st\n"
    "st.register_with_typeguard()\n"
    "st.typechecked(lambda x: x)(jnp.ones(3))\n"
    "assert isinstance(jnp.ones(3), st.f32['N'])\n"
)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked source distribution that ``make env`` fetched from the package registry."""
    archive = Path(sys.prefix) / "typeguard" / f"typeguard-{VERSION}.tar.gz"
    if not archive.exists():
        pytest.fail(
            f"typeguard's own tests are not there: {archive} is missing. `make env` fetches it; by hand: "
            f"python -m pip download --no-deps --no-binary :all: --dest {archive.parent} typeguard=={VERSION}"
        )
    folder = tmp_path_factory.mktemp("typeguard")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / f"typeguard-{VERSION}"


def outcomes(suite: Path, loaded: str) -> dict[str, str]:
    """What came of each test: ``passed``, ``skipped`` or ``failed``."""
    (suite / "loaded_before.py").write_text(loaded)
    report = suite / "report.xml"
    report.unlink(missing_ok=True)
    # mypy is run as a program there, on typeguard's own annotations.
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "loaded_before",
        f"--junitxml={report}",
        "--ignore=tests/mypy",
    ]
    environment = {
        "PYTHONPATH": str(suite),
        **({} if loaded else {"TYPEGUARD_DISABLE_PLUGIN_AUTOLOAD": "1"}),
    }
    done = run_python("-m", "pytest", *options, "tests", cwd=suite, env=environment)
    assert report.exists(), done.stdout + done.stderr
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}.{case.get('name')}": _outcome(case) for case in cases
    }


def _outcome(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


@pytest.mark.once  # of one version of typeguard on every Python
@pytest.mark.long
def test_typeguards_own_tests_pass_beside_ours(suite: Path) -> None:
    alone = outcomes(suite, "")  # nor are we loaded as a plugin of typeguard then
    beside = outcomes(suite, OURS)
    assert len(alone) > 400
    assert [test for test, outcome in alone.items() if outcome == "failed"] == []
    assert {test for test in alone if beside.get(test) != alone[test]} == set()
