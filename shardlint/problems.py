"""Work that could not be done: while there is some, no finding does not mean that there is none."""

from __future__ import annotations

from shardtypes.lang.frozen import frozen


@frozen
class Problem:
    """``text`` is the whole sentence. ``path`` is the file or folder that it is about, as it is printed, None where
    there is none; ``is_setting`` tells that an option or a settings file cannot be used, so that nothing was
    checked."""

    text: str
    path: str | None = None
    is_setting: bool = False

    def __str__(self) -> str:
        return self.text
