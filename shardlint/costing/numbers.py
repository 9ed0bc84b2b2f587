"""Numbers as the options of ``shardlint cost`` give them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from shardlint import messages
from shardlint.config import ConfigError

_BYTES = re.compile(r"(\d+(?:\.\d+)?) *(?:([kmgt])(i)?)?b?", re.IGNORECASE)
_PREFIXES = "kmgt"


def parsed_sizes(text: str) -> dict[str, int]:
    """``B=32,M=4096``. Raises ``ConfigError``."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        name = name.strip()
        number = number.strip()
        is_number = number.isascii() and number.isdecimal()
        if not name.isidentifier() or not is_number or int(number) < 1:
            text = messages.bad_sizes(text)
            raise ConfigError("--sizes", text)
        sizes[name] = int(number)
    return sizes


def parsed_bytes(text: str) -> int:
    """``64KiB``, ``1.5GB`` or ``4096``. Raises ``ConfigError``."""
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        text = messages.bad_bytes(text)
        raise ConfigError("--max-replicated", text)
    number, prefix, binary = match.groups()
    unit = 1
    if prefix is not None:
        base = 1000 if binary is None else 1024
        power = _PREFIXES.index(prefix.lower()) + 1
        unit = base**power
    return int(float(number) * unit)


def known_mesh(mesh: Mapping[str, int | None]) -> dict[str, int]:
    """A mesh whose axes all have sizes. Raises ``ConfigError``."""
    if not mesh:
        text = messages.no_mesh()
        raise ConfigError("", text)
    sizes = {}
    for axis, size in mesh.items():
        if size is None:
            text = messages.axis_without_size(axis)
            raise ConfigError("--mesh", text)
        sizes[axis] = size
    return sizes
