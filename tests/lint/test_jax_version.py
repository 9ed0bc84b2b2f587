"""The release of JAX that a project is for, from every file in which it may say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.config import Config, ConfigError, find, parse
from shardlint.jax_version import NEWEST, parse_version, required_jax

pytestmark = pytest.mark.once

LOCK = 'version = 1\n\n[[package]]\nname = "jaxlib"\nversion = "0.1"\n\n[[package]]\nname = "jax"\nversion = "0.8.1"\n'
FILES = {
    "pyproject.toml": {
        '[project]\ndependencies = ["numpy", "jax>=0.4"]\n': NEWEST,
        '[project]\ndependencies = ["jax[cuda12] == 0.8.2 ; python_version > \'3.10\'"]\n': (0, 8, 2),
        '[project]\ndependencies = ["jax~=0.8.0"]\n': (0, 8, 3),
        '[project]\ndependencies = ["jax<0.9", "jax_tools", "jaxtyping==1.0"]\n': (0, 8, 3),
        '[project]\ndependencies = ["jax<=0.10.2,>=0.8"]\n': (0, 10, 2),
        '[project]\ndependencies = ["jaxtyping>=0.2", "flax"]\n': None,
        '[project.optional-dependencies]\ntpu = ["jax[tpu]==0.6.2"]\n': (0, 6, 2),
        '[project]\ndependencies = ["jax"]\n[project.optional-dependencies]\ngpu = ["jax[cuda]<0.8"]\n': (0, 7, 2),
        '[dependency-groups]\ndev = ["pytest", {include-group = "x"}, "jax==0.9.0"]\n': (0, 9, 0),
        '[tool.uv]\nconstraint-dependencies = ["jax<0.9.1"]\n': (0, 9, 0),
        '[tool.poetry.dependencies]\njax = "^0.8.1"\n': (0, 8, 3),
        '[tool.poetry.dependencies]\njax = {version = "~0.7", extras = ["cpu"]}\n': (0, 7, 2),
        '[tool.poetry.group.dev.dependencies]\njax = "0.7.1"\n': (0, 7, 1),
        '[tool.poetry.dependencies]\njax = "*"\n': NEWEST,
        '[project]\ndependencies = ["jax==0.4.26"]\n': (0, 4, 26),
        '[project]\ndependencies = ["jax @ git+https://github.com/jax-ml/jax"]\n': None,
        '[project]\ndependencies = ["jax==0.9.0; os_name == \'nt\'", "jax==0.8.1"]\n': (0, 9, 0),
        "not toml": None,
    },
    "requirements.txt": {"# jax==0.1\njax==0.8.0  # pinned\n-r other.txt\n": (0, 8, 0), "jaxlib==0.8.0\n": None},
    "requirements/tpu.txt": {"numpy\njax[tpu]<0.9,>=0.7\n": (0, 8, 3)},
    "gpu-requirements-dev.txt": {"jax==0.8.0\n": (0, 8, 0)},
    "setup.cfg": {
        "[options]\ninstall_requires =\n    numpy\n    jax<0.9\n": (0, 8, 3),
        "[options.extras_require]\ntpu = jax==0.7.0\n": (0, 7, 0),
        "not a [ setup file": None,
    },
    "setup.py": {
        "from setuptools import setup\nsetup(install_requires=['jax==0.8.2'])\n": (0, 8, 2),
        "REQUIRED = '''\nnumpy\njax<0.8\n'''\n": (0, 7, 2),
        "this is no Python": None,
    },
    "uv.lock": {LOCK: (0, 8, 1), f'{LOCK}\n[[package]]\nname = "jax"\nversion = "0.10.2"\n': (0, 10, 2)},
    "poetry.lock": {LOCK: (0, 8, 1)},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [(n, t, w) for n, each in FILES.items() for t, w in each.items()],
)
def test_what_a_file_says(
    tmp_path: Path, name: str, text: str, wanted: tuple[int, ...] | None
) -> None:
    required_jax.cache_clear()
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert required_jax(tmp_path) == wanted


def test_a_lock_decides_and_folders_around_are_asked_last(tmp_path: Path) -> None:
    required_jax.cache_clear()
    (tmp_path / ".git").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("jax==0.8.0\n")
    assert required_jax(inner) == (0, 8, 0)
    required_jax.cache_clear()
    (tmp_path / "uv.lock").write_text(LOCK)
    assert required_jax(inner) == (0, 8, 1)
    required_jax.cache_clear()
    (inner / "setup.py").write_text("setup(install_requires=['jax==0.7.2'])\n")
    assert required_jax(inner) == (0, 7, 2)


def test_the_setting_wins(tmp_path: Path) -> None:
    required_jax.cache_clear()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["jax==0.8.0"]\n'
    )
    assert find(tmp_path).jax == (0, 8, 0)
    (tmp_path / "shardlint.toml").write_text('jax-version = "0.10.2rc1"\n')
    assert find(tmp_path).jax == (0, 10, 2)
    assert Config(root=tmp_path / "nowhere").jax == NEWEST
    with pytest.raises(
        ConfigError,
        match=r"'jax-version' must be a release of JAX such as '0\.10\.2', got 'new'",
    ):
        parse({"jax-version": "new"}, "f.toml", tmp_path)
    with pytest.raises(
        ConfigError,
        match=r"'jax-version' must be a release of JAX such as '0\.10\.2', got 0\.1",
    ):
        parse({"jax-version": 0.1}, "f.toml", tmp_path)


def test_versions() -> None:
    assert [parse_version(text) for text in ("0.10.2", "v1", " 0.9.0.dev1", "x", "")] == [
        (0, 10, 2), (1,), (0, 9, 0), None, None,
    ]  # fmt: skip
