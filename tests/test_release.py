"""A release: its version is that of the tag, what is uploaded agrees, and what workflows and pages name is there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

import shardtypes
from scripts.check_release import main, newest_release, of_release
from scripts.lowest_versions import lowest
from tests.support import ROOT, run

pytestmark = pytest.mark.once


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


# --- the version --------------------------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that decide on the version, in a folder of their own."""
    names = (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        ".git_archival.txt",
        ".gitattributes",
    )
    for name in names:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def version_in(folder: Path) -> Version:
    """What a build in a folder has as its version."""
    # a pre-commit that runs these tests sets GIT_DIR and the like for its own repository
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, "-m", "hatchling", "metadata", "version"]
    done = run(command, folder, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return Version(done.stdout.strip())


def git(folder: Path, *arguments: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    command = ["git", *identity, "-c", "commit.gpgsign=false", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True)


def test_the_version_is_that_of_the_tag(copy: Path) -> None:
    """Of a clone without tags one is made that comes before the first release; commits behind a tag come after it."""
    git(copy, "init", "--quiet", "--initial-branch=main")
    git(copy, "add", "--all")
    git(copy, "commit", "--quiet", "--message=First")
    assert version_in(copy).is_devrelease
    assert version_in(copy) < Version("0.1.0")
    git(copy, "tag", "v1.2.3")
    git(copy, "tag", "not-a-release-9.9.9")
    assert version_in(copy) == Version("1.2.3")
    git(copy, "commit", "--quiet", "--allow-empty", "--message=Second")
    after = version_in(copy)
    assert after.is_devrelease
    assert Version("1.2.3") < after < Version("1.3.0")


def test_a_copy_without_git_has_a_version(copy: Path) -> None:
    """That of the next release, before it."""
    found = version_in(copy)
    assert found.is_devrelease
    assert found.base_version == newest_release(ROOT)[0]


def test_an_archive_of_a_tag_has_its_version(copy: Path, tmp_path: Path) -> None:
    """As services give them, without git: the action is installed from one."""
    git(copy, "init", "--quiet", "--initial-branch=main")
    git(copy, "add", "--all")
    git(copy, "commit", "--quiet", "--message=First")
    git(copy, "tag", "v1.2.3")
    git(copy, "archive", "--format=tar", "--output=archive.tar", "v1.2.3")
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    shutil.unpack_archive(copy / "archive.tar", unpacked, filter="data")
    assert version_in(unpacked) == Version("1.2.3")


def test_the_package_says_its_version() -> None:
    assert Version(shardtypes.__version__).release >= (0, 1)


# --- what is uploaded ---------------------------------------------------------------------------------------------


def test_the_next_release_is_on_top_of_the_changelog() -> None:
    version, date = newest_release(ROOT)
    assert Version(version).release == Version(version).release[:3]
    assert date == "unreleased" or re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    # nothing but the date is left to do
    left = set(of_release(version, ROOT))
    assert left <= {f"CHANGELOG.md has no date for {version}, but 'unreleased'"}


def test_what_does_not_agree_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Distributions of two versions, one that is missing, pages and manifests of another release."""
    version, _ = newest_release(ROOT)
    wheel = tmp_path / f"shardtypes-{version}-py3-none-any.whl"
    wheel.touch()
    assert main([str(tmp_path)]) == 1
    expected = f"expected a wheel and a source distribution, got {wheel.name}\n"
    assert capsys.readouterr().out == expected
    sources = tmp_path / f"shardtypes-{version}.tar.gz"
    sources.touch()
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    sources.rename(tmp_path / "shardtypes-9.9.9.tar.gz")
    assert main([str(tmp_path)]) == 1
    assert "of two versions: shardtypes-" in capsys.readouterr().out

    assert main([str(tmp_path), "v8.8.8"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert f"CHANGELOG.md begins with {version}" in said
    assert f"README.md names v{version}" in said
    assert f"editors/vscode/package.json has version {version}" in said
    assert "the distributions are of another version than v8.8.8" in said


def test_the_distributions_are_built_and_complete(tmp_path: Path) -> None:
    """A wheel of the source distribution, as an installer makes it where there is no wheel."""
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "sdist",
        "-d",
        tmp_path,
    ]
    done = run(command)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    # the same version, without git
    assert unpacked.name == f"shardtypes-{version_in(unpacked)}"


# --- pages and metadata -------------------------------------------------------------------------------------------


def test_the_readme_holds_wherever_it_is_shown() -> None:
    """Its links are whole addresses: a package index shows it without the repository around it."""
    text = (ROOT / "README.md").read_text("utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    addresses = dict(re.findall(r"^\[([\w-]+)\]: (\S+)$", prose, re.M))
    used = set(re.findall(r"\]\[([\w-]+)\]", prose))
    assert used == set(addresses)
    inline = re.findall(r"\]\(([^)]+)\)", prose)
    for address in (*addresses.values(), *inline):
        assert address.startswith("https://"), address
    files = [
        re.sub(r".*/main/", "", address)
        for address in addresses.values()
        if "/main/" in address
    ]
    assert files
    for name in files:
        assert (ROOT / name).exists(), name


def test_the_metadata_says_where_things_are() -> None:
    about = project()["project"]
    urls = about["urls"]
    assert list(urls) == ["Documentation", "Repository", "Issues", "Changelog"]
    assert urls["Issues"] == f"{urls['Repository']}/issues"
    supported = set()
    for one in about["classifiers"]:
        found = re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one)
        if found is not None:
            supported.add(found[1])
    assert supported == {"3.11", "3.12", "3.13", "3.14"}
    release = workflow("release")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert set(release) == supported
    jobs = workflow("tests")["jobs"]
    newest = max(supported, key=lambda text: int(text.partition(".")[2]))
    assert _pythons(jobs["newest"]) == [newest]
    assert set(_pythons(jobs["everything"])) <= supported


def _pythons(job: dict[str, Any]) -> list[str]:
    """The versions that a job of a workflow sets up."""
    given = [step.get("with", {}).get("python-version", "") for step in job["steps"]]
    return " ".join(given).split()


def test_the_citation_names_this_project() -> None:
    about = project()["project"]
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    for key in ("cff-version", "message", "title", "authors"):
        assert found[key]
    assert found["license"] == about["license"]
    assert found["repository-code"] == about["urls"]["Repository"]
    assert found["url"] == about["urls"]["Documentation"]


# --- workflows and forms ------------------------------------------------------------------------------------------

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def workflow(name: str) -> dict[str, Any]:
    path = ROOT / ".github" / "workflows" / f"{name}.yml"
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


def steps(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in found["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_what_is_there(path: Path) -> None:
    """Targets of the Makefile and scripts that exist, actions of a version; it may read the repository, no more."""
    found = workflow(path.stem)
    assert found["permissions"] == {"contents": "read"}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.M))
    called = 0
    for step in steps(found):
        if "uses" in step:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])
        words = shlex.split(step.get("run", ""))
        if words[:1] == ["make"]:
            (target,) = [word for word in words[1:] if "=" not in word]
            assert target in targets, target
            called += 1
        if words[:1] == ["bash"]:
            assert (ROOT / words[1]).is_file()
            called += 1
    assert called > 0
    for job in found["jobs"].values():
        needed = job.get("needs", [])
        for name in [needed] if isinstance(needed, str) else needed:
            assert name in found["jobs"]


def test_only_what_was_tested_is_published() -> None:
    jobs = workflow("release")["jobs"]
    publish = jobs["publish"]
    assert set(publish["needs"]) == {"test", "first-hour"}
    for name in publish["needs"]:
        assert jobs[name]["needs"] == "build"
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    holders = [name for name, job in jobs.items() if "permissions" in job]
    assert holders == ["publish"]
    # a password would be a secret
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def test_forms_ask_for_what_is_needed() -> None:
    folder = ROOT / ".github" / "ISSUE_TEMPLATE"
    forms = [path for path in folder.glob("*.yml") if path.stem != "config"]
    assert {path.stem for path in forms} == {"false-alarm", "missed-mistake", "failure"}
    for path in forms:
        form = yaml.safe_load(path.read_text("utf-8"))
        assert form["name"] and form["description"]
        names = [part["id"] for part in form["body"]]
        assert len(set(names)) == len(names)
        assert "versions" in names
        for part in form["body"]:
            assert part["type"] in ("textarea", "input", "dropdown")
            assert part["attributes"]["label"]
    links = yaml.safe_load((folder / "config.yml").read_text("utf-8"))["contact_links"]
    repository = project()["project"]["urls"]["Repository"]
    advisory = f"{repository}/security/advisories/new"
    assert advisory in {link["url"] for link in links}
    assert advisory in (ROOT / "SECURITY.md").read_text("utf-8")


# --- the oldest dependencies --------------------------------------------------------------------------------------


def test_every_dependency_says_its_oldest_release() -> None:
    about = project()["project"]
    base = lowest(about, [])
    everything = lowest(about, ["all"])
    assert set(base) == {"libcst", "numpy", "packaging", "pathspec"}
    extras = set(about["optional-dependencies"])
    assert lowest(about, sorted(extras)) == everything
    # JAX needs a newer one than the linter
    assert (base["numpy"], everything["numpy"]) == ("1.26", "2.0")


def test_a_dependency_without_a_bound_is_refused() -> None:
    about = {"dependencies": ["libcst"], "optional-dependencies": {}}
    with pytest.raises(ValueError, match=r"libcst: write the oldest release"):
        lowest(about, [])
