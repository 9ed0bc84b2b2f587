"""What other programs read: each format by its schema, and what becomes of a run that fails."""

from __future__ import annotations

import importlib
import json
import os
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from shardlint.addresses import DOCUMENTATION, rule_page
from shardlint.config import _READERS
from shardlint.render import FORMATS
from shardlint.rules import all_rules
from shardlint.schemas import NAMES, schema_text
from tests.lint.adopting import HEAD, MODEL, NORM, lint, project
from tests.support import ROOT

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


def only(properties: dict[str, object], *required: str) -> dict[str, object]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required or properties),
        "additionalProperties": False,
    }


def several(item: dict[str, object], least: int = 0) -> dict[str, object]:
    return {"type": "array", "items": item, "minItems": least}


TEXT = {"type": "string", "minLength": 1}
MESSAGE = only({"text": TEXT})
NUMBER = {"type": "integer", "minimum": 1}
URI = {"type": "string", "format": "uri"}
ARTIFACT = only({"uri": {"type": "string", "format": "uri-reference"}})
REGION = only(
    dict.fromkeys(("startLine", "startColumn", "endLine", "endColumn"), NUMBER)
)
PHYSICAL = only({"artifactLocation": ARTIFACT, "region": REGION}, "artifactLocation")
LEVEL = {"enum": ["none", "note", "warning", "error"]}
REPLACEMENT = only(
    {"deletedRegion": REGION, "insertedContent": only({"text": {"type": "string"}})}
)
CHANGE = only({"artifactLocation": ARTIFACT, "replacements": several(REPLACEMENT, 1)})
RESULT = only(
    {
        "ruleId": TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": several(only({"physicalLocation": PHYSICAL}), 1),
        "relatedLocations": several(
            only(
                {
                    "id": {"type": "integer", "minimum": 0},
                    "message": MESSAGE,
                    "physicalLocation": PHYSICAL,
                }
            )
        ),
        "partialFingerprints": {"type": "object", "additionalProperties": TEXT},
        "fixes": several(
            only({"description": MESSAGE, "artifactChanges": several(CHANGE, 1)})
        ),
    },
    "ruleId",
    "ruleIndex",
    "level",
    "message",
    "locations",
    "partialFingerprints",
)
RULE = only(
    {
        "id": TEXT,
        "name": TEXT,
        "shortDescription": MESSAGE,
        "fullDescription": MESSAGE,
        "help": only({"text": TEXT, "markdown": TEXT}),
        "helpUri": URI,
        "defaultConfiguration": only({"enabled": {"type": "boolean"}, "level": LEVEL}),
    }
)
NOTIFICATION = only(
    {
        "level": LEVEL,
        "message": MESSAGE,
        "locations": several(only({"physicalLocation": PHYSICAL}), 1),
    },
    "level",
    "message",
)
INVOCATION = only(
    {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": several(NOTIFICATION, 1),
        "toolConfigurationNotifications": several(NOTIFICATION, 1),
    },
    "executionSuccessful",
)
DRIVER = only(
    {"name": TEXT, "version": TEXT, "informationUri": URI, "rules": several(RULE, 1)}
)
RUN = only(
    {
        "tool": only({"driver": DRIVER}),
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "invocations": several(INVOCATION, 1),
        "results": several(RESULT),
    }
)
#: What we use of SARIF 2.1.0, as its specification has it.
SARIF = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **only({"$schema": URI, "version": {"const": "2.1.0"}, "runs": several(RUN, 1)}),
}


def test_sarif(folder: Path) -> None:
    document = json.loads(output(folder, "sarif"))
    valid(document, SARIF)
    schema_file = os.environ.get("SARIF_SCHEMA")  # the whole of it, where it is at hand
    if schema_file:
        valid(document, json.loads(Path(schema_file).read_text("utf-8")))
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.code for rule in all_rules()]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
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
    valid(document, SARIF)
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
