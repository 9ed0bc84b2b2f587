"""Switching the runtime checks on for the project's packages, without a decorator in them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from shardtypes import _stats
from shardtypes.import_hook import Hook, install_import_hook

_NOT_THE_PROJECT = frozenset({"test", "tests", "testing", "docs", "doc", "examples", "benchmarks"})
_NOT_A_MODULE = re.compile(r"(test_.*|.*_test|conftest|setup|noxfile|tasks)")


def packages_in(root: Path) -> tuple[str, ...]:
    """What of a project's root directory and its ``src`` folder is to be checked, tests and docs left out.

    All packages, and those single modules that mention shardtypes.
    """
    found = set()
    for folder in (root, root / "src"):
        found |= {path.parent.name for path in folder.glob("*/__init__.py")} - _NOT_THE_PROJECT
        found |= {
            path.stem
            for path in folder.glob("*.py")
            if not _NOT_A_MODULE.fullmatch(path.stem) and b"shardtypes" in path.read_bytes()
        }
    # Instrumenting the checker with itself would recurse.
    return tuple(sorted(name for name in found - {"shardtypes", "pytest_shardtypes"} if name.isidentifier()))


class PackageHook:
    """The import hook over ``packages``, and the counting of what it checks."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        self.too_early: tuple[str, ...] = ()
        self._handle: Hook | None = None

    def install(self) -> None:
        """Check every module of the packages that is imported from now on."""
        self.too_early = tuple(name for name in self.packages if name in sys.modules)
        before = list(sys.meta_path)
        if self.packages:
            self._handle = install_import_hook(self.packages)
        _behind_pytest(before)
        _stats.reset()
        _stats.record(True)

    def uninstall(self) -> None:
        """Stop checking modules that are imported later, and stop counting."""
        if self._handle is not None:
            self._handle.uninstall()
            self._handle = None
        _stats.record(False)

    def never_imported(self) -> tuple[str, ...]:
        """Packages that no test imported, so that nothing in them was checked."""
        return tuple(name for name in self.packages if name not in sys.modules)


def _behind_pytest(before: Sequence[object]) -> None:
    """Move the finders that were added behind pytest's own, which must still rewrite the asserts of test modules."""
    added = [finder for finder in sys.meta_path if finder not in before]
    rest = [finder for finder in sys.meta_path if finder in before]
    rewriting = [at for at, finder in enumerate(rest) if type(finder).__module__ == "_pytest.assertion.rewrite"]
    if added and rewriting:
        at = rewriting[-1] + 1
        sys.meta_path[:] = [*rest[:at], *added, *rest[at:]]
