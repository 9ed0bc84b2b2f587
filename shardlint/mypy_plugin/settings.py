"""What the plugin takes from ``[tool.shardlint]``: the mesh, and which rules are off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mypy.options import Options

from shardlint.config import Config, ConfigError, find
from shardlint.selection import Selection, known_codes


@dataclass(frozen=True)
class Settings:
    """The settings of a run. ``problem`` is why they could not be read, None where they could."""

    selection: Selection
    problem: str | None = None

    @property
    def key(self) -> str:
        """Whatever the messages depend on: it changes when a cached result no longer holds."""
        config = self.selection.config
        return repr(
            (
                sorted(config.mesh.items()),
                sorted(self.selection.codes),
                config.per_file_ignores,
            )
        )

    def on(self, code: str, path: str) -> bool:
        """Is the rule of this code reported in this file?"""
        return code not in known_codes() or self.selection.on(
            code, Path(path).absolute()
        )


def read_settings(options: Options) -> Settings:
    """The settings that are in force where mypy's own configuration lies, or else in the current directory."""
    folders = (
        [Path(options.config_file).absolute().parent] if options.config_file else []
    )
    config = Config()
    for folder in (*folders, Path.cwd()):
        try:
            config = find(folder)
        except ConfigError as error:
            return Settings(
                Selection.of(Config()), f"{error.where}: error: {error.message}"
            )
        if config.source is not None:
            break
    return Settings(Selection.of(config))
