"""Which files can have a finding at all, by their text alone.

Every finding starts from a library that shardlint knows, so from a file that names one, or that imports from such a
file. Names are matched as whole words anywhere in the text: too many files are kept, never too few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

_WORD = re.compile(rb"[A-Za-z_]\w*")
LIBRARIES = frozenset(
    name.encode()
    for name in (
        "jax",
        "shardtypes",
        "jaxtyping",
        "einops",
        "flax",
        "equinox",
        "typeguard",
        "shardlib",
        "numpy",
    )
)
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import|import[ \t]+([^\n#;]+))", re.MULTILINE
)
_PACKAGE_IMPORT = re.compile(
    rb"from\s+\.+\s+import|import\s*\*|import_module|__import__|importlib"
)


def relevant(
    sources: Mapping[str, tuple[str, bytes]], outside: Set[str] = frozenset()
) -> set[str]:
    """The keys of those files (key -> module name, text) that can have findings.

    ``outside`` are those that import files whose text is not among ``sources``; they are kept.
    """
    words = {key: frozenset(_WORD.findall(text)) for key, (_, text) in sources.items()}
    kept = set(outside) | {
        key
        for key, (_, text) in sources.items()
        if words[key] & LIBRARIES or not text.isascii() or _PACKAGE_IMPORT.search(text)
    }
    fresh = set(kept)
    while fresh:
        names = {sources[key][0].rpartition(".")[2].encode() for key in fresh}
        fresh = {key for key in sources if key not in kept and words[key] & names}
        kept |= fresh
    return kept


def imported_names(text: bytes) -> list[str]:
    """The module names in the import statements of a text, leading dots included; too many rather than too few."""
    found = []
    for origin, names in _IMPORT.findall(text):
        for part in [origin] if origin else names.replace(b"\\", b"").split(b","):
            name = part.split()[0] if part.split() else b""
            found.append(name.decode("ascii", "replace"))
    return found
