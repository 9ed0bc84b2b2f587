"""A whole run over small projects: imports followed, cache, processes, failures of our own."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlint import run as running
from shardlint import workers
from shardlint.cli import main
from shardlint.config import Config
from shardlint.run import check
from tests.support import run_python

WRONG = (
    "from shardtypes import f32\ndef f(x: f32['B M']) -> f32['M B']:\n    return x\n"
)
RIGHT = (
    "from shardtypes import f32\ndef f(x: f32['B M']) -> f32['B M']:\n    return x\n"
)
Write = Callable[[dict[str, str]], Path]

# JAX and Python warn of forks in a process with threads: that is the test run's, which other tests made JAX start in.
pytestmark = [
    pytest.mark.filterwarnings("ignore:os.fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
]


def write_below(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    def write(files: dict[str, str]) -> Path:
        write_below(tmp_path, files)
        return tmp_path

    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return write


def found(
    *paths: str, cache: bool = False, **settings: object
) -> list[tuple[str, str, int]]:
    report = check(paths or (".",), Config().with_options(**settings), cache=cache)
    assert report.problems == []
    return [(d.code, d.place.path, d.place.line) for d in report.diagnostics]


def test_a_finding_has_its_place(write: Write) -> None:
    write({"a.py": WRONG, "b.py": RIGHT})
    assert found() == [("ST201", "a.py", 3)]


@pytest.mark.parametrize("name", ["flax", "optax", "unknown_library"])
def test_a_folder_beside_the_project_that_has_the_name_of_what_its_files_import(
    write: Write, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the checkout of a library has, beside that of the project."""
    write(
        {
            f"{name}/README": "",
            "mine/package/__init__.py": "",
            "mine/package/a.py": f"import {name}\n{WRONG}",
        }
    )
    monkeypatch.chdir("mine")
    assert found() == [("ST201", "package/a.py", 4)]


def test_a_checkout_beside_the_project_is_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its files are called says nothing of what is installed under that name."""
    texts = {
        "mine/pyproject.toml": "",
        "mine/user.py": USER.replace("common", "neighbour.common"),
        "mine/package/__init__.py": "",
        "mine/package/user.py": USER.replace("common", "neighbour"),
        "neighbour/__init__.py": COMMON["common.py"],
        "neighbour/common.py": COMMON["common.py"],
    }
    write_below(tmp_path, texts)
    monkeypatch.chdir(tmp_path / "mine")
    report = check((".",), cache=False)
    assert report.problems == report.diagnostics == []
    assert {Path(path).name for path in report.texts} == {"user.py", "__init__.py"}


def test_a_project_goes_by_the_name_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package without ``__init__.py``, checked from inside."""
    texts = {
        "mine/pyproject.toml": "",
        **{f"mine/{name}": text for name, text in COMMON.items()},
    }
    write_below(
        tmp_path, {**texts, "mine/user.py": USER.replace("common", "mine.common")}
    )
    monkeypatch.chdir(tmp_path / "mine")
    assert [
        (d.code, d.place.path, d.place.line)
        for d in check((".",), cache=False).diagnostics
    ] == [("ST201", "user.py", 3)]


@pytest.mark.parametrize("how", ["after", "above"])
def test_suppression(write: Write, how: str) -> None:
    comment = "# shardlint: ignore[ST201] on purpose"
    after = WRONG.replace("return x", f"return x  {comment}")
    above = WRONG.replace("    return x", f"    {comment}\n    return x")
    write({"a.py": after if how == "after" else above})
    assert found() == []


COMMON = {"common.py": "from shardtypes import f32 as floats\n"}
USER = "from common import floats\ndef f(x: floats['B M']) -> floats['M B']:\n    return x\n"


@pytest.mark.parametrize("paths", [(".",), ("user.py",), ("user.py", "common.py")])
def test_a_file_without_any_library_name_is_checked_if_it_imports_one_that_has(
    write: Write, paths: tuple[str, ...]
) -> None:
    write({**COMMON, "user.py": USER})
    assert found(*paths) == [("ST201", "user.py", 3)]


def test_relative_imports_of_files_that_were_not_asked_for(write: Write) -> None:
    write(
        {
            "p/__init__.py": "",
            "p/common.py": COMMON["common.py"],
            "p/user.py": USER.replace("common", ".common"),
        }
    )
    assert found("p/user.py") == [("ST201", "p/user.py", 3)]


def test_sources_below_src(write: Write) -> None:
    write({"src/common.py": COMMON["common.py"], "tests/user.py": USER})
    assert found("tests") == [("ST201", "tests/user.py", 3)]


def test_two_folders_of_scripts_with_the_same_names(write: Write) -> None:
    harmless = "floats = {'B M': 1, 'M B': 2}\n"
    write(
        {
            "a/common.py": harmless,
            "a/user.py": USER,
            "b/common.py": COMMON["common.py"],
            "b/user.py": USER,
        }
    )
    assert found() == [("ST201", "b/user.py", 3)]


def test_the_cache_changes_nothing(write: Write) -> None:
    folder = write(
        {**COMMON, "user.py": USER, "bad.py": "x = (\n", "plain.py": "x = 1\n"}
    )
    first = found(cache=True)
    assert [code for code, _, _ in first] == ["ST902", "ST201"]
    assert (folder / ".shardlint_cache" / ".gitignore").read_text() == "*\n"
    assert found(cache=True) == first
    write({"common.py": "floats = {'B M': 1, 'M B': 2}\n"})
    assert found(cache=True) == first[:1]


def test_a_damaged_cache_is_rebuilt(write: Write) -> None:
    folder = write({"a.py": WRONG})
    first = found(cache=True)
    for entry in folder.glob(".shardlint_cache/??/*"):
        entry.write_bytes(b"\x80\x05garbage")
    assert found(cache=True) == first


def test_old_entries_are_forgotten(write: Write) -> None:
    folder = write({"a.py": WRONG})
    found(cache=True)
    (folder / ".shardlint_cache" / ".pruned").unlink()
    old = next(folder.glob(".shardlint_cache/??/*"))
    os.utime(old, (0, 0))
    found(cache=True)
    assert not old.exists() or old.stat().st_mtime > 0


def test_processes_change_nothing(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({f"m{n}.py": [WRONG, RIGHT, "x = (\n"][n % 3] for n in range(9)})
    alone = found(jobs=1)
    assert len(alone) == 6
    monkeypatch.setattr(workers, "PARALLEL_BYTES", 0)
    assert found(jobs=3) == alone


def test_a_worker_that_dies_is_reported(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write({"a.py": WRONG, "b.py": WRONG})
    monkeypatch.setattr(workers, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(running, "lower_one", _die)
    assert main(["--no-cache", "--jobs", "2"]) == 2
    assert (
        "a worker process died before it had finished; run again with --jobs 1"
        in capsys.readouterr().err
    )


def _die(task: object) -> None:
    os._exit(3)


def test_a_failure_of_our_own_is_never_silent(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from shardlint import placing
    from shardlint.engine import run

    def fails_on_a(
        project: object, module: object, config: object, **more: object
    ) -> object:
        if getattr(module, "name", "") == "a":
            raise RuntimeError("boom")
        return run(project, module, config, **more)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(placing, "run", fails_on_a)
    write({"a.py": WRONG, "b.py": WRONG})
    for _ in range(2):
        assert main(["--format", "concise"]) == 2
        captured = capsys.readouterr()
        assert captured.out.startswith("b.py:3:")
        assert captured.err == (
            "shardlint: a.py: shardlint itself failed here: RuntimeError: boom; this file was not checked fully, "
            "please report it (--traceback shows where)\n"
            "shardlint: 2 files checked\n"
        )


def test_a_rule_that_does_not_load_is_never_silent(write: Write) -> None:
    folder = write({"a.py": "x = 1\n"})
    code = (
        "import sys, shardlint.rules as r; from shardlint.cli import main\n"
        f"r.__path__.append({str(folder)!r})\nsys.exit(main(['a.py']))\n"
    )
    write({"st999.py": "raise RuntimeError('boom')\n"})
    result = run_python("-c", code, cwd=folder)
    assert result.returncode == 2
    assert (
        result.stderr
        == "shardlint: rule module st999 does not load: RuntimeError: boom\n"
    )


def test_a_run_without_findings_imports_no_parser(write: Write) -> None:
    """Start-up is most of a run that finds everything in the cache."""
    folder = write({"a.py": RIGHT})
    code = (
        "import sys; from shardlint.cli import main; main(['a.py'])\n"
        "print(sorted({'libcst', 'jax', 'numpy', 'mypy', 'shardlint.engine'} & set(sys.modules)))"
    )
    cold, warm = (
        run_python("-c", code, cwd=folder).stdout.splitlines()[-1] for _ in range(2)
    )
    assert cold == "['shardlint.engine']"
    assert warm == "[]"


def test_show_types(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        {
            "a.py": RIGHT.replace(
                "    return x", "    y = x + 1\n    z = unknown(x)\n    return x"
            )
        }
    )
    assert main(["--show-types", "--format", "concise"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a.py:3:5: y: float32['B M']"
    assert lines[1].startswith("a.py:4:5: z: ")


def test_show_types_of_helpers_in_manual_code(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """How values lie is known from the calls; sizes have the names that the helper itself gives them."""
    head = "from jax import lax\nfrom shardtypes import f32, pytree_dataclass, typed_shard_map\n\n@pytree_dataclass\n"
    code = (
        "class Mlp:\n    up: f32['M F/t']\n    down: f32['F/t M']\n\n"
        "def mlp(x: f32['B M'], w: Mlp) -> f32['B M']:\n    part = (x @ w.up) @ w.down\n"
        "    return lax.psum(part, 't')\n\n"
        "@typed_shard_map\ndef run(x: f32['R M'], w: Mlp) -> f32['R M']:\n    return mlp(x, w)\n"
    )
    write({"a.py": head + code})
    assert main(["--show-types", "--format", "concise"]) == 0
    assert capsys.readouterr().out == "a.py:10:5: part: float32['B M {U:t}']\n"


def test_a_run_over_some_files_knows_what_the_project_says(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        {
            "pyproject.toml": "[tool.shardlint]\n",
            "layer.py": "import flax.linen as nn\nfrom shardtypes import f32\n\n\ndef f(x: f32['B M']):\n"
            "    return nn.with_logical_constraint(x, ('batch', 'embd'))\n",
            "rules.py": "import flax.linen as nn\n\nnn.set_logical_axis_rules([('batch', 'd'), ('embed', None)])\n",
        }
    )
    for paths in (["layer.py"], ["layer.py", "rules.py"], ["."]):
        assert main(["--format", "concise", *paths]) == 1
        assert (
            "ST401 no rule mentions the logical axis 'embd'" in capsys.readouterr().out
        )


@pytest.mark.parametrize("package", ["", "trainer/"])
def test_the_original_annotations_are_known_where_their_sources_lie_beside_the_program(
    write: Write, package: str
) -> None:
    """Alone or with the rest: an editor and a commit hook name single files."""
    prefix = package.replace("/", ".")
    program = (
        f"from {prefix}shardlib.shardtypes import f32\n"
        "def f(x: f32[b'B/d M']) -> f32[b'M B']:\n    y: f32[b'B/d M'] = x\n    return y\n"
    )
    write({
        "train.py": program,
        f"{package}shardlib/shardtypes.py": "class number:\n    pass\nclass f32(number):\n    dtype = 'float32'\n",
    })  # fmt: skip
    assert found("train.py") == [("ST201", "train.py", 4)]
    assert found(".") == [("ST201", "train.py", 4)]
