"""Test data in mypy's own style: ``[case name]``, code with ``# E:`` and ``# N:`` comments, run through mypy."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "fixtures" / "mypy"

_CASE = re.compile(r"^\[case (\w+)\]$")
_COMMENT = re.compile(r"#\s*([EN]): (.*?)(?=\s+#\s*[EN]: |$)")
_MESSAGE = re.compile(
    r"^(?P<path>[^:]+):(?P<line>\d+): (?P<kind>error|note): (?P<text>.*)$"
)
_LONG_NAMES = (
    "jax._src.basearray.",
    "shardtypes._static.",
    "shardtypes.dtypes.",
    "builtins.",
)


@dataclass
class Case:
    """One case: a module of its own. ``expected`` are (line, kind, text)."""

    name: str
    source: str
    expected: list[tuple[int, str, str]] = field(default_factory=list)


def read_cases(path: Path) -> list[Case]:
    """The cases of a ``.test`` file."""
    cases: list[Case] = []
    for line in path.read_text().splitlines():
        start = _CASE.match(line)
        if start:
            cases.append(Case(start[1], ""))
        elif cases:
            cases[-1].source += line + "\n"
    for case in cases:
        for number, line in enumerate(case.source.splitlines(), 1):
            case.expected += [
                (number, m[1], m[2].strip()) for m in _COMMENT.finditer(line)
            ]
    return cases


def configure(folder: Path, config: str = "") -> None:
    """Write the settings: the plugin, and strict mode."""
    (folder / "mypy.ini").write_text(
        "[mypy]\nplugins = shardlint.mypy_plugin\nstrict = true\n"
        f"disable_error_code = empty-body\ncache_fine_grained = true\nmypy_path = {ROOT}\n{config}"
    )


def environment() -> dict[str, str]:
    """The environment in which mypy finds the plugin."""
    return {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}


def run_mypy(
    folder: Path,
    *files: str,
    config: str = "",
    arguments: tuple[str, ...] = (),
    status: tuple[int, ...] = (0, 1),
) -> list[str]:
    """mypy's lines on files of a folder, with the plugin, in strict mode; the exit status is one of ``status``."""
    configure(folder, config)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "mypy.ini",
        "--no-error-summary",
        *arguments,
        *files,
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return (done.stdout + done.stderr).splitlines()


def found_by_file(lines: list[str]) -> dict[str, list[tuple[int, str, str]]]:
    """mypy's messages by file, with long names shortened as the test data write them."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    for line in lines:
        match = _MESSAGE.match(line)
        assert match, line
        text = match["text"].replace("  [", " [")
        for prefix in _LONG_NAMES:
            text = text.replace(prefix, "")
        kind = "E" if match["kind"] == "error" else "N"
        found.setdefault(match["path"], []).append((int(match["line"]), kind, text))
    return found


def with_wording(
    expected: list[tuple[int, str, str]], found: list[tuple[int, str, str]]
) -> list[tuple[int, str, str]]:
    """What is expected, sorted; a message with ``…`` in it stands for whatever message was found that it fits."""
    texts = {
        (line, kind): [t for at, k, t in found if (at, k) == (line, kind)]
        for line, kind, _ in expected
    }
    filled = []
    for line, kind, text in expected:
        pattern = re.compile(".*".join(re.escape(part) for part in text.split("…")))
        fitting = [t for t in texts[line, kind] if "…" in text and pattern.fullmatch(t)]
        filled.append((line, kind, fitting[0] if fitting else text))
    return sorted(filled)


def write_case(folder: Path, case: Case) -> str:
    """The case as a module; its file name."""
    name = f"{case.name}.py"
    (folder / name).write_text(case.source)
    return name
