"""Runs the recipes of ``docs/editors.md`` in the editors that are there, and checks that findings and hover arrive.

Each editor starts without a user's settings in a folder of its own, with the recipe as its only setting. A line for
each recipe says what was seen. The status is 1 if one fails, or no editor is there.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "editors.md"
CHECKS = Path(__file__).with_name("editors")
#: What is before a recipe, and the recipe.
_RECIPE = re.compile(
    r"^<!-- recipe: (?P<name>\S+) -->\n```\w+\n(?P<body>.*?)^```$", re.M | re.S
)
#: What is wrong with the second function shardlint finds, what is wrong with the constant pyright does.
MODEL = """\
import jax.numpy as jnp
from shardtypes import f32

COUNT: int = "one"


def norm(x: f32["B M"], scale: f32["M"]):
    mean = jnp.mean(x, axis=-1)
    return x / mean * scale
"""
FINDING = "ST204"
OF_PYRIGHT = "reportAssignmentType"
#: What hover says of ``mean`` where it is assigned, and what where it is pyright's alone; the place, from 0.
HOVER = "float32['B']"
HOVER_OF_PYRIGHT = "(variable) mean"
LINE, COLUMN = 7, 5
#: Seconds that an editor may take.
MOST = 120


class Failed(Exception):
    """A recipe does not do what it is for; the text says what was seen instead."""


@dataclass(frozen=True)
class Desk:
    """What one recipe is tried with: a folder with a file that is wrong, an environment without settings, and what is
    to be seen: the codes of findings, and a part of what hover says."""

    folder: Path
    recipe: str
    environment: Mapping[str, str]
    codes: Sequence[str]
    hover: str

    @property
    def seen(self) -> Path:
        """Where an editor writes what it was told."""
        return self.folder / "home" / "seen.json"

    def write(self, name: str, text: str) -> Path:
        """A file of the user."""
        path = self.folder / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def run(self, command: Sequence[str | Path], **more: str) -> None:
        """Run an editor to its end, in the folder."""
        try:
            done = subprocess.run(
                command,
                cwd=self.folder / "project",
                env={**self.environment, **more},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=MOST,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"it did not end within {MOST} s") from None
        if done.returncode or not self.seen.exists():
            raise Failed(f"status {done.returncode}\n{done.stdout}{done.stderr}")

    def check(self) -> None:
        """Look at what an editor was told.

        Raises:
            Failed: a code is not in it once, or hover says something else.
        """
        told = json.loads(self.seen.read_text(encoding="utf-8"))
        text = " ".join(str(code) for code in told["codes"])
        for code in self.codes:
            if text.count(code) != 1:
                raise Failed(f"{code} is not there once: {text or 'nothing'}")
        if self.hover not in told["hover"]:
            raise Failed(f"hover is {told['hover']!r}")


@dataclass(frozen=True)
class Attempt:
    """A recipe by its name, the program that it is for, which of its releases, and what else it needs: programs, and
    packages of Emacs."""

    recipe: str
    program: str
    run: Callable[[Desk, Path], None]
    since: tuple[int, ...] = ()
    before: tuple[int, ...] = (sys.maxsize,)
    programs: tuple[str, ...] = ()
    package: str = ""
    #: Whether it has pyright beside, where that is there.
    is_beside: bool = False
    #: What hover says with pyright beside.
    hover_beside: str = HOVER


def recipes(page: str) -> dict[str, str]:
    """The recipes of a page, by name."""
    return {found["name"]: found["body"] for found in _RECIPE.finditer(page)}


def try_neovim(desk: Desk, program: Path) -> None:
    """Neovim without a terminal."""
    settings = desk.write("init.lua", desk.recipe)
    check = f"luafile {CHECKS / 'neovim.lua'}"
    desk.run(
        [program, "--headless", "-i", "NONE", "-u", settings, "model.py", "-c", check]
    )
    desk.check()


def try_emacs(desk: Desk, program: Path) -> None:
    """Emacs without a terminal, with the packages that are installed for all users."""
    recipe = desk.write("recipe.el", desk.recipe)
    desk.run(
        [program, "-q", "--batch", "-l", CHECKS / "emacs.el"],
        RECIPE=str(recipe),
        CODES=" ".join(desk.codes),
    )
    desk.check()


def try_helix(desk: Desk, program: Path) -> None:
    """Helix in a terminal: the list of diagnostics, and hover, as they are on its screen."""
    desk.write("config/helix/languages.toml", desk.recipe)
    desk.write("config/helix/config.toml", "")
    at = f"model.py:{LINE + 1}:{COLUMN + 1}"
    with Terminal(desk, [str(program), at]) as screen:
        for code in desk.codes:
            screen.until(" d", code)
        screen.until(" k", desk.hover)


#: Of what a terminal is told: a control sequence with its numbers, or what is written.
_PIECE = re.compile(r"\x1b\[(?P<numbers>[0-9;:?<>=]*)(?P<what>[@-~])|(?P<text>[^\x1b])")
_ROWS, _COLUMNS = 50, 200


class Screen:
    """What is on a screen, as far as programs that say where they write need it."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], str] = {}
        self._at = 1, 1

    def feed(self, text: str) -> None:
        """Take over what a program writes."""
        for piece in _PIECE.finditer(text):
            row, column = self._at
            if piece["what"] == "H":
                numbers = [int(one) for one in piece["numbers"].split(";") if one]
                row, column = [*numbers, 1, 1][:2]
            elif piece["what"] == "J":
                self._cells.clear()
            elif piece["text"]:
                self._cells[row, column] = piece["text"]
                column += 1
            self._at = row, column

    @property
    def text(self) -> str:
        """Its rows."""
        rows = []
        for row in range(1, _ROWS + 1):
            columns = range(1, _COLUMNS + 1)
            cells = [self._cells.get((row, column), " ") for column in columns]
            rows.append("".join(cells).rstrip())
        return "\n".join(rows)


class Terminal:
    """A program in a terminal."""

    def __init__(self, desk: Desk, command: Sequence[str]) -> None:
        self._screen = Screen()
        self._process, self._there = pty.fork()
        if not self._process:
            environment = {**desk.environment, "TERM": "xterm-256color"}
            try:
                os.chdir(desk.folder / "project")
                os.execvpe(command[0], list(command), environment)
            finally:
                os._exit(127)
        size = struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0)
        fcntl.ioctl(self._there, termios.TIOCSWINSZ, size)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._there)

    def until(self, keys: str, wanted: str) -> None:
        """Leave what is open and press keys, until a text is on the screen.

        Raises:
            Failed: it never is.
        """
        for _ in range(20):
            self._read(1.0)
            os.write(self._there, b"\x1b")
            self._read(0.5)
            os.write(self._there, keys.encode())
            self._read(2.0)
            if wanted in self._screen.text:
                return
        raise Failed(f"no {wanted} on the screen:\n{self._screen.text}")

    def _read(self, seconds: float) -> None:
        """Take over what is written within some time."""
        end = time.monotonic() + seconds
        data = b""
        while time.monotonic() < end:
            ready, _, _ = select.select([self._there], [], [], 0.1)
            if not ready:
                continue
            try:
                data += os.read(self._there, 1 << 16)
            except OSError:
                said = data.decode("utf-8", "replace")
                raise Failed(f"it has ended: {said}") from None
        self._screen.feed(data.decode("utf-8", "replace"))


def try_jupyter(desk: Desk, program: Path) -> None:
    """A Jupyter server, spoken to as JupyterLab does."""
    folder = desk.folder / "project"
    desk.write("jupyter/jupyter_server_config.json", desk.recipe)
    environment = {
        **desk.environment,
        "JUPYTER_CONFIG_DIR": str(desk.folder / "home" / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(desk.folder / "home" / "runtime"),
    }
    root = [] if hasattr(os, "getuid") and os.getuid() else ["--allow-root"]
    options = ["--no-browser", "--port=0", f"--ServerApp.root_dir={folder}", *root]
    with open(desk.folder / "home" / "log", "w") as log:
        server = subprocess.Popen(
            [program, "server", *options],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
        try:
            address, token = _address(desk.folder / "home" / "runtime")
            python = program.resolve().with_name("python")
            command = [python, CHECKS / "jupyter.py", address, token]
            desk.run(command, CODES=" ".join(desk.codes))
        finally:
            server.terminate()
            server.wait()
    desk.check()


def _address(folder: Path) -> tuple[str, str]:
    """Where a server that starts says that it is, when it answers, and its token."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in folder.glob("jpserver-*.json"):
            about = json.loads(path.read_text(encoding="utf-8"))
            address, token = about["url"], about["token"]
            try:
                urllib.request.urlopen(f"{address}api/status?token={token}").close()
            except (urllib.error.URLError, ConnectionError):
                break
            return address, token
        time.sleep(0.2)
    raise Failed("the server did not start")


PYRIGHT = "pyright-langserver"
ATTEMPTS = (
    Attempt("neovim", "nvim", try_neovim, since=(0, 11)),
    Attempt("neovim-0.8", "nvim", try_neovim, since=(0, 8)),
    Attempt("neovim-0.7", "nvim", try_neovim, since=(0, 7), before=(0, 8)),
    Attempt("helix", "hx", try_helix, since=(25, 7), is_beside=True),
    Attempt(
        "helix",
        "hx",
        try_helix,
        before=(25, 7),
        is_beside=True,
        hover_beside=HOVER_OF_PYRIGHT,
    ),
    Attempt("eglot", "emacs", try_emacs, package="eglot"),
    Attempt(
        "eglot-beside-pyright",
        "emacs",
        try_emacs,
        programs=("rass", PYRIGHT),
        package="eglot",
        is_beside=True,
        hover_beside=HOVER_OF_PYRIGHT,
    ),
    Attempt("lsp-mode", "emacs", try_emacs, package="lsp-mode"),
    Attempt(
        "lsp-mode-beside-pyright",
        "emacs",
        try_emacs,
        programs=(PYRIGHT,),
        package="lsp-pyright",
        is_beside=True,
    ),
    Attempt("jupyter", "jupyter", try_jupyter),
)


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def version_of(program: Path) -> str:
    """What a program says that it is."""
    of_jupyter = ["server"] if program.name == "jupyter" else []
    command = [program, *of_jupyter, "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else ""


def missing(attempt: Attempt, program: Path) -> str:
    """What a recipe needs and is not there; '' if all is."""
    for name in attempt.programs:
        if shutil.which(name) is None:
            return name
    if attempt.package:
        check = CHECKS / "has_package.el"
        asked = {**os.environ, "PACKAGE": attempt.package}
        command = [program, "-q", "--batch", "-l", check]
        done = subprocess.run(command, env=asked, capture_output=True)
        if done.returncode:
            return f"{attempt.package} of Emacs"
    return ""


@contextmanager
def desk_with(recipe: str, codes: Sequence[str], hover: str) -> Iterator[Desk]:
    """A desk, which is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        home = folder / "home"
        home.mkdir()
        project = folder / "project"
        project.mkdir()
        (project / "pyproject.toml").write_text("[tool.shardlint]\n")
        (project / "model.py").write_text(MODEL, encoding="utf-8")
        own = os.path.dirname(sys.executable)
        environment = {
            **os.environ,
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_DATA_HOME": str(home / "data"),
            "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
            "SEEN": str(home / "seen.json"),
            "HOVER_LINE": str(LINE),
            "HOVER_COLUMN": str(COLUMN),
        }
        yield Desk(folder, recipe, environment, codes, hover)


def attempted(attempt: Attempt, program: Path, recipe: str) -> str:
    """What was seen of a recipe, as a text.

    Raises:
        Failed: not what it is for.
    """
    codes = [FINDING]
    hover = HOVER
    if attempt.is_beside and shutil.which(PYRIGHT):
        codes.append(OF_PYRIGHT)
        hover = attempt.hover_beside
    with desk_with(recipe, codes, hover) as desk:
        attempt.run(desk, program)
    return f"{', '.join(codes)} and hover"


def try_program(name: str, known: Mapping[str, str]) -> bool | None:
    """Try the recipes for a program and tell of each; gives whether all work, None where it is not there."""
    found = shutil.which(name)
    if found is None:
        say(f"{name}: not there")
        return None
    program = Path(found)
    version = version_of(program)
    numbers = tuple(int(part) for part in version.split("."))
    works = True
    for attempt in ATTEMPTS:
        if attempt.program != name or not attempt.since <= numbers < attempt.before:
            continue
        lacks = missing(attempt, program)
        if lacks:
            say(f"{name} {version}, {attempt.recipe}: not tried without {lacks}")
            continue
        try:
            seen = attempted(attempt, program, known[attempt.recipe])
        except Failed as failure:
            works = False
            seen = f"FAILED: {failure}"
        say(f"{name} {version}, {attempt.recipe}: {seen}")
    return works


def _names() -> list[str]:
    """The recipes that are tried."""
    return list(dict.fromkeys(one.recipe for one in ATTEMPTS))


def main() -> int:
    """Try everything that is there; gives the status."""
    known = recipes(PAGE.read_text(encoding="utf-8"))
    lost = [name for name in _names() if name not in known]
    if lost:
        say(f"{PAGE} has no recipe {', '.join(lost)}")
        return 1
    programs = dict.fromkeys(one.program for one in ATTEMPTS)
    results = [try_program(name, known) for name in programs]
    if all(result is None for result in results):
        say("no editor was found")
        return 1
    return 1 if False in results else 0


if __name__ == "__main__":
    sys.exit(main())
