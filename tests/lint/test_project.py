"""What a name means across files, packages, aliases, re-exports, relative and star imports."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from shardlint.lower import lower
from shardlint.project import Definition, External, ModuleRef, Project
from shardlint.star_exports import STAR_EXPORTS
from tests.support import run_python

pytestmark = pytest.mark.once  # of what the engine does, another JAX changes nothing


def project(
    files: Mapping[str, str], links: Mapping[str, Mapping[str, str]] | None = None
) -> Project:
    modules = {}
    for path, text in files.items():
        package = path.endswith("__init__.py")
        name = path.removesuffix("/__init__.py").removesuffix(".py").replace("/", ".")
        modules[name] = lower(text.encode(), name, path, package).module
    return Project(modules, links or {})


FILES = {
    "pkg/__init__.py": "from .inner import f as renamed\nfrom .types import *\nfrom . import deep\n",
    "pkg/inner.py": "import jax.numpy as jnp\nfrom ..other import g\ndef f(): pass\nsize = 3\n",
    "pkg/types.py": "from shardtypes import *\nimport shardtypes as st\nMine = st.f32\n_hidden = 1\n",
    "pkg/deep/__init__.py": "from ..inner import *\nfrom .leaf import leaf\n",
    "pkg/deep/leaf.py": "def leaf(): pass\nfrom pkg import renamed\n",
    "loop_a.py": "from loop_b import x\n",
    "loop_b.py": "from loop_a import x\n",
    "main.py": (
        "import pkg\nimport pkg.deep.leaf as l\nimport jax\nfrom pkg import renamed, f32, deep, Mine\n"
        "from pkg.inner import jnp\nfrom jax.experimental.shard_map import shard_map\n"
        "from jax.sharding import PartitionSpec as P\nfrom pkg import nothing\nimport os.path\n"
        "try:\n    from jax import shard_map as sm\nexcept ImportError:\n    sm = None\n"
    ),
}


@pytest.mark.parametrize(
    ("module", "name", "want"),
    [
        ("main", "pkg", ModuleRef("pkg")),
        ("main", "l", ModuleRef("pkg.deep.leaf")),
        ("main", "deep", ModuleRef("pkg.deep")),
        ("main", "jax", External("jax")),
        ("main", "f32", External("shardtypes.f32")),
        ("main", "jnp", External("jax.numpy")),
        ("main", "shard_map", External("jax.shard_map")),
        ("main", "sm", External("jax.shard_map")),
        ("main", "P", External("jax.sharding.PartitionSpec")),
        ("main", "nothing", None),
        ("main", "undefined", None),
        ("main", "os", External("os")),
        ("pkg.deep", "jnp", External("jax.numpy")),
        ("pkg", "_hidden", None),
        ("pkg.types", "st", External("shardtypes")),
        ("loop_a", "x", None),
    ],
)
def test_lookup(module: str, name: str, want: object) -> None:
    assert project(FILES).lookup(module, name) == want


@pytest.mark.parametrize(
    ("module", "name", "home", "original"),
    [
        ("main", "renamed", "pkg.inner", "f"),
        ("pkg.deep.leaf", "renamed", "pkg.inner", "f"),
        ("pkg.deep", "leaf", "pkg.deep.leaf", "leaf"),
        ("pkg.deep", "size", "pkg.inner", "size"),
        ("main", "Mine", "pkg.types", "Mine"),
    ],
)
def test_definitions(module: str, name: str, home: str, original: str) -> None:
    found = project(FILES).lookup(module, name)
    assert isinstance(found, Definition)
    assert (found.module, found.name) == (home, original)


def test_a_library_is_known_by_its_models_even_if_its_files_are_checked() -> None:
    files = {
        "shardtypes/__init__.py": "f32 = 1\n",
        "main.py": "from shardtypes import f32\nimport shardtypes as st\n",
    }
    assert project(files).lookup("main", "f32") == External("shardtypes.f32")
    assert project(files).lookup("main", "st") == External("shardtypes")


def test_two_modules_of_one_name() -> None:
    """``links`` tells which ``common`` the second folder means."""
    files = {
        "common.py": "x = 1\n",
        "b/common.py": "y = 1\n",
        "b/main.py": "from common import y\nimport common\n",
    }
    found = project(files, {"b.main": {"common": "b.common"}})
    assert found.lookup("b.main", "common") == ModuleRef("b.common")
    assert isinstance(found.lookup("b.main", "y"), Definition)


def test_star_exports_are_what_shardtypes_exports() -> None:
    result = run_python("-c", "import shardtypes; print(*shardtypes.__all__)")
    assert set(result.stdout.split()) == STAR_EXPORTS["shardtypes"], result.stderr


@pytest.mark.parametrize("library", sorted(STAR_EXPORTS.keys() - {"shardtypes"}))
def test_star_exports_have_what_the_library_exports(library: str) -> None:
    """In this version of it; others export more, or less."""
    result = run_python(
        "-c",
        f"before = set(dir()); from {library} import *; print(*set(dir()) - before - {{'before'}})",
    )
    exported = set(result.stdout.split())
    assert exported, result.stderr
    assert exported <= STAR_EXPORTS[library]


def test_names_of_a_star_import_are_those_of_the_library() -> None:
    found = project({"main.py": "from jax.numpy import *\nfrom jax.lax import *\n"})
    assert found.lookup("main", "sum") == External("jax.numpy.sum")
    assert found.lookup("main", "psum") == External("jax.lax.psum")
    assert found.lookup("main", "len") is None
