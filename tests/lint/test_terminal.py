"""On a terminal: colours, links, frames over several lines, progress, interrupts and ``--watch``."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from shardlint.addresses import rule_page
from shardlint.render import Outcome
from shardlint.render.full import render
from shardtypes.lang.diagnostics import Diagnostic, Place
from tests.lint.adopting import HEAD, MODEL, NORM, RIGHT, SWAPPED, lint, project
from tests.support import ROOT, Progress

pytestmark = pytest.mark.once  # the terminal is the same for any Python and JAX

COMMAND = [sys.executable, "-m", "shardlint"]
# Tests that run in the background of a shell ignore interrupts, and a command inherits that. With a ``preexec_fn`` this
# process would fork, of which JAX warns where another test has imported it.
INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""
LINK = re.compile("\033]8;;([^\033]*)\033\\\\")
COLOUR = re.compile("\033\\[[0-9;]*m")


class Running:
    """A command with terminals for its outputs, or pipes."""

    def __init__(
        self, cwd: Path, arguments: list[str], env: Mapping[str, str], terminals: bool
    ) -> None:
        unset = ("NO_COLOR", "FORCE_COLOR")
        kept = {k: v for k, v in os.environ.items() if k not in unset}
        merged = {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", **env}
        ends = [pty.openpty() if terminals else os.pipe() for _ in range(2)]
        self._ours = [ours for ours, _ in ends]
        # the end that is written to is the second of either pair
        self.process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, *COMMAND, *arguments],
            cwd=cwd,
            env=merged,
            stdout=ends[0][1],
            stderr=ends[1][1],
            start_new_session=True,
        )
        for _, theirs in ends:
            os.close(theirs)
        self._open = set(self._ours)
        self._read = dict.fromkeys(self._ours, b"")

    @property
    def out(self) -> str:
        return self._text(0)

    @property
    def err(self) -> str:
        return self._text(1)

    def _text(self, number: int) -> str:
        return self._read[self._ours[number]].decode().replace("\r\n", "\n")

    def until(self, text: str) -> None:
        """Read until a text has come, in either output."""
        self._drain(lambda: text in self.out + self.err)

    def end(self) -> int:
        """Read all; gives the exit status."""
        self._drain(lambda: False)
        return self.process.wait()

    def _drain(self, is_enough: object) -> None:
        assert callable(is_enough)
        progress = Progress(self.process.pid)
        while self._open and not is_enough():
            ready, _, _ = select.select(list(self._open), [], [], 1)
            for ours in ready:
                data = self._one(ours)
                self._read[ours] += data
                if not data:
                    self._open.remove(ours)
            assert not progress.hangs(), self.out + self.err

    def _one(self, ours: int) -> bytes:
        try:
            return os.read(ours, 65536)
        except OSError:  # what a terminal says when nobody has it any more
            return b""

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for ours in self._ours:
            os.close(ours)


@contextmanager
def running(
    cwd: Path,
    *arguments: str,
    env: Mapping[str, str] | None = None,
    terminals: bool = True,
) -> Iterator[Running]:
    found = Running(cwd, list(arguments), env or {}, terminals)
    try:
        yield found
    finally:
        found.close()


def on_terminal(
    cwd: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> str:
    """What is printed on a terminal, where there are findings."""
    with running(cwd, *arguments, env=env) as command:
        assert command.end() == 1, command.out + command.err
        return command.out


def plain(text: str) -> str:
    return COLOUR.sub("", LINK.sub("", text))


@pytest.mark.parametrize("kind", ["full", "concise"])
def test_a_terminal_has_colours_and_links(tmp_path: Path, kind: str) -> None:
    project(tmp_path, {"a.py": MODEL})
    piped = lint(tmp_path, "--format", kind).stdout
    assert "\033" not in piped
    shown = on_terminal(tmp_path, "--format", kind)
    assert plain(shown) == piped
    assert "\033[1;31mST204\033[0m" in shown
    pages = [rule_page("ST204"), "", rule_page("ST201"), ""]
    assert LINK.findall(shown) == pages


@pytest.mark.parametrize(
    ("arguments", "env", "colours"),
    [
        ([], {"NO_COLOR": "1"}, False),
        ([], {"NO_COLOR": ""}, True),
        ([], {"TERM": "dumb"}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
    ],
)
def test_who_decides_on_colours(
    tmp_path: Path, arguments: list[str], env: dict[str, str], colours: bool
) -> None:
    project(tmp_path, {"a.py": f"{HEAD}{NORM}"})
    shown = on_terminal(tmp_path, "--format", "concise", *arguments, env=env)
    assert bool(COLOUR.search(shown)) is colours
    assert bool(LINK.search(shown)) is colours


@pytest.mark.parametrize(
    ("arguments", "env", "colours"),
    [
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "0"}, False),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "always"], {}, True),
    ],
)
def test_colours_without_a_terminal(
    tmp_path: Path, arguments: list[str], env: dict[str, str], colours: bool
) -> None:
    """Links are for terminals only."""
    project(tmp_path, {"a.py": f"{HEAD}{NORM}"})
    shown = lint(tmp_path, "--format", "concise", *arguments, env=env).stdout
    assert bool(COLOUR.search(shown)) is colours
    assert not LINK.search(shown)


def test_formats_for_programs_have_no_colours(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": MODEL})
    for kind in ("json", "github", "gitlab", "junit", "sarif"):
        done = lint(tmp_path, "--format", kind, "--color", "always")
        assert "\033" not in done.stdout


def test_a_frame_over_several_lines(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": f"{HEAD}{SWAPPED}"})
    assert lint(tmp_path, "--quiet").stdout == (
        "ST201 [return-mismatch] result of swapped: expected f32['L B'], got f32['B L']:"
        " dimension 0 is B, expected L (fails for B=2, L=3)\n"
        "  --> a.py:6:12\n"
        "  |\n"
        "6 |       return jnp.exp(\n"
        "  |  ____________^\n"
        "7 | |         x,\n"
        "8 | |     )\n"
        "  | |_____^\n"
        "  note: declared f32['L B'] here\n"
        "  --> a.py:5:35\n"
        "  |\n"
        '5 | def swapped(x: f32["B L"]) -> f32["L B"]:\n'
        '  |                                   -----\n'
        "  fix (unsafe): annotate what is returned\n\n"
    )  # fmt: skip


def framed(text: str, place: tuple[int, int, int, int]) -> list[str]:
    found = Diagnostic("ST201", "n", "m", Place("a.py", *place))
    return render(Outcome([found], lambda _: text.splitlines())).splitlines()[3:-1]


def test_a_long_frame_is_cut_in_the_middle() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 21))
    assert framed(text, (3, 1, 12, 5)) == [
        " 3 |   line 3",
        "   |  _^",
        " 4 | | line 4",
        " 5 | | line 5",
        " 6 | | line 6",
        "...  |",
        "11 | | line 11",
        "12 | | line 12",
        "   | |____^",
    ]


def test_tabs_and_wide_characters_in_a_frame() -> None:
    assert framed("\tx = f(\n\t\t'形')\n", (1, 6, 2, 7)) == [
        "1 |       x = f(",
        "  |  _________^",
        "2 | |         '形')",
        "  | |_____________^",
    ]


def test_quiet_is_findings_only(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": f"{HEAD}{NORM}", "b.py": f"{HEAD}{RIGHT}"})
    done = lint(tmp_path, "-q")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("ST204 ")
    assert "finding" not in done.stdout
    nothing = lint(tmp_path, "--quiet", "b.py")
    assert (nothing.returncode, nothing.stdout, nothing.stderr) == (0, "", "")
    gone = lint(tmp_path, "--quiet", "gone.py")
    message = "shardlint: gone.py: no such file or directory\n"
    assert (gone.returncode, gone.stderr) == (2, message)


def many(count: int) -> dict[str, str]:
    body = "".join(NORM.replace("norm", f"norm_{n}") for n in range(60))
    return {f"m{number}.py": f"{HEAD}{body}" for number in range(count)}


@pytest.mark.long
def test_progress_is_for_terminals(tmp_path: Path) -> None:
    project(tmp_path, many(12))
    arguments = ("--no-cache", "--jobs", "1", "--format", "concise")
    with running(tmp_path, *arguments) as command:
        assert command.end() == 1
        assert re.search(r"\r\033\[2Kchecked \d+ of 12 files", command.err)
        assert (
            "shardlint: 12 files checked" in plain(command.err).rpartition("\033[2K")[2]
        )
    for quiet in (("-q",), ()):
        with running(tmp_path, *arguments, *quiet, terminals=quiet != ()) as command:
            assert command.end() == 1
            assert "\033[2K" not in command.err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_ends_without_a_traceback(tmp_path: Path, jobs: str) -> None:
    """Workers end with it, what the cache has is whole, and the next run finds everything."""
    project(tmp_path, many(16))
    with running(tmp_path, "--jobs", jobs, "-q", "--format", "concise") as command:
        while not list(tmp_path.glob(".shardlint_cache/??/*")):
            assert command.process.poll() is None, command.err
            time.sleep(0.05)
        # the terminal sends it to the whole group; only to the command where it is sent by hand
        if jobs == "1":
            os.killpg(command.process.pid, signal.SIGINT)
        else:
            os.kill(command.process.pid, signal.SIGINT)
        assert command.end() == 130, command.err
        assert command.err == ""
    left = [path.name for path in tmp_path.glob(".shardlint_cache/**/.*")]
    assert set(left) <= {".gitignore", ".pruned"}
    done = lint(tmp_path, "-q", "--format", "concise")
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 16 * 60)


def test_workers_end_with_the_command(tmp_path: Path) -> None:
    """One that is left behind would keep the pipe open."""
    project(tmp_path, many(16))
    command = subprocess.Popen(
        [*COMMAND, "--jobs", "2", "-q"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(tmp_path.glob(".shardlint_cache/??/*")):
        assert command.poll() is None
        time.sleep(0.05)
    command.terminate()
    _, err = command.communicate(timeout=120)
    # where there is no worker, nothing has to be done
    assert command.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert err == ""


HIDDEN = """
import sys
sys.modules["watchfiles"] = None
from shardlint.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("how", ["watchfiles", "polling"])
def test_watch_checks_again_after_a_change(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "polling":
        monkeypatch.setattr(
            sys.modules[__name__], "COMMAND", [sys.executable, "-c", HIDDEN]
        )
    project(tmp_path, {"a.py": f"{HEAD}{NORM}"})
    arguments = ("--watch", "--format", "concise")
    with running(tmp_path, *arguments, terminals=False) as command:
        command.until("waiting for changes")
        assert "a.py:6:12: ST204" in command.out
        assert ("watchfiles is not installed" in command.err) is (how == "polling")
        (tmp_path / "a.py").write_text(f"{HEAD}{RIGHT}\n\n{SWAPPED}")
        command.until("a.py:10:12: ST201")
        (tmp_path / "shardlint.toml").write_text("mehs = {}\n")
        command.until("unknown key 'mehs'")
        (tmp_path / "shardlint.toml").write_text('ignore = ["ST2"]\n')
        (tmp_path / "notes.txt").write_text("")
        command.until("changed: shardlint.toml")
        os.killpg(command.process.pid, signal.SIGINT)
        assert command.end() == 130, command.err
        assert "Traceback" not in command.err
        assert "notes.txt" not in command.err


def test_watch_does_not_see_what_it_writes(tmp_path: Path) -> None:
    """And sees a file that is named, whatever its name says."""
    project(tmp_path, {"model.txt": f"{HEAD}{NORM}"})
    arguments = ("--watch", "--format", "json", "--output-file", "out.json")
    with running(tmp_path, *arguments, "model.txt", terminals=False) as command:
        command.until("waiting for changes")
        time.sleep(2)
        (tmp_path / "model.txt").write_text(f"{HEAD}{RIGHT}")
        command.until("changed: ")
        command.until("changed: model.txt\nshardlint: 1 file checked\n")
        assert (tmp_path / "out.json").read_text() == "[]\n"
        assert command.err.count("changed: ") == 1


def test_watch_has_files_to_watch(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": MODEL})
    done = lint(tmp_path, "--watch", "--stdin-filename", "a.py")
    message = "shardlint: --watch and --stdin-filename do not go together\n"
    assert (done.returncode, done.stderr) == (2, message)
