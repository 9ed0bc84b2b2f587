"""Files that a program writes while it is evaluated. They are kept in memory: what it reads back is what it wrote, and
what lies elsewhere is not looked at."""

from __future__ import annotations

import os.path
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK, refuse_size, surroundings
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.trees import map_leaves


def name_of(path: Any) -> str:
    """The name of a file. Raises NotEvaluable for what is none."""
    if isinstance(path, (str, os.PathLike)):
        return os.path.normpath(os.fspath(path))
    raise NotEvaluable("a file that has no name")


def copied(tree: Any) -> Any:
    """A tree that nothing done to the other one changes."""
    return map_leaves(
        lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, tree
    )


def keep(path: Any, value: Any) -> None:
    """Write a file."""
    surroundings().files[name_of(path)] = value


def kept(path: Any) -> Any:
    """What the program wrote. Raises NotEvaluable for a file that it did not."""
    found = surroundings().files.get(name_of(path))
    if found is None:
        raise NotEvaluable(
            f"the file {name_of(path)}, which this program does not write"
        )
    return found


def is_there(path: Any) -> bool:
    """Whether there is a file or a folder. Raises NotEvaluable where that is not known."""
    name = name_of(path)
    about = surroundings()
    if name in about.files or name in about.folders:
        return True
    if any(file.startswith(name + os.sep) for file in about.files):
        return True
    if any(name.startswith(folder + os.sep) for folder in about.new_folders):
        return False
    raise NotEvaluable(f"whether there is a file {name}")


def forget(path: Any) -> None:
    """Remove a file, or a folder with what is in it."""
    name = name_of(path)
    about = surroundings()
    for file in [one for one in about.files if f"{one}/".startswith(f"{name}/")]:
        del about.files[file]
    about.folders.discard(name)


def make_folder(path: Any, *args: Any, **options: Any) -> None:
    surroundings().folders.add(name_of(path))


def new_folder() -> str:
    """The name of a folder in which there is nothing yet."""
    about = surroundings()
    name = f"/tmp/evaluated{len(about.new_folders)}"
    about.new_folders.append(name)
    about.folders.add(name)
    return name


# --- paths ------------------------------------------------------------------------------------------------------------


class Path(pathlib.PurePosixPath):
    """``pathlib.Path``."""

    def mkdir(self, *args: Any, **options: Any) -> None:
        make_folder(self)

    def exists(self, **options: Any) -> bool:
        return is_there(self)

    is_file = is_dir = exists

    def write_text(self, data: str, *args: Any, **options: Any) -> int:
        keep(self, data)
        return len(data)

    def write_bytes(self, data: Any) -> None:
        keep(self, data)

    def read_text(self, *args: Any, **options: Any) -> Any:
        return kept(self)

    def read_bytes(self) -> Any:
        return kept(self)

    def unlink(self, *args: Any, **options: Any) -> None:
        kept(self)
        forget(self)

    def resolve(self, *args: Any) -> Path:
        return self

    def absolute(self) -> Path:
        return self

    def expanduser(self) -> Path:
        return self

    def _refuse(self, *args: Any, **options: Any) -> Any:
        raise NotEvaluable(f"what is in {self}")

    open = iterdir = glob = rglob = stat = _refuse


setattr(Path, MARK, True)
for _name in (
    "pathlib.Path",
    "pathlib.PosixPath",
    "pathlib.PurePath",
    "pathlib.PurePosixPath",
    "etils.epath.Path",
):
    provide(_name)(Path)
for _name in ("os.makedirs", "os.mkdir"):
    provide(_name)(make_folder)
for _name in ("exists", "isfile", "isdir"):
    provide(f"os.path.{_name}")(is_there)
for _name in ("abspath", "expanduser", "normpath", "realpath"):
    provide(f"os.path.{_name}")(name_of)
provide("os.fspath")(name_of)


@provide("shutil.rmtree")
def _remove_folder(path: Any, *args: Any, **options: Any) -> None:
    forget(path)


@provide("os.remove")
@provide("os.unlink")
def _remove(path: Any, *args: Any, **options: Any) -> None:
    if is_there(path):
        forget(path)


@provide("tempfile.mkdtemp")
def _temporary(*args: Any, **options: Any) -> str:
    return new_folder()


class TemporaryDirectory:
    """``tempfile.TemporaryDirectory``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.name = new_folder()

    def __enter__(self) -> str:
        return self.name

    def __exit__(self, *args: object) -> None:
        self.cleanup()

    def cleanup(self) -> None:
        forget(self.name)


setattr(TemporaryDirectory, MARK, True)
provide("tempfile.TemporaryDirectory")(TemporaryDirectory)
provide("tempfile.gettempdir")(lambda: "/tmp")

# --- arrays -----------------------------------------------------------------------------------------------------------


class Arrays:
    """Arrays in one file, by name."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays
        self.files = list(arrays)

    def __getitem__(self, name: str) -> Any:
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __enter__(self) -> Arrays:
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def keys(self) -> Any:
        return self._arrays.keys()

    def values(self) -> Any:
        return self._arrays.values()

    def items(self) -> Any:
        return self._arrays.items()

    def close(self) -> None:
        """Nothing is open."""


setattr(Arrays, MARK, True)


def _with_ending(file: Any, ending: str) -> str:
    name = name_of(file)
    return name if name.endswith(ending) else name + ending


def _saved(array: Any) -> Any:
    """An array as it is saved, which is one that all devices hold alike."""
    if isinstance(array, Array):
        array.numbers()
        return array
    return np.array(array)


@provide("numpy.save")
@provide("jax.numpy.save")
def _save(file: Any, arr: Any, **options: Any) -> None:
    keep(_with_ending(file, ".npy"), _saved(arr))


@provide("numpy.savez")
@provide("numpy.savez_compressed")
@provide("jax.numpy.savez")
def _save_all(file: Any, *args: Any, **kwds: Any) -> None:
    given = {f"arr_{k}": array for k, array in enumerate(args)}
    given.update(kwds)
    arrays = {name: _saved(array) for name, array in given.items()}
    keep(_with_ending(file, ".npz"), Arrays(arrays))


def _of_numpy(value: Any) -> Any:
    refuse_size(int(np.size(value)))
    return np.array(value)


@provide("numpy.load")
def _load_numpy(file: Any, *args: Any, **options: Any) -> Any:
    return _loaded(kept(file), _of_numpy)


@provide("jax.numpy.load")
def _load(file: Any, *args: Any, **options: Any) -> Any:
    return _loaded(kept(file), asarray)


def _loaded(found: Any, made: Any) -> Any:
    if isinstance(found, Arrays):
        return Arrays({name: made(array) for name, array in found.items()})
    if isinstance(found, (Array, np.ndarray)):
        return made(found)
    raise NotEvaluable("a file of something else than arrays")
