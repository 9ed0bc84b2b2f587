"""Programs that do not say that they are one: flat scripts, and a ``main`` that is called as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.cli import main

pytestmark = pytest.mark.once  # JAX has no part in it

STEP = """
import jax
import jax.numpy as jnp
from jax import lax
{imports}
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
specs = dict(in_specs=(P(), P("d")), out_specs=P(), check_vma=False)


def step(w, x):
    g = jax.grad(lambda w: jnp.mean(jnp.square(x @ w - 1)))(w)
    return w - 0.1 * lax.{reduction}(g, "d")

"""
DATA = "w, x = jnp.ones(4), jnp.sin(jnp.arange(64.0)).reshape(16, 4)\n"
FORMS = {
    "flat": ("", DATA + "print(jax.shard_map(step, mesh=mesh, **specs)(w, x))\n"),
    "a name of its own": (
        "from jax import shard_map as mapped",
        DATA + "w = mapped(step, mesh=mesh, **specs)(w, x)\n",
    ),
    "mapped before": (
        "",
        "run = jax.jit(jax.shard_map(step, mesh=mesh, **specs))\n"
        + DATA
        + "for _ in range(2):\n    w = run(w, x)\n",
    ),
    "decorated": (
        "from functools import partial",
        "@partial(jax.shard_map, mesh=mesh, **specs)\ndef run(w, x):\n    return step(w, x)\n\n"
        + DATA
        + "with jax.set_mesh(mesh):\n    w = run(w, x)\n",
    ),
    "main": (
        "",
        "def main():\n    "
        + DATA
        + "    return jax.shard_map(step, mesh=mesh, **specs)(w, x)\n\n\nmain()\n",
    ),
    "a method": (
        "",
        "class Trainer:\n    def fit(self, w, x):\n"
        "        return jax.shard_map(step, mesh=mesh, **specs)(w, x)\n\n"
        + DATA
        + "print(Trainer().fit(w, x))\n",
    ),
    "what is printed fails": (
        "import plots",
        DATA + "print(jax.shard_map(step, mesh=mesh, **specs)(w, x))\nplots.plot(w)\n",
    ),
}


def lint(capsys: pytest.CaptureFixture[str], *paths: Path) -> tuple[list[str], str]:
    options = ["--format", "concise", "--jobs", "1", "--no-cache", "--statistics"]
    main([*options, *map(str, paths)])
    shown = capsys.readouterr()
    found = [line for line in shown.out.splitlines() if ": ST316 " in line]
    return found, shown.out


def text(form: str, reduction: str) -> str:
    imports, program = FORMS[form]
    return STEP.format(imports=imports, reduction=reduction) + program


@pytest.mark.parametrize("form", FORMS)
def test_a_script_is_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    path = tmp_path / "program.py"
    path.write_text(text(form, "psum"))
    (found,) = lint(capsys, path)[0]
    assert found.partition(": ")[0].endswith("program.py:14:22")
    path.write_text(text(form, "pmean"))
    assert lint(capsys, path)[0] == []


def test_what_it_runs_may_be_in_another_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    library = text("main", "psum").rpartition("main()")[0]
    (tmp_path / "library.py").write_text(library.replace("psum(g", "pmean(3 * g"))
    script = tmp_path / "program.py"
    script.write_text("from library import main as start\n\nprint(start())\n")
    assert lint(capsys, script)[0] == []
    (tmp_path / "library.py").write_text(library)
    (found,) = lint(capsys, script)[0]
    assert "library.py:14" in found


@pytest.mark.parametrize(
    "before",
    ["w = unknown.load(w)", "x = x.no_such_method()", "unknown.fill(w, x)"],
)
def test_nothing_is_said_of_what_follows_a_statement_that_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, before: str
) -> None:
    call = "print(jax.shard_map(step, mesh=mesh, **specs)(w, x))\n"
    path = tmp_path / "program.py"
    start = STEP.format(imports="import unknown", reduction="psum") + DATA
    path.write_text(start + f"{before}\n{call}")
    found, shown = lint(capsys, path)
    assert found == []
    assert "not run on other numbers of devices: " in shown


def test_a_module_that_only_defines_is_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "program.py"
    mapped = (
        "sm = partial(jax.shard_map, mesh=mesh)\nrun = jax.jit(sm(step, **specs))\n"
    )
    imports = "from functools import partial"
    path.write_text(STEP.format(imports=imports, reduction="psum") + mapped)
    found, shown = lint(capsys, path)
    assert found == []
    assert "not run" not in shown


@pytest.mark.parametrize(
    ("imported", "runs"),
    [
        ("", False),
        ("import numbers_only", False),
        ("import mapped", True),
        ("from through import anything", True),
    ],
)
def test_a_program_is_run_if_what_it_imports_uses_devices(
    imported: str, runs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "mapped": text("flat", "pmean").replace("print", "_ = "),
        "through": "import mapped\n\n\ndef anything():\n    return mapped.mesh\n",
        "numbers_only": "import numpy as np\n\nONES = np.ones(3)\n",
        "program": f"{imported}\n\nif __name__ == '__main__':\n    open('settings').read()\n",
    }
    for name, content in files.items():
        (tmp_path / f"{name}.py").write_text(content)
    _, shown = lint(capsys, tmp_path)
    lines = [line for line in shown.splitlines() if "not run on other" in line]
    assert any("program.py" in line for line in lines) is runs
