"""The steps of ``first_hour.sh``: each runs commands as a newcomer does, and checks what they say."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import Parser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "mcp,pytest,server"
#: Seconds that one command may take.
MOST = 1800
#: What a developer's shell or a service has set, and a newcomer's has not.
_NOT_OURS = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTEST_ADDOPTS",
    "VIRTUAL_ENV",
    "CI_PROJECT_DIR",
)

_SETTINGS = """\
mesh = { d = 2, t = 4 }
extend-exclude = ["third_party"]
"""
_RIGHT = '''\
"""A block that is right."""

import jax.numpy as jnp
from jax import lax
from shardtypes import f32, typed_shard_map


def norm(x: f32["B/d L M"], scale: f32["M"]) -> f32["B/d L M"]:
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True)) * scale


@typed_shard_map
def project(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M"]:
    return jnp.tanh(lax.psum(x @ w, "t"))
'''
_MISTAKES = (
    ("axis=-1, keepdims=True", "axis=-1", "ST204"),
    ('jnp.tanh(lax.psum(x @ w, "t"))', 'lax.psum(jnp.tanh(x @ w), "t")', "ST301"),
)
_TESTS = """\
import jax.numpy as jnp
import pytest
from first.right import norm, project
from shardtypes import f32


@pytest.mark.mesh(d=2, t=4)
def test_project(shard, assert_sharding):
    x = shard(jnp.ones((4, 8)), f32["B/d F/t"])
    w = shard(jnp.ones((8, 3)), f32["F/t M"])
    out = project(x, w)
    assert_sharding(out, f32["B/d M"])
    assert jnp.allclose(out, jnp.tanh(8.0))


@pytest.mark.mesh(d=2, t=4)
def test_norm(shard):
    x = shard(2 * jnp.ones((4, 5, 6)), f32["B/d L M"])
    assert jnp.allclose(norm(x, jnp.ones(6)), 1.0)
"""


class StepFailed(Exception):
    """A step did not go as it should; the text says what was expected, and what came."""


@dataclass
class Hour:
    """The folders of the hour, and what its steps have learned."""

    folder: Path
    wheel: Path = Path()
    about: dict[str, list[str]] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """What the commands of this step printed."""

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def bin(self) -> Path:
        return self.folder / "environment" / ("Scripts" if os.name == "nt" else "bin")

    def run(
        self,
        *command: str | Path,
        status: int = 0,
        given: str = "",
        more: Mapping[str, str] | None = None,
        together: bool = False,
    ) -> str:
        """The standard output of a command that has to end with this status; ``together`` with what it says to standard
        error. ``more`` are variables that it gets.

        Raises:
            StepFailed: it ended otherwise, or did not end.
        """
        words = [str(word) for word in command]
        self.said.append(f"$ {shlex.join(words)}")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name not in _NOT_OURS and not name.startswith("GIT_")
        }
        environment |= more or {}
        try:
            done = subprocess.run(
                words,
                cwd=self.project,
                env=environment,
                input=given,
                capture_output=True,
                encoding="utf-8",
                timeout=MOST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StepFailed(f"no end after {MOST} seconds") from None
        self.said += [done.stdout, done.stderr]
        expect(done.returncode == status, f"status {status}, got {done.returncode}")
        return done.stdout + done.stderr if together else done.stdout

    def lint(self, *arguments: str | Path, status: int) -> str:
        """The output of ``shardlint``."""
        return self.run(self.bin / "shardlint", *arguments, status=status)

    def python(
        self,
        *arguments: str | Path,
        status: int = 0,
        more: Mapping[str, str] | None = None,
    ) -> str:
        """The output of the environment's Python."""
        return self.run(self.bin / "python", *arguments, status=status, more=more)


def expect(is_so: bool, what: str) -> None:
    """Raise ``StepFailed`` where something is not as it should be."""
    if not is_so:
        raise StepFailed(f"expected {what}")


def packages() -> str | None:
    """A site-packages folder that has what the wheel needs."""
    return os.environ.get("FIRST_HOUR_PACKAGES") or None


# --- the steps ----------------------------------------------------------------------------------------------------


def build(hour: Hour) -> None:
    """The wheel, of the sources; what it says of itself."""
    hour.project.mkdir()
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    known = packages()
    if known and Path(known, "hatch_vcs").is_dir():
        command = [_python_of_packages(), *command[1:], "--no-build-isolation"]
    hour.run(*command, "--wheel-dir", hour.folder, ROOT)
    (hour.wheel,) = hour.folder.glob("*.whl")
    with zipfile.ZipFile(hour.wheel) as archive:
        names = archive.namelist()
        (about,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        text = archive.read(about).decode()
    for key, value in Parser().parsestr(text).items():
        hour.about.setdefault(key, []).append(value)
    for package in ("shardtypes", "shardlint", "pytest_shardtypes"):
        expect(f"{package}/py.typed" in names, f"{package}/py.typed in the wheel")
    expect(not any(name.startswith("tests/") for name in names), "no tests in it")


def _python_of_packages() -> str:
    """The interpreter of the environment that the packages are of; that of this script where it is none."""
    found = Path(packages() or "").parents[2] / "bin" / "python"
    return str(found) if found.exists() else sys.executable


def install(hour: Hour) -> None:
    """An empty environment, and the wheel in it."""
    known = packages()
    venv.create(hour.folder / "environment", with_pip=known is None)
    if known is None:
        hour.python("-m", "pip", "install", *_QUIETLY, f"{hour.wheel}[{EXTRAS}]")
    else:
        own = Path(hour.python("-c", _WHERE).strip())
        (own / "first_hour.pth").write_text(f"{known}\n", encoding="utf-8")
        pip = (_python_of_packages(), "-m", "pip", "--python", hour.bin / "python")
        again = ("--no-deps", "--ignore-installed")
        hour.run(*pip, "install", *_QUIETLY, *again, hour.wheel)
    code = "import shardtypes; print(shardtypes.__file__)"
    place = Path(hour.python("-P", "-c", code).strip())
    expect(place.is_relative_to(hour.folder), f"shardtypes of the wheel, not {place}")
    said = hour.lint("--version", status=0).split()
    expect(said == ["shardlint", *hour.about["Version"]], "the version of the wheel")


def add_tool(hour: Hour, module: str, requirements: Sequence[str]) -> None:
    """Put a tool into the environment; where packages are those of a folder, it has to be among them."""
    if packages() is None:
        hour.python("-m", "pip", "install", *_QUIETLY, *requirements)
    else:
        hour.python("-c", f"import {module}")


def _group(name: str) -> list[str]:
    """The requirements of one of this project's groups of dependencies."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found: list[str] = tomllib.loads(text)["dependency-groups"][name]
    return found


_QUIETLY = ("--quiet", "--disable-pip-version-check")
_WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def write_project(hour: Hour) -> None:
    """A package that is right, a copy of it with two mistakes, somebody else's code, and tests."""
    wrong = _RIGHT
    for right, mistake, _ in _MISTAKES:
        wrong = wrong.replace(right, mistake)
    files = {
        "shardlint.toml": _SETTINGS,
        "first/__init__.py": "",
        "first/right.py": _RIGHT,
        "first/wrong.py": wrong,
        "third_party/wrong.py": wrong,
        "tests/test_first.py": _TESTS,
    }
    for name, text in files.items():
        path = hour.project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def lint(hour: Hour) -> None:
    """The right program has no finding, the wrong one its two, on their lines."""
    write_project(hour)
    hour.lint("first/right.py", status=0)
    hour.findings = json.loads(hour.lint("--format", "json", "--quiet", status=1))
    lines = (hour.project / "first/wrong.py").read_text("utf-8").splitlines()
    expect(len(hour.findings) == len(_MISTAKES), "a finding for each mistake")
    for found, (_, mistake, code) in zip(hour.findings, _MISTAKES, strict=True):
        expect(found["code"] == code, f"{code}, got {found['code']}")
        expect(
            mistake in lines[found["line"] - 1], f"{code} on the line of {mistake!r}"
        )
    shown = hour.lint("first/wrong.py", "--color", "never", status=1)
    for _, mistake, code in _MISTAKES:
        expect(code in shown and mistake in shown, f"{code} shown with its line")


def explain(hour: Hour) -> None:
    """The page of each rule, and its address, below that of the documentation."""
    urls = dict(entry.split(", ", 1) for entry in hour.about["Project-URL"])
    site = urls["Documentation"]
    for found in hour.findings:
        address = f"{site}rules/{found['code']}/"
        expect(found["url"] == address, f"{address} beside the finding")
        text = hour.lint("explain", found["code"], status=0)
        expect(text.startswith(f"# {found['code']} {found['name']}\n"), "its page")
        expect("## Use instead" in text, "the repair on the page")
        expect(text.rstrip().endswith(address), "the address below the page")


def documentation(hour: Hour) -> None:
    """The site, built in the environment: what is shown of a finding links to the page of its rule."""
    add_tool(hour, "mkdocs", _group("docs"))
    site = hour.folder / "site"
    build_site = ("-m", "mkdocs", "build", "--strict", "--quiet")
    hour.python(*build_site, "-f", ROOT / "mkdocs.yml", "--site-dir", site)
    hour.python(ROOT / "scripts" / "check_site.py", site)
    shown = hour.lint("--format", "github", "--quiet", status=1)
    links = re.findall(r"%0A(https?://\S+)", shown)
    expect(len(links) == len(hour.findings), f"a link for each finding, got {links}")
    urls = dict(entry.split(", ", 1) for entry in hour.about["Project-URL"])
    for link, found in zip(links, hour.findings, strict=True):
        place = link.removeprefix(urls["Documentation"])
        page = site / place / "index.html"
        expect(page.is_file(), f"a page of the site at {place}")
        title = f"{found['code']} {found['name']}"
        expect(title in page.read_text("utf-8"), f"{title!r} on the page at {place}")


def baseline(hour: Hour) -> None:
    """It hides the findings of today, and no new one."""
    hour.lint("baseline", "--quiet", status=0)
    file = "shardlint-baseline.json"
    kept = json.loads((hour.project / file).read_text("utf-8"))["findings"]
    expect(len(kept) == len(_MISTAKES), "the findings of today in the baseline")
    hour.lint("--baseline", file, status=0)
    new = hour.project / "first" / "new.py"
    new.write_text((hour.project / "first/wrong.py").read_text("utf-8"), "utf-8")
    shown = hour.lint("--baseline", file, "--format", "concise", "--quiet", status=1)
    expect(shown.count("new.py:") == len(_MISTAKES), "the findings of the new file")
    expect("wrong.py:" not in shown, "none of the old one")
    new.unlink()
    (hour.project / file).unlink()


def comments(hour: Hour) -> None:
    """``--add-ignore`` shows, then writes a comment for each finding."""
    write_project(hour)
    path = hour.project / "first/wrong.py"
    before = path.read_text("utf-8")
    shown = hour.lint("--add-ignore=from before", "--diff", "--quiet", status=0)
    expect(path.read_text("utf-8") == before, "--diff to leave the file alone")
    hour.lint("--add-ignore=from before", "--quiet", status=0)
    after = path.read_text("utf-8")
    for _, mistake, code in _MISTAKES:
        comment = f"# shardlint: ignore[{code}] from before"
        (line,) = [line for line in after.splitlines() if mistake in line]
        expect(line.endswith(comment), f"{comment} behind its line")
        expect(f"+{line}" in shown, f"{comment} in what --diff shows")
    hour.lint(status=0)


def fixes(hour: Hour) -> None:
    """Mended code makes the comments useless: ``--fix`` removes them, after ``--diff`` has shown it."""
    write_project(hour)
    hour.lint("--add-ignore", "--quiet", status=0)
    path = hour.project / "first/wrong.py"
    text = path.read_text("utf-8")
    for right, mistake, _ in _MISTAKES:
        text = text.replace(mistake, right)
    path.write_text(text, encoding="utf-8")
    useless = hour.lint("--format", "concise", "--quiet", status=1)
    expect(useless.count("ST901") == len(_MISTAKES), "each comment found useless")
    shown = hour.lint("--fix", "--diff", "--quiet", status=0)
    expect(path.read_text("utf-8") == text, "--diff to leave the file alone")
    expect(shown.count("\n-") >= len(_MISTAKES), "the lines in what --diff shows")
    hour.lint("--fix", "--quiet", status=0)
    expect(path.read_text("utf-8") == _RIGHT, "the right program, without comments")


def hook(hour: Hour) -> None:
    """As pre-commit calls it: files by name, of which the settings leave some out."""
    write_project(hour)
    command = ("check", "--force-exclude", "--format", "concise", "--quiet")
    hour.lint(*command, "first/right.py", "third_party/wrong.py", status=0)
    shown = hour.lint(*command, "first/wrong.py", "third_party/wrong.py", status=1)
    expect(shown.count("first/wrong.py:") == len(_MISTAKES), "what is wrong in it")
    expect("third_party" not in shown, "nothing of what is left out")


def pre_commit(hour: Hour) -> None:
    """Commits with the hook installed, which pre-commit takes from a repository with this tree: a wrong one is stopped,
    a right one is made, and one that breaks a call in another file is stopped, too."""
    add_tool(hour, "pre_commit", [one for one in _group("dev") if "pre-commit" in one])
    tools = hour.folder / "tools"
    _copy_tree(tools)
    revision = _commit_all(hour, tools)
    configuration = {"repos": [{"repo": str(tools), "rev": revision, "hooks": [_HOOK]}]}
    write_project(hour)
    wrong = hour.project / "first/wrong.py"
    text = json.dumps(configuration)  # which is YAML, too
    (hour.project / ".pre-commit-config.yaml").write_text(text, encoding="utf-8")
    _git(hour, hour.project, "init", "--quiet")
    tool = ("-m", "pre_commit")
    environment = {"PRE_COMMIT_HOME": str(hour.folder / "hooks")}
    hour.python(*tool, "install", more=environment)

    def commit(status: int) -> str:
        _git(hour, hour.project, "add", "--all")
        message = ("commit", "--message=The first")
        return _git(hour, hour.project, *message, status=status, more=environment)

    shown = commit(1)
    expect(shown.count("--> first/wrong.py:") >= len(_MISTAKES), "what is wrong in it")
    expect("--> third_party" not in shown, "nothing of what is left out")
    wrong.unlink()
    (hour.project / "first/use.py").write_text(_CALL, encoding="utf-8")
    commit(0)
    right = hour.project / "first/right.py"
    right.write_text(_RIGHT.replace('scale: f32["M"]', 'scale: f32["L"]'), "utf-8")
    shown = commit(1)
    expect("--> first/use.py:" in shown, "the call that the commit breaks")
    shutil.rmtree(hour.project / ".git")
    (hour.project / "first/use.py").unlink()
    write_project(hour)


_HOOK = {"id": "shardlint"}
_CALL = """\
from first.right import norm
from shardtypes import f32


def layer(x: f32["B/d L M"], scale: f32["M"]):
    return norm(x, scale)
"""


def _copy_tree(folder: Path) -> None:
    """What the package is built of, and the hook: an archive of the sources has no history to clone."""
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for package in ("shardtypes", "shardlint", "pytest_shardtypes"):
        no_caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=no_caches)


def _commit_all(hour: Hour, folder: Path) -> str:
    _git(hour, folder, "init", "--quiet")
    _git(hour, folder, "add", "--all", "--force")
    _git(hour, folder, "commit", "--quiet", "--message=All")
    return _git(hour, folder, "rev-parse", "HEAD").strip()


def _git(
    hour: Hour,
    folder: Path,
    *arguments: str,
    status: int = 0,
    more: Mapping[str, str] | None = None,
) -> str:
    """What git prints, and what a hook does, which git shows as its own errors."""
    own = ("user.name=Test", "user.email=test@example.org", "commit.gpgsign=false")
    options = [word for one in own for word in ("-c", one)]
    command = ("git", "-C", folder, *options, *arguments)
    return hour.run(*command, status=status, more=more, together=True)


def json_format(hour: Hour) -> None:
    """JSON has the keys of its schema."""
    schema = json.loads(hour.lint("schema", "findings", status=0))
    found = json.loads(hour.lint("--format", "json", "--quiet", status=1))
    check = hour.project / "check.py"
    check.write_text(_VALIDATE, encoding="utf-8")
    for name, value in (("schema", schema), ("found", found)):
        (hour.folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    hour.python(check, hour.folder / "schema.json", hour.folder / "found.json")
    check.unlink()
    expect(found == hour.findings, "the findings as before")


# the servers for agents need this package, too
_VALIDATE = """\
import json
import sys

import jsonschema

schema, found = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:])
jsonschema.validate(found, schema)
"""


def github_format(hour: Hour) -> None:
    """A command of GitHub's for each finding."""
    text = hour.lint("--format", "github", "--quiet", status=1)
    lines = text.splitlines()
    expect(len(lines) == len(hour.findings), "a line for each finding")
    for line, found in zip(lines, hour.findings, strict=True):
        written = re.fullmatch(r"::(error|warning) ([^:]+(?::[^:]+)*?)::(.+)", line)
        expect(written is not None, f"a command, got {line!r}")
        assert written is not None
        about = dict(entry.split("=", 1) for entry in written[2].split(","))
        place = (about["file"], about["line"], about["col"])
        wanted = (found["path"], str(found["line"]), str(found["column"]))
        expect(place == wanted, f"the place {wanted}, got {place}")
        expect(found["url"] in written[3], "the address of the page")


def gitlab_format(hour: Hour) -> None:
    """GitLab's Code Quality: what it asks of each entry."""
    entries = json.loads(hour.lint("--format", "gitlab", "--quiet", status=1))
    expect(len(entries) == len(hour.findings), "an entry for each finding")
    expect(len({one["fingerprint"] for one in entries}) == len(entries), "fingerprints")
    for entry, found in zip(entries, hour.findings, strict=True):
        levels = ("info", "minor", "major", "critical", "blocker")
        expect(entry["severity"] in levels, "a severity that GitLab knows")
        expect(entry["description"].startswith(found["code"]), "the code in the words")
        place = (entry["location"]["path"], entry["location"]["lines"]["begin"])
        expect(place == (found["path"], found["line"]), f"its place, got {place}")


def junit_format(hour: Hour) -> None:
    """JUnit's XML: a failed test for each finding."""
    text = hour.lint("--format", "junit", "--quiet", status=1)
    suites = ElementTree.fromstring(text)
    expect(suites.tag == "testsuites", "the root testsuites")
    count = str(len(hour.findings))
    expect(suites.attrib["failures"] == count, f"{count} failures")
    cases = list(suites.iter("testcase"))
    for case, found in zip(cases, hour.findings, strict=True):
        (failure,) = case
        expect(
            (failure.tag, failure.attrib["type"]) == ("failure", found["code"]),
            "its code",
        )
        place = (case.attrib["file"], case.attrib["line"])
        expect(place == (found["path"], str(found["line"])), f"its place, got {place}")


def sarif_format(hour: Hour) -> None:
    """SARIF 2.1.0: rules, results that lead to them, places; to a file, as code scanning reads it."""
    file = hour.folder / "reports" / "shardlint.sarif"
    hour.lint("--format", "sarif", "--output-file", file, "--quiet", status=1)
    document = json.loads(file.read_text("utf-8"))
    expect(document["version"] == "2.1.0", "version 2.1.0")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    expect(driver["name"] == "shardlint", "the name of the tool")
    expect(run["invocations"][0]["executionSuccessful"] is True, "a run that succeeded")
    expect(len(run["results"]) == len(hour.findings), "a result for each finding")
    for result, found in zip(run["results"], hour.findings, strict=True):
        about = driver["rules"][result["ruleIndex"]]
        expect(about["id"] == result["ruleId"] == found["code"], "the rule of a result")
        expect(about["helpUri"] == found["url"], "the address of its page")
        place = result["locations"][0]["physicalLocation"]
        expect(place["artifactLocation"]["uri"] == found["path"], "its file")
        expect(place["region"]["startLine"] == found["line"], "its line")
        expect(bool(result["message"]["text"]), "a message")
        expect(bool(result["partialFingerprints"]), "a fingerprint")


def language_server(hour: Hour) -> None:
    """A handshake over standard input and output, a document, its findings, and the end."""
    path = hour.project / "first/wrong.py"
    uri = path.as_uri()
    text = path.read_text("utf-8")
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    start = {"processId": None, "rootUri": hour.project.as_uri(), "capabilities": {}}
    editor = Editor(hour)
    try:
        about = editor.ask("initialize", start)["capabilities"]
        expect(bool(about.get("hoverProvider")), "a server that can hover")
        editor.tell("initialized", {})
        editor.tell("textDocument/didOpen", {"textDocument": document})
        found = editor.wait_for("textDocument/publishDiagnostics")
        codes = sorted(one["code"] for one in found["diagnostics"])
        expect(found["uri"] == uri, "findings of the document")
        expect(codes == sorted(code for *_, code in _MISTAKES), f"both, got {codes}")
        editor.ask("shutdown", None)
        editor.tell("exit", None)
        expect(editor.process.wait(60) == 0, "status 0 at the end")
    finally:
        editor.process.kill()


class Editor:
    """The client's side of the language server protocol."""

    def __init__(self, hour: Hour) -> None:
        command = [str(hour.bin / "shardlint"), "server"]
        hour.said.append(f"$ {shlex.join(command)}")
        self._hour = hour
        self._count = 0
        self.process = subprocess.Popen(
            command, cwd=hour.project, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def tell(self, method: str, params: Any, **more: Any) -> None:
        """Send a notification, or with an ``id`` a request."""
        body = json.dumps(
            {"jsonrpc": "2.0", "method": method, "params": params, **more}
        )
        data = body.encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def ask(self, method: str, params: Any) -> Any:
        """The result of a request."""
        self._count += 1
        self.tell(method, params, id=self._count)
        while True:
            message = self._read()
            if message.get("id") == self._count and "method" not in message:
                expect("error" not in message, f"an answer to {method}, got {message}")
                return message["result"]

    def wait_for(self, method: str) -> Any:
        """What the server tells next of this kind."""
        while True:
            message = self._read()
            if message.get("method") == method:
                return message["params"]

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while True:
            line = self.process.stdout.readline()
            expect(line != b"", "a message, and the server has ended")
            name, _, value = line.decode("ascii").strip().partition(":")
            if name.lower() == "content-length":
                length = int(value)
            if not name:
                break
        text = self.process.stdout.read(length).decode()
        self._hour.said.append(text)
        message: dict[str, Any] = json.loads(text)
        return message


def agents_server(hour: Hour) -> None:
    """It can be started, and answers a handshake."""
    hour.lint("mcp", "--version", status=0)
    about = {"name": "first-hour", "version": "1"}
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start}
    given = json.dumps(request) + "\n"
    answered = hour.run(hour.bin / "shardlint", "mcp", given=given)
    result = json.loads(answered.splitlines()[0])["result"]
    expect(result["serverInfo"]["name"] == "shardlint", "a server of this name")
    expect("tools" in result["capabilities"], "a server with tools")


def tests(hour: Hour) -> None:
    """``pytest --shardtypes`` on eight devices, and its report as JSON and as a page."""
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--shardtypes")
    options = ("--shardtypes-packages=first.right",)
    report = hour.folder / "reports" / "tests.json"
    shown = hour.python(*command, *options, f"--shardtypes-report={report}", "tests")
    expect("annotated functions reached: 2 of 2" in shown, "both functions reached")
    facts = json.loads(report.read_text("utf-8"))
    expect(facts["unreached"] == [], "none that no test calls")
    expect(sum(facts["checks"].values()) > 0, "checks that were run")
    reached = sorted(name.rpartition(".")[2] for name in facts["functions"])
    expect(reached == ["norm", "project"], f"the functions by name, got {reached}")
    page = hour.folder / "reports" / "tests.html"
    one = "tests/test_first.py::test_norm"
    hour.python(*command, *options, f"--shardtypes-report={page}", one)
    expect("first.right.norm" in page.read_text("utf-8"), "the function on the page")


#: Each with whether the others need it.
STEPS: Sequence[tuple[str, Callable[[Hour], None], bool]] = (
    ("build the wheel", build, True),
    ("install it into an empty environment", install, True),
    ("lint a right and a wrong program", lint, True),
    ("explain the rules, links to their pages", explain, False),
    ("the documentation's site", documentation, False),
    ("baseline", baseline, False),
    ("--add-ignore", comments, False),
    ("--fix and --diff", fixes, False),
    ("the hook, as pre-commit calls it", hook, False),
    ("commits with pre-commit", pre_commit, False),
    ("--format json", json_format, False),
    ("--format github", github_format, False),
    ("--format gitlab", gitlab_format, False),
    ("--format junit", junit_format, False),
    ("--format sarif", sarif_format, False),
    ("the language server", language_server, False),
    ("the server for coding agents", agents_server, False),
    ("pytest --shardtypes", tests, False),
)


def main() -> int:
    """Go through the steps; gives the exit status."""
    rows = []
    failed = False
    stopped = False
    with tempfile.TemporaryDirectory(prefix="first-hour-") as folder:
        hour = Hour(Path(folder).resolve())
        for title, step, is_needed in STEPS:
            if stopped:
                rows.append((title, "not run", 0.0))
                continue
            began = time.monotonic()
            verdict = _verdict(hour, title, step)
            rows.append((title, verdict, time.monotonic() - began))
            failed = failed or verdict == "failed"
            stopped = verdict == "failed" and is_needed
    width = max(len(title) for title, *_ in rows)
    for title, verdict, seconds in rows:
        sys.stdout.write(f"{title:<{width}}  {verdict:<7}  {seconds:6.1f} s\n")
    return 1 if failed else 0


def _verdict(hour: Hour, title: str, step: Callable[[Hour], None]) -> str:
    hour.said.clear()
    try:
        step(hour)
    except (StepFailed, KeyError, ValueError, OSError) as error:
        text = str(error) if isinstance(error, StepFailed) else repr(error)
        said = "\n".join(hour.said)
        sys.stdout.write(
            f"== {title}: failed: {text} ==\n{said}\n== end of {title} ==\n"
        )
        sys.stdout.flush()
        return "failed"
    return "ok"


if __name__ == "__main__":
    sys.exit(main())
