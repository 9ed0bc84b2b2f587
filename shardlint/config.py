"""Settings: ``[tool.shardlint]`` in pyproject.toml, or the whole of a shardlint.toml. Unknown keys are errors."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from shardlint import messages
from shardlint.jax_version import NEWEST, Version, parse_version, required_jax
from shardlint.logical_rules import RuleList, read, rules_from

#: Folders of tools, which hold no program of the project; a setting ``exclude`` takes the place of these.
DEFAULT_EXCLUDE = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pants.d",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".shardlint_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pycache__",
    "__pypackages__",
    "node_modules",
    "site-packages",
)
_AXIS = re.compile(r"[A-Za-z_]\w*")


class ConfigError(Exception):
    """Settings that cannot be used; the text says where and what to do."""

    def __init__(self, where: str, message: str) -> None:
        self.where = where
        self.message = message
        super().__init__(f"{where}: {message}" if where else message)

    @property
    def file(self) -> Path | None:
        """The file that cannot be used; None where it is an option."""
        if not self.where or self.where.startswith("--"):
            return None
        return Path(os.path.abspath(self.where))


@dataclass(frozen=True, slots=True)
class Config:
    """All settings of a run.

    ``select`` and ``ignore`` are codes or beginnings of codes (``ST3``); an empty ``select`` means the rules that are
    on by default. ``mesh`` maps an axis to its size, None where only the name is known. ``logical_rules`` are the lists
    of logical axis rules that may be in force. ``explicit_axes`` are the axes of ``mesh`` that are in the types of
    arrays (True: all). ``jax_version`` is the release that the program is for, None where nobody says. ``exclude`` and
    ``extend_exclude`` leave files out of folders; with ``force_exclude`` also those that are named themselves. ``root``
    is what patterns and ``cache_dir`` are relative to; ``project`` tells whether it is certainly one project's folder.
    ``baseline`` is the file of findings that are hidden.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    mesh: dict[str, int | None] = field(default_factory=dict)
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    src: tuple[str, ...] = (".", "src")
    jobs: int = 0
    cache_dir: str = ".shardlint_cache"
    root: Path = field(default_factory=Path.cwd)
    source: Path | None = None
    logical_rules: tuple[RuleList, ...] = ()
    explicit_axes: tuple[str, ...] | bool = ()
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    respect_gitignore: bool = True
    jax_version: Version | None = None
    project: bool = False
    evaluate: bool = True
    baseline: Path | None = None

    @property
    def jax(self) -> Version:
        """The release of JAX that the program is for: set, or else required, or else the newest."""
        return self.jax_version or required_jax(self.root) or NEWEST

    def with_options(self, **changes: Any) -> Config:
        """A copy with those settings that are not None replaced."""
        return replace(self, **{k: v for k, v in changes.items() if v is not None})

    @property
    def analysis_key(self) -> str:
        """What the engine's result depends on (not what is shown of it)."""
        return repr(
            (
                sorted(self.mesh.items()),
                self.src,
                self.logical_rules,
                self.explicit_axes,
                self.jax,
                self.evaluate,
            )
        )


def find(start: Path) -> Config:
    """The settings in force in directory ``start``: the nearest shardlint.toml or pyproject.toml with our table.

    Without any, the root is that of the project or the repository, else the current directory if it is above.
    """
    nearest_project: Path | None = None
    for folder in (start, *start.parents):
        own, project = folder / "shardlint.toml", folder / "pyproject.toml"
        if own.is_file():
            return load(own)
        if project.is_file():
            if "shardlint" in _toml(project).get("tool", {}):
                return load(project)
            nearest_project = nearest_project or folder
        if (folder / ".git").exists():
            nearest_project = nearest_project or folder
            break
    if nearest_project is not None:
        return Config(root=nearest_project, project=True)
    here = Path.cwd()
    return Config(root=here if start.is_relative_to(here) else start)


def load(path: Path) -> Config:
    """Read one settings file. Raises ``ConfigError``."""
    document = _toml(path)
    if path.name == "pyproject.toml":
        tool = document.get("tool", {})
        if "shardlint" not in tool:
            raise ConfigError(str(path), messages.no_table())
        document = tool["shardlint"]
    return parse(document, str(path), root=path.parent, source=path)


def parse(
    document: Mapping[str, Any], where: str, root: Path, source: Path | None = None
) -> Config:
    """Settings from a mapping with the names of the file's keys."""
    values: dict[str, Any] = {}
    if not isinstance(document, Mapping):
        raise ConfigError(
            where, messages.wrong_type("tool.shardlint", "a table", document)
        )
    readers: dict[str, Callable[[str, object], object]] = {
        **_READERS,
        "logical-rules": partial(_logical_rules, root),
        "baseline": partial(_path, root),
    }
    for key, value in document.items():
        reader = readers.get(key)
        if reader is None:
            raise ConfigError(where, messages.unknown_key(key, readers))
        try:
            values[key.replace("-", "_")] = reader(key, value)
        except ValueError as error:
            raise ConfigError(where, str(error)) from None
    explicit = values.get("explicit_axes", False)
    for axis in () if isinstance(explicit, bool) else explicit:
        if axis not in values.get("mesh", {}):
            raise ConfigError(
                where, f"{axis!r} in 'explicit-axes' is not an axis of 'mesh'"
            )
    return Config(root=root, source=source, project=source is not None, **values)


def parse_mesh(text: str) -> dict[str, int | None]:
    """``d=2,t=4`` (a size may be left out). Raises ``ValueError``."""
    axes: dict[str, int | None] = {}
    for part in text.split(","):
        name, equals, size = (p.strip() for p in part.partition("="))
        number = int(size) if size.isascii() and size.isdigit() else 0
        if not _AXIS.fullmatch(name) or name in axes or (equals and number < 1):
            raise ValueError(messages.bad_mesh(text))
        axes[name] = number if equals else None
    return axes


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(str(path), f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), messages.not_toml(error)) from None


def _strings(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(messages.wrong_type(key, "a list of strings", value))
    return tuple(value)


def _per_file(key: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ValueError(
            messages.wrong_type(key, "a table of pattern = [codes]", value)
        )
    return tuple(
        (pattern, _strings(f"{key}.{pattern}", codes))
        for pattern, codes in value.items()
    )


def _mesh(key: str, value: object) -> dict[str, int | None]:
    if isinstance(value, str):
        return parse_mesh(value)
    if (
        isinstance(value, list)
        and value
        and all(isinstance(v, str) and _AXIS.fullmatch(v) for v in value)
    ):
        return dict.fromkeys(value)
    if not isinstance(value, dict) or not all(
        type(v) is int and v >= 1 for v in value.values()
    ):
        raise ValueError(
            messages.wrong_type(
                key, "a table of axis = size, or a list of axis names", value
            )
        )
    return dict(value)


def _explicit(key: str, value: object) -> tuple[str, ...] | bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(
            messages.wrong_type(key, "true, false or a list of axis names", value)
        )
    return tuple(value)


def _logical_rules(root: Path, key: str, value: object) -> tuple[RuleList, ...]:
    if isinstance(value, dict):
        return (RuleList(rules_from(value), "the settings"),)
    texts = [value] if isinstance(value, str) else value
    if (
        not isinstance(texts, list)
        or not texts
        or not all(isinstance(text, str) for text in texts)
    ):
        raise ValueError(
            messages.wrong_type(
                key, "'path:key', a list of them, or a table of name = axes", value
            )
        )
    return tuple(read(text, root) for text in texts)


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(messages.wrong_type(key, "true or false", value))
    return value


def _version(key: str, value: object) -> Version:
    found = parse_version(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            messages.wrong_type(key, "a release of JAX such as '0.10.2'", value)
        )
    return found


def _jobs(key: str, value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(
            messages.wrong_type(key, "a number of processes (0: one per core)", value)
        )
    return value


def _string(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(messages.wrong_type(key, "a string", value))
    return value


def _path(root: Path, key: str, value: object) -> Path:
    return root / _string(key, value)


_READERS: Mapping[str, Callable[[str, object], object]] = {
    "select": _strings,
    "ignore": _strings,
    "per-file-ignores": _per_file,
    "mesh": _mesh,
    "explicit-axes": _explicit,
    "jax-version": _version,
    "exclude": _strings,
    "extend-exclude": _strings,
    "force-exclude": _flag,
    "respect-gitignore": _flag,
    "evaluate": _flag,
    "src": _strings,
    "jobs": _jobs,
    "cache-dir": _string,
}
