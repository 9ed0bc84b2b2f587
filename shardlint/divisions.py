"""``Float[Array, "b t d/h"]``: jaxtyping has no axes, so the name after a slash may be a size of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DIVISOR = re.compile(r"/([^\W\d]\w*)")


def is_division(rest: str, texts: Iterable[str]) -> bool:
    """Whether a jaxtyping shape goes on with ``/name``, and the name stands as a size in one of the file's texts: that
    is a division, which fits where nothing is left over."""
    name = _DIVISOR.match(rest)
    return name is not None and any(name[1] in text.split() for text in texts)
