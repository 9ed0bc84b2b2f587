"""The command line as a user meets it: files good and bad, formats, exit statuses."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from shardlint import messages
from shardlint.addresses import rule_page
from shardlint.cli import main
from shardlint.render import FORMATS
from tests.support import ROOT, run_python

GOOD = "x = 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_nothing_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_text(GOOD)
    (folder / "empty.py").write_text("")
    assert run(capsys) == (
        0,
        "No findings in 2 files.\n",
        "shardlint: 2 files checked\n",
    )
    assert run(capsys, "--format", "concise", ".") == (
        0,
        "",
        "shardlint: 2 files checked\n",
    )
    assert run(capsys, "check", "--format", "json", "a.py") == (
        0,
        "[]\n",
        "shardlint: 1 file checked\n",
    )


def test_nothing_to_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("")
    warning = (
        "no Python files in .: name others, or see whether 'exclude' in the settings or a .gitignore"
        " leaves them out"
    )
    assert run(capsys) == (0, "No findings in 0 files.\n", f"shardlint: {warning}\n")
    assert run(capsys, "--format", "json", ".") == (
        0,
        "[]\n",
        f"shardlint: {warning}\n",
    )


def test_options_that_check_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(capsys, "--version") == (0, f"shardlint {version('shardtypes')}\n", "")
    assert run(capsys, "--explain", "ST301") == run(capsys, "explain", "ST301")
    assert run(capsys, "--explain", "ST999")[0] == 2


def test_files_that_are_no_python(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").write_text("x = (\n")
    (folder / "b.py").write_bytes(b"x = '\xff'\n")
    (folder / "c.py").write_text(GOOD)
    for _ in range(2):
        status, out, err = run(capsys, "--format", "concise")
        assert (status, err) == (1, "shardlint: 3 files checked\n")
        assert out == (
            "a.py:1:5: ST902 the file is not valid Python: '(' was never closed\n"
            "b.py:1:6: ST902 the file cannot be decoded: byte 0xff is not utf-8; save it as UTF-8, or declare its "
            "encoding on the first line\n"
        )


def test_missing_and_unreadable_files(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.py").write_text("x = (\n")
    (folder / "link.py").symlink_to(folder / "nowhere.py")
    status, out, err = run(capsys, "--format", "concise", "gone.py", "link.py", ".")
    assert status == 2
    assert out.startswith("bad.py:1:5: ST902 ")
    assert err == (
        "shardlint: gone.py: no such file or directory\n"
        "shardlint: link.py: cannot be read: No such file or directory; the other files were checked\n"
        "shardlint: not checked: link.py (a link to nothing)\n"
        "shardlint: 1 file checked\n"
    )


def test_a_command_that_does_not_stand_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").write_text("x = 1\n")
    status, _, err = run(capsys, "--no-cache", "check", "a.py")
    assert (status, err) == (
        2,
        "shardlint: check: no such file or directory; a command stands first: shardlint check …\n"
        "shardlint: 1 file checked\n",
    )


def test_a_command_that_is_misspelt(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, "--no-cache", "baselin")
    assert status == 2
    assert err.startswith(
        "shardlint: baselin: no such file or directory; did you mean the command 'baseline'?\n"
    )


@pytest.mark.once
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--formt json a.py", "unknown option --formt: did you mean --format?"),
        ("check --selct=ST2", "unknown option --selct: did you mean --select?"),
        ("baseline --jbos 1", "unknown option --jbos: did you mean --jobs?"),
        ("cost --messh d=2", "unknown option --messh: did you mean --mesh?"),
        ("explain --hlep", "unknown option --hlep: did you mean --help?"),
        ("rules --hlep", "unknown option --hlep: did you mean --help?"),
        ("schema --hlep", "unknown option --hlep: did you mean --help?"),
        ("server --selct ST2", "unknown option --selct: did you mean --select?"),
        ("mcp --pyton x", "unknown option --pyton: did you mean --python?"),
        ("completion --hlep", "unknown option --hlep: did you mean --help?"),
        (
            "cost --fix a.py::f",
            "unknown option --fix; `shardlint cost --help` lists the options",
        ),
        ("-v", "unknown option -v; `shardlint --help` lists the options"),
        (
            "rules ST2",
            "shardlint rules takes no further argument, got 'ST2'; `shardlint rules --help` lists the options",
        ),
        (
            "explain",
            "the following arguments are required: CODE; `shardlint explain --help` lists the options",
        ),
        ("--format jsn", "argument --format: there is no 'jsn'; did you mean 'json'?"),
        (
            "--color red",
            "argument --color: there is no 'red'; the choices are auto, always, never; `shardlint --help` lists the "
            "options",
        ),
    ],
)
def test_a_command_line_that_is_misspelt(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    """One line, without all options above it."""
    assert run(capsys, *arguments.split()) == (2, "", f"shardlint: {message}\n")


@pytest.mark.once
def test_the_beginning_of_an_option_is_enough(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").write_text(GOOD)
    (folder / "--no.py").write_text(GOOD)
    assert run(capsys, "--forma", "json", "a.py")[:2] == (0, "[]\n")
    assert run(capsys, "--quiet", "--format=json", "--", "--no.py") == (0, "[]\n", "")


@pytest.mark.once
@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"]])
def test_help_lists_the_commands(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """A line each, below each other."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    listed = shown.partition("\ncommands:\n")[2].partition("\n\n")[0].splitlines()
    rows = [line.split(maxsplit=1) for line in listed]
    assert [row[0] for row in rows] == list(messages.COMMANDS)
    assert [row[1] for row in rows] == list(messages.COMMANDS.values())


@pytest.mark.once
@pytest.mark.parametrize("command", messages.COMMANDS)
def test_every_command_has_help(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    """What help lists has help of its own."""
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    name = "shardlint" if command == "check" else f"shardlint {command}"
    assert f"usage: {name} " in capsys.readouterr().out


def test_what_is_no_file_at_all(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.py")
        status, _, err = run(capsys)
    assert status == 2
    assert err.startswith("shardlint: s.py: cannot be read: ")


def test_a_huge_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_text("x = [\n" + "    0,\n" * 200_000 + "]\n")
    assert run(capsys, "--format", "concise") == (0, "", "shardlint: 1 file checked\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--select", "ST99"],
            "'ST99' in --select is not a rule code or the beginning of one; `shardlint rules` lists them",
        ),
        (
            ["--mesh", "d=0"],
            "--mesh: a mesh is written like d=2,t=4 (an axis name, '=', a size of at least 1), got 'd=0'",
        ),
        (["explain", "ST000"], "there is no rule 'ST000'; `shardlint rules` lists them"),
        (["-"], "to check standard input give its name with --stdin-filename"),
    ],
)  # fmt: skip
def test_bad_usage(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert run(capsys, *arguments) == (2, "", f"shardlint: {message}\n")


def test_a_broken_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text("[tool.shardlint]\nmehs = {d = 2}\n")
    where = folder / "pyproject.toml"
    message = "unknown key 'mehs' in the shardlint configuration; did you mean 'mesh'?"
    assert run(capsys) == (2, "", f"shardlint: {where}: {message}\n")


def test_an_unknown_code_in_the_configuration(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.shardlint]\nignore = ["ST2", "ST299"]\n'
    )
    assert run(capsys, "--format", "concise")[:2] == (
        1, "pyproject.toml:2:18: ST903 unknown code 'ST299' in 'ignore'; `shardlint rules` lists the codes\n"
    )  # fmt: skip


def test_exit_zero_statistics_and_selection(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").write_text("x = (\n")
    status, out, _ = run(capsys, "--exit-zero", "--statistics", "--format", "concise")
    assert (status, out.splitlines()[-1]) == (0, "    1 ST902 unparsable-file")
    assert run(capsys, "--ignore", "ST9", "--format", "concise")[:2] == (0, "")
    assert run(capsys, "--select", "ST2", "--format", "concise")[:2] == (0, "")
    (folder / "shardlint.toml").write_text('[per-file-ignores]\n"a.py" = ["ST902"]\n')
    assert run(capsys, "--format", "concise")[:2] == (0, "")


def test_folders_that_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (".venv", "__pycache__", "old", "env"):
        (folder / name).mkdir()
        (folder / name / "a.py").write_text("x = (\n")
    (folder / "env" / "pyvenv.cfg").write_text("")
    (folder / "shardlint.toml").write_text('extend-exclude = ["old"]\n')
    assert run(capsys, "--format", "concise")[:2] == (0, "")
    assert run(capsys, "--format", "concise", "old/a.py")[0] == 1


def test_standard_input(folder: Path) -> None:
    code = "import sys; from shardlint.cli import main; sys.exit(main(sys.argv[1:]))"
    result = run_python(
        "-c", code, "--stdin-filename", "b.py", "--format", "concise", cwd=folder
    )
    assert (result.returncode, result.stdout) == (0, "")


def test_standard_input_that_is_changed_goes_to_standard_output(folder: Path) -> None:
    def fixed(text: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "shardlint", "--fix"]
        command += ["--stdin-filename", "b.py"]
        return subprocess.run(
            command, cwd=folder, input=text, capture_output=True, text=True, check=False
        )

    done = fixed("x = 1  # shardlint: ignore[ST201] no more\n")
    assert (done.returncode, done.stdout) == (0, "x = 1\n")
    assert "fixed 1 finding in 1 file" in done.stderr
    # findings that are left are shown beside it
    broken = fixed("y = 2 +\n")
    assert (broken.returncode, broken.stdout) == (1, "y = 2 +\n")
    assert "ST902" in broken.stderr
    assert not (folder / "b.py").exists()


def test_json_has_every_key(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_text("x = 1  # shardlint: ignore[ST201] no more\n")
    status, out, _ = run(capsys, "--format", "json")
    place = {"line": 1, "column": 8, "end_line": 1, "end_column": 42}
    edit = {
        "start": {"line": 1, "column": 8},
        "end": {"line": 1, "column": 42},
        "replacement": "",
    }
    assert status == 1
    assert json.loads(out) == [
        {
            "code": "ST901", "name": "unused-suppression", "severity": "error",
            "message": "nothing to suppress: ST201 is not reported here; remove it",
            "path": "a.py", "cell": None, **place, "witness": {}, "related": [],
            "fix": {"title": "remove the suppression", "applicability": "safe", "edits": [edit]},
            "url": rule_page("ST901"),
        }
    ]  # fmt: skip


def test_full_shows_the_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.py").write_text("x = 1  # shardlint: ignore[ST201] no more\n")
    assert run(capsys)[1] == (
        "ST901 [unused-suppression] nothing to suppress: ST201 is not reported here; remove it\n"
        "  --> a.py:1:8\n"
        "  |\n"
        "1 | x = 1  # shardlint: ignore[ST201] no more\n"
        "  |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  fix: remove the suppression\n"
        "\n"
        "1 finding in 1 file. 1 can be fixed with --fix.\n"
    )


def test_fix_and_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "a.py"
    path.write_text("x = 1  # shardlint: ignore[ST201] no more\n")
    status, out, _ = run(capsys, "--diff", "--format", "concise")
    assert (status, out) == (
        0, "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x = 1  # shardlint: ignore[ST201] no more\n+x = 1\n"
    )  # fmt: skip
    assert "ignore" in path.read_text()
    assert run(capsys, "--fix", "--format", "concise") == (
        0, "", "shardlint: fixed 1 finding in 1 file\nshardlint: 1 file checked\n"
    )  # fmt: skip
    assert path.read_text() == GOOD


FULL_DISK = """
import resource, signal, sys
from shardlint.cli import main
# As on a disk that is full: no file grows beyond this. An error arrives as such, not as a signal.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4, 4))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.once
def test_a_full_disk_takes_no_source(folder: Path) -> None:
    """Neither the file nor what a link names, nor room for what was begun; what was not written was not fixed."""
    source = "x = 1  # shardlint: ignore[ST201] no more\n"
    (folder / "a.py").write_text(source)
    (folder / "code").mkdir()
    (folder / "code" / "b.txt").write_text(source)
    (folder / "b.py").symlink_to("code/b.txt")
    # Over pipes, which are no files.
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, "--fix", "a.py", "b.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[:2] == [
        f"shardlint: {name}: cannot write the fixed file: File too large"
        for name in ("a.py", "b.py")
    ]
    assert "fixed 1" not in done.stderr
    assert (folder / "a.py").read_text() == source
    assert (folder / "b.py").read_text() == source
    hidden = {path.name for path in folder.rglob(".*") if path.is_file()}
    assert hidden <= {".gitignore", ".pruned"}


@pytest.mark.once
def test_fixed_files_stay_what_they_were(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link stays a link, and a program stays executable."""
    (folder / "real.txt").write_text("x = 1  # shardlint: ignore[ST201] no more\n")
    (folder / "real.txt").chmod(0o755)
    (folder / "a.py").symlink_to("real.txt")
    assert run(capsys, "--fix", "a.py")[0] == 0
    assert (folder / "a.py").is_symlink()
    assert (folder / "real.txt").read_text() == GOOD
    assert (folder / "real.txt").stat().st_mode & 0o777 == 0o755


@pytest.mark.once
@pytest.mark.parametrize("output", FORMATS)
def test_output_that_cannot_be_written(folder: Path, output: str) -> None:
    """It is said in a line, and is neither success nor a finding."""
    (folder / "a.py").write_text("x = (\n")
    script = f"import sys; from shardlint.cli import main; sys.exit(main(['--format', {output!r}]))"
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", script],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last == "shardlint: cannot write the output: No space left on device"
    assert "Traceback" not in done.stderr


def test_github_and_sarif(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a,b.py").write_text("x = (\n")
    assert run(capsys, "--format", "github")[1] == (
        "::error file=a%2Cb.py,line=1,endLine=1,col=5,endColumn=6,title=ST902 unparsable-file::"
        f"the file is not valid Python: '(' was never closed%0A{rule_page('ST902')}\n"
    )
    report = json.loads(run(capsys, "--format", "sarif")[1])
    (result,) = report["runs"][0]["results"]
    assert (report["version"], result["ruleId"]) == ("2.1.0", "ST902")


def test_explain_and_rules(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "explain", "st902")
    assert status == 0
    assert out.startswith("# ST902 unparsable-file\n\n## What it does\n\n")
    assert out.endswith(f"\n\n{rule_page('ST902')}\n")
    assert run(capsys, "explain", "unparsable-file")[1] == out
    assert "ST903 unknown-code " in run(capsys, "rules")[1]


def test_a_cache_folder_of_someone_else_runs_no_code(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repository may bring a cache along: reading it admits our own data only."""
    import pickle

    from shardlint.cache import Cache

    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, ("touch owned",)

    (folder / "ab").mkdir()
    (folder / "ab" / "abc").write_bytes(pickle.dumps(Attack()))
    assert Cache(folder).get("abc") is None
    assert not (folder / "owned").exists()


def test_statistics_name_what_was_not_followed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import jax\nfrom shardtypes import f32\n\ndef f(x: f32['B']):\n    return jax.new(x)\n"
    (folder / "a.py").write_text(program)
    (folder / "b.py").write_text(
        program.replace("jax.new(x)", "jax.lax.ppermute(x, 'd', [(0, 1)])")
    )  # has a model
    for arguments in ((), ("--no-cache",), ()):
        status, out, _ = run(capsys, *arguments, "--statistics", "--format", "concise")
        assert (status, out) == (0, "    1 without a model: jax.new\n")


HOW_WELL_KNOWN = """
import jax
import jax.numpy as jnp
from shardtypes import f32

def f(x: f32['B M'], table, config):
    y = jnp.tanh(x)
    a, b = table.shape
    w = jnp.ones((3, int(config.size())))
    v = jnp.ones(tuple(int(n) for n in config.sizes()))
    u = jax.new(x)
    return y, w, v, u
"""


def test_statistics_tell_how_well_arrays_are_known(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.py").write_text(HOW_WELL_KNOWN)
    printed = [
        run(capsys, *arguments, "--statistics", "--format", "concise")[1]
        for arguments in ((), ("--no-cache",), ())
    ]
    assert printed[0] == printed[1] == printed[2]
    assert printed[0].splitlines() == [
        "    1 without a model: jax.new",
        "    1 shapes that are known fully",
        "    1 shapes that are known in part",
        "    0 shapes of which the rank alone is known",
        "    2 shapes that are known not at all",
        "    1 shapes that are not known: its rank is not known",
        "    1 shapes that are not known: no model for jax.new",
    ]
    _, out, _ = run(capsys, "--statistics", "--format", "json")
    statistics = json.loads(out)["statistics"]
    assert statistics["arrays"] == {
        "fully": 1,
        "in part": 1,
        "rank only": 0,
        "not at all": 2,
    }


LONG = (
    "import jax.numpy as jnp\n\n\ndef f{0}(x):\n" + "    x = jnp.tanh(x) + {0}\n" * 40
)


def test_statistics_name_the_files_that_took_most_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "short.py").write_text("import jax.numpy as jnp\nx = jnp.ones(3)\n")
    (folder / "long.py").write_text("\n".join(LONG.format(i) for i in range(60)))
    _, out, _ = run(capsys, "--no-cache", "--statistics", "--format", "json")
    seconds = json.loads(out)["statistics"]["seconds"]
    assert list(seconds) == ["long.py", "short.py"]
    assert seconds["long.py"] > seconds["short.py"] > 0
    _, out, _ = run(capsys, "--no-cache", "--statistics", "--format", "concise")
    assert re.search(r"^\d+\.\d\d s of processor time: long\.py$", out, re.M)
    run(capsys, ".")
    _, out, _ = run(capsys, "--statistics", "--format", "concise", ".")
    assert "processor time" not in out


def test_statistics_list_the_most_frequent_reasons(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [f"    y = jax.new{i}(x)" for i in range(25) for _ in range(1 + (i < 20))]
    text = "import jax\n\n\ndef f(x):\n" + "\n".join(calls)
    (folder / "a.py").write_text(text)
    _, out, _ = run(capsys, "--no-cache", "--statistics", "--format", "concise")
    assert "    2 without a model: jax.new0\n" in out
    assert "jax.new24" not in out
    assert "    5 for 5 other reasons, which --format json lists\n" in out
    _, out, _ = run(capsys, "--no-cache", "--statistics", "--format", "json")
    assert json.loads(out)["statistics"]["gaps"]["without a model: jax.new24"] == 1
