"""``shardlint convert``: what it writes and prints, and the exit status."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shardlint import decoding, messages
from shardlint.converting.files import convert
from shardlint.discovery import Discovery, shown
from shardlint.options import convert_options, settings_of
from shardlint.syntax import UnparsableFile
from shardlint.whole_files import write_whole
from shardlint.writing import say


@dataclass
class _Run:
    """Converts files, or shows how they would change."""

    form: str
    is_difference: bool
    count: int = 0
    files: int = 0
    notebooks: int = 0
    problems: list[str] = field(default_factory=list)

    def convert(self, path: Path) -> None:
        """One file. What cannot be done is a problem, and leaves it alone."""
        if path.suffix == ".ipynb":
            self.notebooks += 1
            return
        name = shown(path)
        try:
            source = path.read_bytes()
            encoding = decoding.encoding_of(source)
            text = source.decode(encoding)
            made = convert(text, self.form, name)
            encoded = made.text.encode(encoding)
        except OSError as error:
            reason = error.strerror or str(error)
            self.problems.append(messages.cannot_be_read(name, reason))
            return
        except (SyntaxError, UnicodeDecodeError) as error:
            self.problems.append(f"{name}: {messages.decode(str(error))}")
            return
        except UnicodeEncodeError as error:
            self.problems.append(messages.not_encodable(name, error.encoding))
            return
        except UnparsableFile as error:
            self.problems.append(str(error))
            return
        for one in made.refusals:
            problem = messages.not_converted(name, one.line, one.column, one.text)
            self.problems.append(problem)
        if made.text == text:
            return
        if self.is_difference:
            _show(name, text, made.text)
        elif not self._write(path, encoded):
            return
        self.count += made.count
        self.files += 1

    def _write(self, path: Path, data: bytes) -> bool:
        try:
            write_whole(path, data)
        except OSError as error:
            reason = error.strerror or str(error)
            self.problems.append(messages.not_written(shown(path), reason))
            return False
        return True


def run_convert(arguments: Sequence[str]) -> int:
    """The command. 0; 2 where the work could not be done, or not in all files.

    Raises:
        ConfigError: options or settings that cannot be used.
    """
    options = convert_options(arguments)
    run = _Run(options.to, options.diff)
    discovery = Discovery(settings_of(options))
    for path in discovery.files(options.paths or ["."]):
        run.convert(path)
    problems: Iterable[object] = [*discovery.problems, *run.problems]
    say(problems)
    if not options.quiet:
        if run.notebooks:
            say([messages.notebooks_stay(run.notebooks)])
        say([messages.converted(run.count, run.files, options.diff)])
    return 2 if problems else 0


def _show(name: str, before: str, after: str) -> None:
    first = decoding.lines(before, keepends=True)
    second = decoding.lines(after, keepends=True)
    difference = difflib.unified_diff(first, second, f"a/{name}", f"b/{name}")
    sys.stdout.writelines(difference)
