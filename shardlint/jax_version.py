"""The release of JAX that a project is for, by what its files require.

A locked release decides. Where there is none, it is the newest release that the requirements allow, for that is what
installing the project brings; a project that requires nothing runs on the newest.
"""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

Version: TypeAlias = tuple[int, ...]
"""``(0, 10, 2)``."""

#: A release that is not known yet.
NEWEST: Version = (9999,)
#: Releases between which something changes that we know of, the newest first; requirements choose among them.
_RELEASES = (
    "9999",
    "0.12.0",
    "0.11.2",
    "0.11.1",
    "0.11.0",
    "0.10.2",
    "0.10.1",
    "0.10.0",
    "0.9.2",
    "0.9.1",
    "0.9.0",
    "0.8.3",
    "0.8.2",
    "0.8.1",
    "0.8.0",
    "0.7.2",
    "0.7.1",
    "0.7.0",
    "0.6.2",
    "0.6.1",
    "0.6.0",
    "0.5.3",
    "0.5.2",
    "0.5.1",
    "0.5.0",
    "0.4.38",
    "0.4.37",
    "0.4.36",
    "0.4.35",
    "0.4.30",
    "0.4.20",
    "0.4.10",
    "0.4.1",
    "0.3.25",
    "0.2.28",
)
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_NUMBER = re.compile(r"v?(\d+(?:\.\d+)*)")
#: A line or a literal that may be a requirement of JAX: nothing else is worth the import of a parser.
_MENTION = re.compile(r"\bjax\b", re.IGNORECASE)


def parse_version(text: str) -> Version | None:
    """``0.10.2`` as numbers; what follows them (``rc1``, ``.dev3``) is left out. None for anything else."""
    found = _NUMBER.match(text.strip())
    return (
        tuple(int(part) for part in found[1].split(".")) if found is not None else None
    )


@lru_cache(maxsize=256)
def required_jax(root: Path) -> Version | None:
    """The release that the project of ``root`` is for; None where neither it nor a folder around it in the same
    repository says."""
    answers = (
        _locked(folder) or _allowed(_required(folder)) for folder in _inside(root)
    )
    return next((found for found in answers if found is not None), None)


def _inside(root: Path) -> list[Path]:
    """A folder, and those around it up to the root of the repository, if it is in one."""
    around = [root, *root.parents]
    tops = [
        number for number, folder in enumerate(around) if (folder / ".git").exists()
    ]
    return around[: tops[0] + 1] if tops else around[:1]


def _locked(folder: Path) -> Version | None:
    """The newest release in a lock file, which may have several for several Pythons."""
    for name in _LOCKS:
        document = _toml(folder / name)
        packages = document.get("package", document.get("packages"))
        rows = packages if isinstance(packages, list) else []
        texts = [
            row.get("version")
            for row in rows
            if isinstance(row, dict) and row.get("name") == "jax"
        ]
        versions = [parse_version(text) for text in texts if isinstance(text, str)]
        known = [version for version in versions if version is not None]
        if known:
            return max(known)
    return None


def _allowed(requirements: Iterable[SpecifierSet]) -> Version | None:
    """The newest release that all allow; where none is (they are for different machines), that any allows."""
    specs = list(requirements)
    if not specs:
        return None
    for among in (all, any):
        for release in _RELEASES:
            if among(spec.contains(release, prereleases=True) for spec in specs):
                return parse_version(release)
    # what is pinned lies between the releases above, or before them
    pins = [
        parse_version(one.version)
        for spec in specs
        for one in spec
        if one.operator in ("==", "~=", "<=", "<")
    ]
    known = [pin for pin in pins if pin is not None]
    return max(known) if known else None


def _required(folder: Path) -> Iterator[SpecifierSet]:
    """Every requirement of JAX itself in the files of one folder."""
    for text in _texts(folder):
        spec = _specifier(text) if _MENTION.search(text) else None
        if spec is not None:
            yield spec


def _specifier(text: str) -> SpecifierSet | None:
    """What a requirement (PEP 508) asks of JAX; None if it is about something else."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        requirement = Requirement(text.split(" #")[0].strip())
    except InvalidRequirement:
        return None
    return (
        requirement.specifier
        if canonicalize_name(requirement.name) == "jax" and not requirement.url
        else None
    )


def _texts(folder: Path) -> Iterator[str]:
    """Texts that may be requirements, from every file in which a project states them."""
    yield from _of_pyproject(_toml(folder / "pyproject.toml"))
    for path in sorted(
        [*folder.glob("*requirements*.txt"), *folder.glob("requirements/*.txt")]
    ):
        yield from _read(path).splitlines()
    setup = configparser.ConfigParser(interpolation=None)
    try:
        setup.read_string(_read(folder / "setup.cfg"))
    except configparser.Error:  # not ours to report
        setup.clear()
    for section in setup.values():
        for value in section.values():
            yield from value.splitlines()
    yield from _literals(_read(folder / "setup.py"))


def _of_pyproject(document: Mapping[str, Any]) -> Iterator[str]:
    project, tool = _table(document, "project"), _table(document, "tool")
    yield from _strings(project.get("dependencies"))
    for group in (
        _table(project, "optional-dependencies"),
        _table(document, "dependency-groups"),
    ):
        yield from _strings(list(group.values()))
    uv = _table(tool, "uv")
    for key in ("dev-dependencies", "constraint-dependencies", "override-dependencies"):
        yield from _strings(uv.get(key))
    poetry = _table(tool, "poetry")
    groups = [
        _table(group, "dependencies")
        for group in _table(poetry, "group").values()
        if isinstance(group, dict)
    ]
    for table in (
        _table(poetry, "dependencies"),
        _table(poetry, "dev-dependencies"),
        *groups,
    ):
        stated = table.get("jax")
        constraint = stated.get("version") if isinstance(stated, dict) else stated
        if isinstance(constraint, str):
            yield f"jax{_pep440(constraint)}"


def _pep440(constraint: str) -> str:
    """Poetry's ``^0.4.30`` and ``~0.4`` in the operators that all tools know."""
    parts = []
    for part in constraint.split(","):
        text = part.strip()
        version = parse_version(text.lstrip("^~=")) or ()
        if text in ("", "*"):
            continue
        if text[0] == "^" and version:
            kept = (
                next(
                    (i for i, number in enumerate(version) if number), len(version) - 1
                )
                + 1
            )
            parts += [f">={text[1:]}", f"<{_raised(version[:kept])}"]
        elif text[0] == "~" and text[1:2] != "=" and version:
            parts += [f">={text[1:]}", f"<{_raised(version[:2])}"]
        else:
            parts.append(f"=={text}" if text[0].isdigit() else text)
    return ",".join(parts)


def _raised(version: Version) -> str:
    return ".".join(map(str, (*version[:-1], version[-1] + 1)))


def _literals(program: str) -> Iterator[str]:
    """The strings of a setup.py."""
    try:
        tree = ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from node.value.splitlines()


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _strings(value: object) -> Iterator[str]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, str):
            yield item
        else:
            yield from _strings(item)


def _toml(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError:  # whoever needs that file says so
        return {}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
