"""A process that has imported pytest, its plugins and JAX, and forks a child for each run of pytest.

Its runs are as ``python -m pytest``: a library is in ``sys.modules`` only from where the run imports it, with the
environment of that moment, and one of its name that stands before it on the path is imported in its stead. The
project's own code is imported by each run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Mapping
from importlib import machinery
from importlib.abc import Loader
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from tests.warm import serve

#: What is hidden until a run imports it. Pytest's own plugins import others.
_LIBRARIES = (("hypothesis", "hypothesis.strategies"), ("jax", "jax.numpy"))
#: Their plugins import our code, which each run does for itself.
_LEFT_OUT = ("shardtypes", "typeguard")
#: What runs may set in the environment before they import JAX, and what it makes of that.
_READ_BY_JAX = {"JAX_PLATFORMS": str, "JAX_NUM_CPU_DEVICES": int}
_LOADERS: Any = (
    (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
    (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES),
    (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
)


class Hidden(Loader):
    """The modules that came with a library, and what its import did to the environment."""

    def __init__(self, *names: str) -> None:
        modules, environ = set(sys.modules), dict(os.environ)
        for name in names:
            importlib.import_module(name)
        self.modules = {
            name: sys.modules.pop(name)
            for name in set(sys.modules) - modules
            if name.partition(".")[0] not in sys.stdlib_module_names
        }
        self.environ = {
            name: value for name, value in os.environ.items() if name not in environ
        }

    def create_module(self, spec: machinery.ModuleSpec) -> ModuleType:
        """The one that is there, with all that came with it."""
        sys.modules.update(self.modules)
        return self.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It ran before; what it read from the environment may have changed."""
        assert isinstance(module.__spec__, _Spec)
        module.__spec__ = module.__spec__.own
        for name, value in self.environ.items():
            os.environ.setdefault(name, value)
        if "jax" in self.modules:
            for name, kind in _READ_BY_JAX.items():
                if name in os.environ:
                    config = self.modules["jax"].config
                    config.update(name.lower(), kind(os.environ[name]))


class _Spec(machinery.ModuleSpec):
    """Says of a hidden module what its own specification does."""

    def __init__(self, module: ModuleType, loader: Loader) -> None:
        assert module.__spec__ is not None
        self.own = module.__spec__
        super().__init__(self.own.name, loader, origin=self.own.origin)
        self.submodule_search_locations = self.own.submodule_search_locations


class _Folder(machinery.FileFinder):
    """A folder of libraries. What is found here pytest does not import in its own way, for the loader is another."""

    hidden: ClassVar[dict[str, Hidden]] = {}

    def find_spec(
        self, fullname: str, target: ModuleType | None = None
    ) -> machinery.ModuleSpec | None:
        library = self.hidden.get(fullname)
        if library is None or fullname in sys.modules:
            return super().find_spec(fullname, target)
        return _Spec(library.modules[fullname], library)


class _Importing:
    """Imports the libraries where pytest imports modules, as it does in a run: it rewrites some, and warns of those
    that it cannot rewrite any more."""

    def pytest_configure(self) -> None:
        for names in _LIBRARIES:
            hide(Hidden(*names))


def hide(library: Hidden) -> None:
    """Have imports of its packages find it in their folder."""
    folders = set()
    for name, module in library.modules.items():
        spec = module.__spec__
        if "." in name or spec is None or spec.origin is None:
            continue  # made by code that was imported, not found
        _Folder.hidden[name] = library
        folder = Path(spec.origin).parent
        folders.add(str(folder.parent if spec.submodule_search_locations else folder))

    def found(path: str) -> _Folder:
        if path not in folders:
            raise ImportError
        return _Folder(path, *_LOADERS)

    sys.path_hooks.insert(0, found)
    sys.path_importer_cache.clear()


def _import_all() -> None:
    left_out = [option for name in _LEFT_OUT for option in ("-p", f"no:{name}")]
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()) as said,
        warnings.catch_warnings(),
    ):
        options = ["-c", os.devnull, "-p", "no:cacheprovider", *left_out]
        status = pytest.main([*options, folder], plugins=[_Importing()])
    if status != pytest.ExitCode.NO_TESTS_COLLECTED:
        raise RuntimeError(said.getvalue())
    ours = ("tests", "shardtypes", "pytest_shardtypes")
    hidden = {name for library in _Folder.hidden.values() for name in library.modules}
    for name in list(sys.modules):
        # what was hidden may have been imported again
        if name in hidden or name.partition(".")[0] in ours:
            del sys.modules[name]


#: The path of an interpreter without what is said in ``PYTHONPATH``.
_PATH = [
    path for path in sys.path if path not in os.environ["PYTHONPATH"].split(os.pathsep)
]


def _run(command: Mapping[str, Any]) -> None:
    begin = [] if os.environ.get("PYTHONSAFEPATH") else [os.getcwd()]
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*begin, *filter(None, told), *_PATH]
    sys.path_importer_cache.clear()
    sys.argv = ["pytest", *command["arguments"]]
    runpy.run_module("pytest", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _import_all()
    serve(_run)
