"""Which files can have a finding at all, by their text alone.

Every finding starts from a library that shardlint knows, so from a file that names one, or that imports from such a
file. Names are matched as whole words anywhere in the text: too many files are kept, never too few.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_WORD = re.compile(rb"[A-Za-z_]\w*")
LIBRARIES = frozenset(
    name.encode()
    for name in ("jax", "shardtypes", "jaxtyping", "einops", "flax", "equinox", "typeguard", "shardlib", "numpy")
)
_PACKAGE_IMPORT = re.compile(rb"from\s+\.+\s+import|import\s*\*|import_module|__import__|importlib")


def relevant(sources: Mapping[str, tuple[str, bytes]]) -> set[str]:
    """The keys of those files (key -> module name, text) that can have findings."""
    words = {key: frozenset(_WORD.findall(text)) for key, (_, text) in sources.items()}
    kept = {
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
