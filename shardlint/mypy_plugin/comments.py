"""``# shardlint: ignore[ST201] reason`` comments count in mypy, too."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from shardlint.suppress import suppressions_in


def ignored(rule: str, path: str, lines: range) -> bool:
    """Whether a comment of the file covers one of these lines for a rule of the linter."""
    try:
        status = Path(path).stat()
    except OSError:  # code from the command line has no file
        return False
    return any(
        rule in codes and line in lines
        for line, codes in _read(path, status.st_mtime_ns, status.st_size)
    )


@lru_cache(maxsize=64)
def _read(
    path: str, changed: int, size: int
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """The lines that comments cover, with the codes; ``changed`` and ``size`` tell the versions of a file apart."""
    comments = suppressions_in(Path(path).read_bytes())
    return tuple((comment.covers, comment.codes) for comment in comments)
