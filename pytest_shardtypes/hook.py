"""Switching the runtime checks on for the project's packages, without a decorator in them."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import sys
import types
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path

from pytest_shardtypes.candidates import NOT_THE_PROJECT
from pytest_shardtypes.timing import CheckTimes
from shardtypes import _stats, switches
from shardtypes.import_hook import Hook, install_import_hook
from shardtypes.jaxtyping_types import is_disabled

_ANNOTATED = re.compile(rb"shardtypes|jaxtyping")
_NOT_A_MODULE = re.compile(r"(test_.*|.*_test|conftest|setup|noxfile|tasks)")


def packages_in(root: Path) -> tuple[str, ...]:
    """What of a project's root directory and its ``src`` folder is to be checked, tests and docs left out.

    All packages, and those single modules that mention shardtypes or jaxtyping.
    """
    found = set()
    for folder in (root, root / "src"):
        found |= {
            path.parent.name for path in folder.glob("*/__init__.py")
        } - NOT_THE_PROJECT
        found |= {
            path.stem
            for path in folder.glob("*.py")
            if not _NOT_A_MODULE.fullmatch(path.stem)
            and _ANNOTATED.search(path.read_bytes())
        }
    # Instrumenting the checker with itself would recurse.
    return tuple(
        sorted(
            name
            for name in found - {"shardtypes", "pytest_shardtypes"}
            if name.isidentifier()
        )
    )


class PackageHook:
    """The import hook over ``packages``, and the counting of what it checks."""

    def __init__(
        self,
        packages: Sequence[str],
        test_files: Sequence[str],
        all_annotations: bool,
        jaxtyping: bool,
    ) -> None:
        self.packages = tuple(packages)
        self._test_files = tuple(test_files)
        self._arrays_only = not all_annotations
        self._jaxtyping = jaxtyping and not is_disabled()
        self._finders: list[MetaPathFinder] = []
        self.too_early: tuple[str, ...] = ()
        self.times = CheckTimes()
        self._handle: Hook | None = None

    def install(self) -> None:
        """Check every module of the packages that is imported from now on."""
        self.too_early = tuple(name for name in self.packages if name in sys.modules)
        before = list(sys.meta_path)
        if self.packages:
            self._handle = install_import_hook(self.packages)
        added = [finder for finder in sys.meta_path if finder not in before]
        self._finders = [
            _InFront(finder, self._test_files)
            for finder in added
            if isinstance(finder, MetaPathFinder)
        ]
        sys.meta_path[:] = [*self._finders, *before]
        _leave_out_of_source_lines()
        self._recording, self._counters = _stats.recording, _stats.exchange()
        _stats.record(True)
        self.times.install()
        self._before = switches.arrays_only, switches.jaxtyping_too
        switches.arrays_only = self._arrays_only
        switches.jaxtyping_too = self._jaxtyping

    def uninstall(self) -> None:
        """Stop checking modules that are imported later, and stop counting."""
        if self._handle is not None:
            self._handle.uninstall()
            self._handle = None
        sys.meta_path[:] = [
            finder for finder in sys.meta_path if finder not in self._finders
        ]
        self.times.uninstall()
        _stats.exchange(self._counters)
        _stats.record(self._recording)
        switches.arrays_only, switches.jaxtyping_too = self._before

    @property
    def switched_off(self) -> bool:
        """Whether the environment turns all checks off."""
        return switches.switched_off()

    def never_imported(self) -> tuple[str, ...]:
        """Packages that no test imported, so that nothing in them was checked."""
        return tuple(name for name in self.packages if name not in sys.modules)


@functools.cache
def _leave_out_of_source_lines() -> None:
    """Have JAX name the user's lines, not ours, as those that an operation comes from; where it can be told to."""
    from jax._src import source_info_util

    register = getattr(source_info_util, "register_exclusion", None)
    if register is not None:
        for file in (str(_stats.__file__), __file__):
            register(os.path.dirname(file))


class _InFront(MetaPathFinder):
    """Our finder in front of all others, but for test modules, whose asserts pytest rewrites.

    In front of pytest's, for a module that is named on the command line is taken for a test by it.
    """

    def __init__(self, finder: MetaPathFinder, test_files: Sequence[str]) -> None:
        self._finder = finder
        self._test_files = test_files

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        parts = fullname.split(".")
        is_test = any(
            fnmatch.fnmatch(f"{parts[-1]}.py", pattern)
            for pattern in (*self._test_files, "conftest.py")
        )
        if is_test or not NOT_THE_PROJECT.isdisjoint(parts[1:]):
            return None
        return self._finder.find_spec(fullname, path, target)
