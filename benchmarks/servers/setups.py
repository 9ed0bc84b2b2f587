"""The servers, each set up as its documentation says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.servers.client import Client, Json
from benchmarks.translate import translate

OURS, PYREFLY, JAXTYC = "shardlint server", "pyrefly lsp", "jaxtyc lsp"
#: The mesh of the projects.
MESH = {"d": 2, "t": 4}


@dataclass(frozen=True)
class Setup:
    """``written`` gives a program in annotations that the server reads; ``behind`` is what stands between a dimension
    and its mesh axis there, None where there is nothing of the kind. ``settings`` are those of the project's
    pyproject.toml; ``files`` others that it wants."""

    name: str
    command: tuple[str, ...]
    written: Callable[[str], str]
    behind: str | None
    settings: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    whole: Json = None
    """What the user chooses in the editor so that files are checked that are not open."""

    def prepare(self, folder: Path, texts: Mapping[str, str]) -> dict[str, str]:
        """Write a project; its files as the server sees them."""
        (folder / "pyproject.toml").write_text(self.settings)
        for name, text in self.files.items():
            (folder / name).write_text(text)
        written = {name: self.written(text) for name, text in texts.items()}
        for name, text in written.items():
            (folder / name).write_text(text)
        return written

    def start(
        self,
        folder: Path,
        *,
        whole: bool = False,
        patience: float = 60.0,
        still: float = 2.0,
        pulls: bool = False,
    ) -> Client:
        """A client for a server in a folder, which starts as its context is entered."""
        chosen = self.whole if whole else None
        sections = chosen if isinstance(chosen, dict) else {}
        return Client(self.command, folder, chosen, sections, patience, still, pulls)


def setups(peers: Path | None) -> list[Setup]:
    """Ours, and those in an environment of the peers.

    Raises:
        ValueError: they are not there.
    """
    axes = ", ".join(f"{name} = {size}" for name, size in MESH.items())
    found = [
        Setup(
            OURS,
            (sys.executable, "-m", "shardlint", "server"),
            str,
            "/",
            settings=f"[tool.shardlint]\nmesh = {{ {axes} }}\n",
            whole={"workspaceFindings": True},
        )
    ]
    if peers is None:
        return found
    programs = peers / "bin"
    for name in ("python", "pyrefly", "jaxtyc"):
        if not (programs / name).exists():
            raise ValueError(
                f"there is no {programs / name}; install the peers there as docs/compared.md says"
            )
    analysis = {"diagnosticMode": "workspace"}
    everything = {
        "python": {"analysis": analysis, "pyrefly": analysis},
        "pyrefly": analysis,
    }
    return [
        *found,
        Setup(
            PYREFLY,
            (f"{programs}/pyrefly", "lsp"),
            _for_pyrefly,
            None,
            files={"pyrefly.toml": f'python-interpreter-path = "{programs}/python"\n'},
            whole=everything,
        ),
        Setup(
            JAXTYC,
            (f"{programs}/jaxtyc", "lsp"),
            _for_jaxtyc,
            "|",
            settings=f"[tool.jaxtyc.sharding]\nmesh = {{ {axes} }}\n",
        ),
    ]


def releases(peers: Path) -> str:
    """What is installed of the peers."""
    names = [
        "pyrefly",
        "jax-pyrefly-stubs",
        "pyrefly-shape-extensions",
        "jaxtyc",
        "jax",
    ]
    script = (
        "import json, importlib.metadata as m;"
        f"print(json.dumps({{n: m.version(n) for n in {names}}}))"
    )
    done = subprocess.run(
        [peers / "bin" / "python", "-c", script],
        capture_output=True,
        check=True,
        text=True,
    )
    found = json.loads(done.stdout)
    return ", ".join(f"{name} {release}" for name, release in found.items())


_ANNOTATION = re.compile(r'(?<=\w\[")[^"\n]*(?="\])')


def _for_pyrefly(text: str) -> str:
    """A dimension that is a number keeps it."""
    numbers = _ANNOTATION.sub(
        lambda found: re.sub(r"\b(\d+)/\w+", r"\1", found[0]), text
    )
    return translate(numbers.encode(), "pyrefly").text


def _for_jaxtyc(text: str) -> str:
    """jaxtyc has axes, behind a bar; where one dimension has one, the others say that they have none."""
    barred = _ANNOTATION.sub(lambda found: _barred(found[0]), text)
    return translate(barred.encode(), "jaxtyc").text


def _barred(shape: str) -> str:
    if "/" not in shape:
        return shape
    dimensions = []
    for one in shape.split():
        size, _, axis = one.partition("/")
        dimensions.append(f"{size}|{axis or None}")
    return " ".join(dimensions)
