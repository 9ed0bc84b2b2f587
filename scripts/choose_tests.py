"""Prints the tests that `make check` runs: those that guard the whole, and those of what changed since the main branch.

Files are mapped to the tests of their area; a test that changed runs itself. What takes minutes by itself is left to
`make test`, unless it is what changed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = (
    "tests/lang",
    "tests/test_imports.py",
    "tests/lint/test_command.py",
    "tests/lint/test_run.py",
)
#: The first that fits a changed file says which tests guard it.
AREAS = {
    "shardtypes/lang/": ("tests/lang", "tests/engine/test_messages.py"),
    "shardtypes/semantics/": ("tests/semantics",),
    "shardtypes/laws/": ("tests/laws/test_verdicts.py", "tests/laws/test_saving.py"),
    "shardtypes/": (
        "tests/runtime/test_messages.py",
        "tests/runtime/test_layouts.py",
        "tests/runtime/test_mapped.py",
    ),
    "pytest_shardtypes/": (
        "tests/pytest_plugin/test_options.py",
        "tests/pytest_plugin/test_report.py",
    ),
    "shardlint/mypy_plugin/": (
        "tests/mypy_plugin/test_settings.py",
        "tests/mypy_plugin/test_cases.py",
    ),
    "shardlint/rules/": (
        "tests/engine/test_rules.py",
        "tests/test_docs.py",
        "tests/test_site.py",
    ),
    "shardlint/evaluation/": (
        "tests/evaluation/test_numbers.py",
        "tests/evaluation/test_refusals.py",
    ),
    "shardlint/engine/sharding/": (
        "tests/engine/test_cases.py",
        "tests/global_view",
        "tests/logical",
    ),
    "shardlint/ops/sharding/": (
        "tests/engine/test_cases.py",
        "tests/global_view",
        "tests/sharding/test_view.py",
    ),
    "shardlint/engine/": (
        "tests/engine/test_cases.py",
        "tests/engine/test_rules.py",
        "tests/engine/test_messages.py",
    ),
    "shardlint/ops/": ("tests/ops/test_complete.py", "tests/engine/test_cases.py"),
    "shardlint/converting/": ("tests/converting",),
    "shardlint/": ("tests/lint",),
    "fixtures/lint/": ("tests/engine/test_cases.py",),
    "fixtures/mypy/": ("tests/mypy_plugin/test_cases.py",),
    "fixtures/models/": ("tests/models/test_lint.py", "tests/models/test_mypy.py"),
    "docs/contributing.md": ("tests/test_contributing.py",),
    "editors/": ("tests/lint/test_vscode.py",),
    "docs/editors.md": (
        "tests/test_docs.py",
        "tests/test_site.py",
        "tests/test_editors.py",
    ),
    "docs/": ("tests/test_docs.py", "tests/test_site.py"),
    "mkdocs.yml": ("tests/test_site.py",),
    "CHANGELOG.md": ("tests/test_site.py",),
    "CONTRIBUTING.md": ("tests/test_site.py",),
    "README.md": (
        "tests/test_docs.py",
        "tests/test_release.py",
        "tests/test_site.py",
    ),
    "pyproject.toml": ("tests/test_packaging.py", "tests/test_release.py"),
    ".github/": ("tests/test_release.py",),
    "CITATION.cff": ("tests/test_release.py",),
    "SECURITY.md": ("tests/test_release.py",),
    "scripts/check_release.py": ("tests/test_release.py",),
    "scripts/lowest_versions.py": ("tests/test_release.py",),
    "scripts/check_site.py": ("tests/test_site.py",),
    "scripts/site_pages.py": ("tests/test_site.py",),
    "scripts/editors/": ("tests/test_editors.py",),
    "scripts/try_editors.py": ("tests/test_editors.py",),
    "scripts/first_hour": ("tests/test_first_hour.py",),
    "scripts/": ("tests/test_packaging.py",),
    "action.yml": ("tests/lint/test_action.py",),
}


def main() -> None:
    """Print one path a line."""
    sys.stdout.write("".join(f"{name}\n" for name in chosen(changed())))


def changed() -> list[str]:
    """The files that differ from where this branch left the main one, those that are not committed included."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    return [
        *_git("diff", "--name-only", base[0]),
        *_git("ls-files", "--others", "--exclude-standard"),
    ]


def chosen(files: Iterable[str]) -> list[str]:
    """The tests to run for these files."""
    found = dict.fromkeys(ALWAYS)
    for name in files:
        if name.startswith("tests/") and Path(name).name.startswith("test_"):
            found.update(dict.fromkeys([name] if (ROOT / name).exists() else []))
        else:
            area = next(
                (tests for prefix, tests in AREAS.items() if name.startswith(prefix)),
                (),
            )
            found.update(dict.fromkeys(area))
    return [
        name
        for name in found
        if not any(name.startswith(f"{other}/") for other in found)
    ]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


if __name__ == "__main__":
    main()
