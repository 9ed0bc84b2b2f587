"""Completion in shells: the script for Bash in Bash itself, those of all shells against what reads the options."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from shardlint import commands, messages, options
from shardlint.completion import script
from shardlint.render import FORMATS
from shardlint.rules import all_rules
from tests.support import run

pytestmark = pytest.mark.once

BASH = shutil.which("bash")
#: What Bash does when Tab is pressed behind the words, of which the last may be empty.
PRESSED = """
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_shtab_shardlint
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def pressed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bash") / "pressed.sh"
    file.write_text(script("bash") + PRESSED)
    return file


def completed(pressed: Path, folder: Path, *words: str) -> set[str]:
    """What Bash offers for the last of the words."""
    assert BASH is not None, "Bash is needed to try its completion"
    done = run([BASH, pressed, "shardlint", *words], cwd=folder)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_commands_come_first(pressed: Path, tmp_path: Path) -> None:
    assert completed(pressed, tmp_path, "") == set(messages.COMMANDS)
    assert completed(pressed, tmp_path, "ba") == {"baseline"}


def test_options(pressed: Path, tmp_path: Path) -> None:
    assert completed(pressed, tmp_path, "--no-b") == {"--no-baseline"}
    assert completed(pressed, tmp_path, "baseline", "--no-") == {
        "--no-cache",
        "--no-evaluate",
        "--no-respect-gitignore",
    }
    assert completed(pressed, tmp_path, "cost", "--ag") == {"--against"}


def test_choices(pressed: Path, tmp_path: Path) -> None:
    assert completed(pressed, tmp_path, "--format", "") == set(FORMATS)
    assert completed(pressed, tmp_path, "completion", "") == set(options.SHELLS)


def test_codes_of_rules(pressed: Path, tmp_path: Path) -> None:
    codes = {rule.code for rule in all_rules()}
    assert completed(pressed, tmp_path, "explain", "") == codes
    thirty = {code for code in codes if code.startswith("ST30")}
    assert completed(pressed, tmp_path, "--select", "ST30") == thirty


def test_files(pressed: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    (tmp_path / "models").mkdir()
    for words in (["check"], ["--config"], ["cost"], ["baseline"]):
        assert completed(pressed, tmp_path, *words, "mod") == {"model.py", "models"}


@pytest.mark.parametrize("shell", options.SHELLS)
def test_each_shell_knows_each_option(shell: str) -> None:
    made = script(shell)
    for flag in ("no-respect-gitignore", "max-replicated", "unsafe-fixes", "python"):
        assert flag in made
    for command in messages.COMMANDS:
        assert command in made


def test_without_the_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    monkeypatch.delitem(sys.modules, "shardlint.completion")
    assert commands.run(["completion", "bash"]) == 2
    assert "pip install 'shardtypes[completion]'" in capsys.readouterr().err


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run(["completion", "nushell"]) == 2
    assert "powershell" in capsys.readouterr().err
