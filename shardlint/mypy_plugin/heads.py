"""The names that make array types when they are subscripted, in one file: ``f32``, ``Array``, jaxtyping's ``Float``."""

from __future__ import annotations

import re
from pathlib import Path

from mypy.nodes import ImportAll, ImportFrom, MypyFile

from shardtypes.lang.array_names import JAXTYPING_DTYPES, SHARDTYPES_DTYPES

STACKING = "Array"
_JAXTYPING = "jaxtyping"
_WORDS = tuple(name.encode() for name in (*SHARDTYPES_DTYPES, STACKING))
_NAMES = b"|".join(_WORDS)
# Modules that are read as ours, or one of the names subscripted with a text or renamed in an import: after the word or,
# in parentheses, after other names at the beginning of a line. Prose like "the key as it is" makes no import.
_MENTION = re.compile(
    rb"\b(?:shardtypes|jaxtyping)\b"
    rb"|\b(?:" + _NAMES + rb")\s*\[\s*(?:[\w.]+\s*,\s*)?[rbRB]{0,2}['\"]"
    rb"|^(?:[^\n#'\"]*\bimport\b[^\n#'\"]*|(?:[\w \t]+,)*[ \t]*)\b(?:"
    + _NAMES
    + rb")[\s\\]+as[\s\\]+\w+\s*(?:[,);#\\]|$)",
    re.MULTILINE,
)
# What follows a name in all but the first of these: quick to find, where most files have none.
_FOLLOWS = re.compile(rb"\[\s*(?:[\w.]+\s*,\s*)?[rbRB]{0,2}['\"]|as[\s\\]")
_UNASKED = re.compile(rb"reveal_type|[)\]][\s\\]*(?:#[^\n]*\s*)*\(")
_BETWEEN = b" \t\r\n\f\v\\"
_FAR = 200


class Heads:
    """The names that subscript to an array type in one file, as its imports tell."""

    def __init__(self, file: MypyFile) -> None:
        self.direct: dict[str, str] = {}
        self.aliases: set[str] = set()
        self.any_import = bool(file.imports)
        star = False
        for node in file.imports:
            if isinstance(node, ImportFrom):
                for name, alias in node.names:
                    ours = name in SHARDTYPES_DTYPES or (
                        name == STACKING and not node.id.startswith("jax")
                    )
                    if ours or (node.id == _JAXTYPING and name in JAXTYPING_DTYPES):
                        self.direct[alias or name] = name
            elif isinstance(node, ImportAll):
                star = True
        if star:
            self.direct = {
                name: name for name in (*SHARDTYPES_DTYPES, STACKING)
            } | self.direct

    def kind(self, name: str) -> str | None:
        """The dtype class, or ``Array``, that a name or dotted name stands for."""
        module, _, last = name.rpartition(".")
        if module:
            known = (
                last in SHARDTYPES_DTYPES
                or (last == STACKING and module != "jax")
                or last in JAXTYPING_DTYPES
            )
            return last if known and self.any_import else None
        return self.direct.get(name)


def is_rewritten(path: str) -> bool:
    """Whether a source file may have array types, or asks for a type, of which another file's body may be what
    decides."""
    text = text_of(path)
    return b"reveal_type" in text or _mentions(text)


def may_hold_unasked(path: str) -> bool:
    """Whether a source file may ask for a type, or call what is the value of an expression: ``jit(f)(x)``."""
    text = text_of(path)
    return not text or _UNASKED.search(text) is not None


def mentions_annotations(path: str) -> bool:
    """Whether a source file may have array types; it may say yes too often, never no by mistake."""
    return _mentions(text_of(path))


def _mentions(text: bytes) -> bool:
    may = b"shardtypes" in text or b"jaxtyping" in text or _may_mention(text)
    return may and _MENTION.search(text) is not None


def _may_mention(text: bytes) -> bool:
    for found in _FOLLOWS.finditer(text):
        start = found.start()
        if text[max(0, start - _FAR) : start].rstrip(_BETWEEN).endswith(_WORDS):
            return True
    return False


def text_of(path: str) -> bytes:
    """What a source file holds; nothing where it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""  # mypy itself reports a file that cannot be read
