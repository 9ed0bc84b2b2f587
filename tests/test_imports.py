"""Imports point one way, and the cheap entry points stay cheap.

``shardtypes.lang`` is the standard library only; linting imports neither JAX nor NumPy; loading the pytest plugin
without ``--shardtypes`` imports none of JAX, NumPy and libcst. The first half of the file proves this in fresh
processes, the second half reads every import statement, lazy ones included.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint.cache import OWN_FOLDERS
from tests.support import ROOT, run_python

pytestmark = pytest.mark.once  # the sources are the same for any Python

HEAVY = {"jax", "jaxlib", "mcp", "numpy", "libcst", "typeguard", "mypy", "pygls"}

# Runs the code of argv[1] and prints the top-level names of everything imported by then.
PROBE = """
import json, sys
try:
    exec(sys.argv[1])
except SystemExit as stop:
    status = stop.code
else:
    status = 0
print("\\n" + json.dumps([status, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def imported_by(code: str, cwd: Path = ROOT) -> set[str]:
    """The top-level packages in ``sys.modules`` after ``code`` ran in a fresh interpreter."""
    done = run_python("-c", PROBE, code, cwd=cwd)
    assert done.returncode == 0, done.stderr
    status, names = json.loads(done.stdout.splitlines()[-1])
    assert status in (0, 1, None), f"status {status}: {done.stdout}{done.stderr}"
    return set(names)


def test_the_probe_sees_imports() -> None:
    assert "numpy" in imported_by("import numpy")
    assert "wave" in imported_by("def f():\n    import wave\nf()")


def test_the_probe_reports_code_that_fails() -> None:
    with pytest.raises(AssertionError, match="no_such_module"):
        imported_by("import no_such_module")
    with pytest.raises(AssertionError, match="status 2"):
        imported_by("raise SystemExit(2)")


def test_the_language_is_standard_library_only() -> None:
    """Everything in ``shardtypes.lang``, not only its front door."""
    modules = [
        f"shardtypes.lang.{path.stem}"
        for path in (ROOT / "shardtypes/lang").glob("*.py")
    ]
    assert "shardtypes.lang.__init__" in modules
    loaded = imported_by(
        "import " + ", ".join(m.removesuffix(".__init__") for m in modules)
    )
    outside = loaded - sys.stdlib_module_names - {"shardtypes"}
    assert not outside & (HEAVY | {"shardlint", "pytest_shardtypes"})


def test_linting_imports_neither_jax_nor_numpy(tmp_path: Path) -> None:
    """A file with a finding, so that positions, rules and rendering run as well."""
    (tmp_path / "model.py").write_text(
        "from __future__ import annotations\n"
        "import jax.numpy as jnp\n"
        "from shardtypes import f32\n\n\n"
        "def project(x: f32['B/d L M'], w: f32['M F/t']) -> f32['B/d L F/t']:\n"
        "    return jnp.einsum('blm,mf->bfl', x, w)\n"
    )
    code = (
        "import sys; from shardlint.cli import main; sys.argv = ['shardlint']\n"
        "status = main(['check', '--no-cache', '--jobs', '1', 'model.py'])\n"
        "assert status == 1, status"
    )
    loaded = imported_by(code, cwd=tmp_path)
    assert "libcst" in loaded
    assert not loaded & {
        "jax",
        "jaxlib",
        "numpy",
        "typeguard",
        "mypy",
        "pytest",
        "pytest_shardtypes",
    }


def test_the_pytest_plugin_is_free_until_asked_for() -> None:
    loaded = imported_by("import pytest_shardtypes.plugin")
    assert "pytest" in loaded
    assert not loaded & HEAVY


def test_a_test_run_without_the_option_imports_nothing_heavy(tmp_path: Path) -> None:
    """The plugin's hooks run too: configuration, collection and the summary of a passing test."""
    (tmp_path / "test_light.py").write_text("def test_light():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    code = (
        "import pytest\n"
        "status = pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'pytest_shardtypes.plugin', 'test_light.py'])\n"
        "assert status == 0, status"
    )
    # Other installed plugins may import what they like: only ours is loaded.
    done = run_python(
        "-c", PROBE, code, cwd=tmp_path, env={"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = set(json.loads(done.stdout.splitlines()[-1])[1])
    assert "pytest_shardtypes" in names
    assert not names & HEAVY


# --- every import statement -------------------------------------------------------------------------------------

# What the modules below a path must not import, the most specific path first. A name covers its submodules;
# "shardtypes!" means all of shardtypes but its language.
FORBIDDEN: dict[str, tuple[str, ...]] = {
    "shardtypes/lang": (
        "shardtypes!",
        "shardlint",
        "pytest_shardtypes",
        "jax",
        "numpy",
        "libcst",
        "typeguard",
    ),
    "shardtypes/semantics": (
        "shardlint",
        "pytest_shardtypes",
        "jax",
        "libcst",
        "mypy",
        "typeguard",
    ),
    "shardtypes": (
        "shardlint",
        "pytest_shardtypes",
        "libcst",
        "mypy",
        "pygls",
        "pytest",
    ),
    "shardlint/ops": (
        "pytest_shardtypes",
        "shardlint.engine",
        "shardlint.rules",
        "shardlint.cli",
        "shardlint.mypy_plugin",
        "libcst",
        "mypy",
        "jax",
        "numpy",
    ),
    "shardlint/rules": (
        "shardtypes!",
        "pytest_shardtypes",
        "libcst",
        "mypy",
        "jax",
        "numpy",
    ),
    "shardlint/engine": (
        "shardtypes!",
        "pytest_shardtypes",
        "shardlint.cli",
        "libcst",
        "mypy",
        "jax",
        "numpy",
    ),
    "shardlint/mypy_plugin": (
        "shardtypes!",
        "pytest_shardtypes",
        "shardlint.cli",
        "jax",
        "numpy",
    ),
    "shardlint/costing": (
        "pytest_shardtypes",
        "libcst",
        "mypy",
        "jax",
        "numpy",
    ),
    "shardlint/evaluation": (
        "pytest_shardtypes",
        "shardlint.engine",
        "shardlint.cli",
        "libcst",
        "mypy",
        "jax",
    ),
    "shardlint": (
        "shardtypes!",
        "pytest_shardtypes",
        "jax",
        "numpy",
        "typeguard",
        "pytest",
        "mypy",
    ),
    "pytest_shardtypes": ("shardlint", "libcst", "mypy"),
}


def imports(source: str, module: str, is_package: bool) -> Iterator[tuple[str, int]]:
    """Each imported dotted name with its line; ``from a import b`` gives ``a.b``."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            for alias in node.names:
                yield f"{base}.{alias.name}", node.lineno


def is_forbidden(name: str, forbidden: tuple[str, ...]) -> bool:
    for entry in forbidden:
        root = entry.removesuffix("!")
        inside = name == root or name.startswith(root + ".")
        excepted = entry.endswith("!") and (name + ".").startswith(f"{root}.lang.")
        if inside and not excepted:
            return True
    return False


def layer_of(path: str) -> str:
    return max((layer for layer in FORBIDDEN if path.startswith(layer + "/")), key=len)


def violations(path: str, source: str) -> list[str]:
    module = path.removesuffix(".py").replace("/", ".")
    is_package = module.endswith(".__init__")
    found = imports(source, module.removesuffix(".__init__"), is_package)
    layer = layer_of(path)
    return [
        f"{path}:{line}: {layer} imports {name}"
        for name, line in found
        if is_forbidden(name, FORBIDDEN[layer])
    ]


def test_findings_are_kept_for_one_build_of_all_that_the_linter_imports() -> None:
    own = [
        folder.relative_to(ROOT).as_posix().replace("/", ".") for folder in OWN_FOLDERS
    ]
    used = {
        name
        for path in (ROOT / "shardlint").rglob("*.py")
        for name, _ in imports(path.read_text(encoding="utf-8"), "shardlint", False)
        if name.startswith("shardtypes.")
    }
    assert len(used) > 20
    assert [
        name
        for name in used
        if not name.startswith(tuple(f"{folder}." for folder in own))
    ] == []


@pytest.mark.parametrize("package", ["shardtypes", "shardlint", "pytest_shardtypes"])
def test_imports_point_one_way(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = [
        v
        for f in files
        for v in violations(
            f.relative_to(ROOT).as_posix(), f.read_text(encoding="utf-8")
        )
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("shardtypes/lang/parser.py", "from shardtypes import layout"),
        ("shardtypes/lang/parser.py", "def f():\n    import jax.numpy"),
        ("shardtypes/lang/parser.py", "from .. import layout"),
        ("shardtypes/runtime.py", "import shardlint.cli"),
        ("shardlint/ops/numpy.py", "from ..engine import analyze"),
        ("shardlint/cli.py", "from shardtypes.layout import layout"),
        ("shardlint/cli.py", "import shardtypes"),
        (
            "shardlint/rules/__init__.py",
            "from shardlint import ir\nimport libcst as cst",
        ),
        ("pytest_shardtypes/plugin.py", "from shardlint.config import Config"),
    ],
)
def test_the_layer_check_can_fail(path: str, source: str) -> None:
    assert len(violations(path, source)) == 1


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("shardtypes/lang/parser.py", "from .size import Size\nimport re"),
        (
            "shardtypes/runtime.py",
            "import jax\nfrom shardtypes.lang import parse\nfrom . import lang",
        ),
        (
            "shardlint/cli.py",
            "from shardtypes.lang import parse\nfrom shardtypes import lang\nimport libcst",
        ),
        ("shardlint/mypy_plugin/hooks.py", "from mypy.plugin import Plugin"),
        ("pytest_shardtypes/plugin.py", "import shardtypes\nimport pytest"),
    ],
)
def test_the_layer_check_can_pass(path: str, source: str) -> None:
    assert not violations(path, source)
