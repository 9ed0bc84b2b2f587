"""The options of the commands that check, and the settings that they make."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from shardlint import config as configuration
from shardlint import messages
from shardlint.config import Config, ConfigError
from shardlint.jax_version import Version, parse_version
from shardlint.option_parser import OptionParser, one_of, parsed
from shardlint.render import FORMATS
from shardlint.render.style import CHOICES
from shardlint.selection import require_known


def check_options(arguments: list[str]) -> argparse.Namespace:
    """The options of a check."""
    return parsed(check_parser(), list(map(_with_value, arguments)))


def check_parser() -> OptionParser:
    """What reads the options of a check."""
    parser = OptionParser(
        prog="shardlint",
        usage="shardlint [COMMAND] [OPTION ...] [PATH ...]",
        description="Check shapes, dtypes and shardings of JAX code without running it.",
        epilog=messages.end_of_help(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--version", action="store_true", help="print the version, and check nothing")
    add(
        "--explain",
        nargs="+",
        metavar="CODE",
        help="print the documentation of rules, and check nothing",
    )
    _add_what_is_checked(parser)
    _add_how_it_is_shown(parser)
    _add_what_is_changed(parser)
    add(
        "--with-dependents",
        action="store_true",
        help="check the files of the project that use these files, too",
    )
    add(
        "--without-dependents",
        action="store_false",
        dest="with_dependents",
        help="check these files alone: undoes --with-dependents",
    )
    add(
        "--no-baseline",
        action="store_true",
        help="hide no findings, whatever the settings say",
    )
    add(
        "--since",
        metavar="REV",
        help="only findings that this revision, such as origin/main, has not; also A...HEAD, A..HEAD",
    )
    parser.add_argument_group("commands", messages.commands_of_help())
    return parser


_COST_FORMATS = ("text", "json")


def baseline_options(arguments: list[str]) -> argparse.Namespace:
    """The options of ``shardlint baseline``."""
    return parsed(baseline_parser(), arguments)


def baseline_parser() -> OptionParser:
    """What reads the options of ``shardlint baseline``."""
    parser = OptionParser(
        prog="shardlint baseline",
        description=messages.COMMANDS["baseline"],
    )
    _add_what_is_checked(parser)
    return parser


def annotate_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``shardlint annotate``."""
    return annotate_parser().parse_args(arguments)


def annotate_parser() -> OptionParser:
    """What reads the options of ``shardlint annotate``."""
    parser = OptionParser(
        prog="shardlint annotate",
        description="Write the annotations that functions lack, as far as what they do proves them.",
        epilog="A PATH is a file, a folder, or FILE::FUNCTION. Exit status: 0; 1 where annotated code has findings "
        "that it did not have; 2 the work could not be done.",
    )
    _add_what_is_checked(parser)
    parser.add_argument(
        "--diff",
        action="store_true",
        help="print what would change in the files, and leave them alone",
    )
    parser.set_defaults(
        format="full",
        output_file=None,
        color="auto",
        statistics=False,
        show_types=False,
        no_evaluate=True,  # numbers do not depend on annotations
    )
    return parser


_FORMS = ("short", "array", "annotated")


def convert_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``shardlint convert``."""
    return parsed(convert_parser(), arguments)


def convert_parser() -> OptionParser:
    """What reads the options of ``shardlint convert``."""
    parser = OptionParser(
        prog="shardlint convert",
        description="Write the annotations of arrays in another form that means the same: f32['B M'], "
        "f32[Array, 'B M'], or Annotated[Array, f32['B M']]. Nothing is checked or run.",
        epilog="Exit status: 0; 2 the work could not be done, or not in all files.",
    )
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        metavar="PATH",
        help="files and folders (default: the current folder)",
    )
    add(
        "--to",
        type=one_of(_FORMS),
        choices=_FORMS,
        required=True,
        help="the form",
    )
    add(
        "--diff",
        action="store_true",
        help="print what would change in the files, and leave them alone",
    )
    _add_config(parser)
    add(
        "--exclude",
        metavar="PATTERNS",
        help="not these files and folders either, comma-separated, as in .gitignore",
    )
    add(
        "--force-exclude",
        action="store_true",
        help="leave out what is excluded even where it is named itself",
    )
    add(
        "--no-respect-gitignore",
        action="store_true",
        help="convert what a .gitignore leaves out as well",
    )
    add(
        "-q",
        "--quiet",
        action="store_true",
        help="say only what could not be done",
    )
    # settings that change no form
    parser.set_defaults(
        select=None,
        ignore=None,
        baseline=None,
        jax_version=None,
        mesh=None,
        no_evaluate=True,
        jobs=1,
    )
    return parser


def cost_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``shardlint cost``."""
    return parsed(cost_parser(), arguments)


def cost_parser() -> OptionParser:
    """What reads the options of ``shardlint cost``."""
    parser = OptionParser(
        prog="shardlint cost",
        description="Print how many bytes each device holds of a function's arguments and results, and how many its "
        "collectives send, by its annotations. Nothing is run.",
        epilog="Exit status: 0; 1 where an array is too large and whole, or more is held or sent than before; 2 the "
        "work could not be done.",
    )
    add = parser.add_argument
    add(
        "function",
        metavar="FILE::FUNCTION",
        help="the function, as in model.py::loss or model.py::Model.step",
    )
    add(
        "--mesh",
        metavar="AXES",
        help="the mesh, such as d=8,t=4 (default: that of the settings)",
    )
    add(
        "--sizes",
        metavar="SIZES",
        help="numbers for the sizes that annotations name, such as B=32,M=4096",
    )
    add(
        "--format",
        type=one_of(_COST_FORMATS),
        choices=_COST_FORMATS,
        default="text",
        help="how it is printed (default: text)",
    )
    add(
        "--max-replicated",
        metavar="SIZE",
        help="exit with 1 if an array of more bytes, such as 64MiB, is held whole on each device",
    )
    add("--write", metavar="FILE", help="write the cost to a file, as JSON")
    add(
        "--against",
        metavar="FILE",
        help="print what has changed since --write, and exit with 1 if more is held or sent",
    )
    _add_config(parser)
    _add_release(parser)
    # settings that change no cost
    parser.set_defaults(
        select=None,
        ignore=None,
        exclude=None,
        baseline=None,
        force_exclude=False,
        no_respect_gitignore=False,
        no_evaluate=True,
        jobs=1,
    )
    return parser


SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
"""The shells for which `shardlint completion` has a script."""

_OPTIONAL_VALUE = "--add-ignore"


def _with_value(argument: str) -> str:
    """An option whose value may be left out takes none of the paths after it."""
    return f"{argument}=" if argument == _OPTIONAL_VALUE else argument


def server_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``shardlint server``: those that are settings. An open file is left out where the settings exclude
    it. One process: what is open is small, and it is waited for by one user."""
    return parsed(server_parser(), arguments)


def server_parser() -> OptionParser:
    """What reads the options of ``shardlint server``."""
    parser = OptionParser(
        prog="shardlint server",
        description=messages.COMMANDS["server"],
    )
    _add_version_of_server(parser)
    _add_settings(parser)
    parser.set_defaults(force_exclude=True, jobs=1)
    return parser


def completion_parser() -> OptionParser:
    """What reads the options of ``shardlint completion``."""
    parser = OptionParser(
        prog="shardlint completion",
        description=messages.COMMANDS["completion"],
    )
    parser.add_argument("shell", type=one_of(SHELLS), choices=SHELLS, help="the shell")
    return parser


def explain_parser() -> OptionParser:
    """What reads the options of ``shardlint explain``."""
    parser = OptionParser(
        prog="shardlint explain", description=messages.COMMANDS["explain"]
    )
    parser.add_argument(
        "codes", nargs="+", metavar="CODE", help="a code such as ST301, or a name"
    )
    return parser


def rules_parser() -> OptionParser:
    """What reads the options of ``shardlint rules``."""
    return OptionParser(prog="shardlint rules", description=messages.COMMANDS["rules"])


def schema_parser() -> OptionParser:
    """What reads the options of ``shardlint schema``."""
    from shardlint.schemas import NAMES

    parser = OptionParser(
        prog="shardlint schema",
        description=messages.COMMANDS["schema"],
    )
    parser.add_argument(
        "name",
        type=one_of(NAMES),
        choices=NAMES,
        nargs="?",
        default="findings",
        help="what it is the schema of: of what --format json prints (default), of the settings, of a baseline",
    )
    return parser


def mcp_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of ``shardlint mcp``."""
    return parsed(mcp_parser(), arguments)


def mcp_parser() -> OptionParser:
    """What reads the options of ``shardlint mcp``."""
    parser = OptionParser(
        prog="shardlint mcp",
        description=messages.COMMANDS["mcp"],
    )
    _add_version_of_server(parser)
    parser.add_argument(
        "--python",
        metavar="PATH",
        help="the interpreter that runs programs for `prove` (default: that of shardlint)",
    )
    return parser


def _add_version_of_server(parser: OptionParser) -> None:
    parser.add_argument(
        "--version",
        action="store_true",
        help="print the version if the server can be started, and serve nobody",
    )


def _add_what_is_checked(parser: OptionParser) -> None:
    add = parser.add_argument
    add(
        "paths",
        nargs="*",
        metavar="PATH",
        help="files and folders (default: the current folder)",
    )
    _add_settings(parser)
    add(
        "--force-exclude",
        action="store_true",
        help="leave out what is excluded even where it is named itself",
    )
    add(
        "--jobs",
        type=_jobs,
        metavar="N",
        help="processes to use (default: one per core)",
    )
    add("--no-cache", action="store_true", help="neither read nor write the cache")
    add("--traceback", action="store_true", help="show where shardlint itself failed")
    add(
        "-q",
        "--quiet",
        action="store_true",
        help="print the findings, and nothing about the run",
    )


def _add_config(parser: OptionParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help="a pyproject.toml or shardlint.toml to use"
    )


def _add_release(parser: OptionParser) -> None:
    parser.add_argument(
        "--jax-version",
        type=_release,
        metavar="RELEASE",
        help="the release of JAX that the program is for",
    )


def _add_settings(parser: OptionParser) -> None:
    add = parser.add_argument
    _add_config(parser)
    add(
        "--select",
        metavar="CODES",
        help="only these rules: codes or beginnings of codes, comma-separated",
    )
    add("--ignore", metavar="CODES", help="not these rules")
    add(
        "--exclude",
        metavar="PATTERNS",
        help="not these files and folders either, comma-separated, as in .gitignore",
    )
    add(
        "--no-respect-gitignore",
        action="store_true",
        help="check what a .gitignore leaves out as well",
    )
    add(
        "--baseline",
        metavar="FILE",
        help="the file of findings that are hidden (`shardlint baseline` writes it)",
    )
    _add_release(parser)
    add("--mesh", metavar="AXES", help="the mesh, such as d=2,t=4")
    add(
        "--no-evaluate",
        action="store_true",
        help="run no code in numbers on other numbers of devices (ST316)",
    )


def _add_how_it_is_shown(parser: OptionParser) -> None:
    add = parser.add_argument
    add(
        "--format",
        type=one_of(FORMATS),
        choices=FORMATS,
        default="full",
        help="how findings are printed (default: full)",
    )
    add(
        "--output-file",
        metavar="FILE",
        help="write the findings to a file, not to standard output",
    )
    add(
        "--color",
        type=one_of(CHOICES),
        choices=CHOICES,
        default="auto",
        help="colours and links: on a terminal (default), always, never",
    )
    add(
        "--watch",
        action="store_true",
        help="check again after each change, until interrupted",
    )
    add(
        "--show-types",
        action="store_true",
        help="print the inferred type of every local",
    )
    add(
        "--stdin-filename",
        metavar="PATH",
        help="check standard input as if it were the text of this file",
    )
    add(
        "--statistics",
        action="store_true",
        help="print how often each rule reports, and what was not followed",
    )
    add(
        "--exit-zero",
        action="store_true",
        help="exit with 0 even if there are findings",
    )


def _add_what_is_changed(parser: OptionParser) -> None:
    add = parser.add_argument
    add("--fix", action="store_true", help="apply safe fixes to the files")
    add("--unsafe-fixes", action="store_true", help="apply all fixes to the files")
    add(
        "--diff",
        action="store_true",
        help="print what would change in the files, and leave them alone",
    )
    add(
        _OPTIONAL_VALUE,
        nargs="?",
        metavar="=REASON",
        help="write a comment that silences it for each finding of now",
    )


def settings_of(options: argparse.Namespace) -> Callable[[Path], Config]:
    """The settings in force in a folder, with those of the command line in place of theirs.

    Raises:
        ConfigError: an option or a settings file that cannot be used.
    """
    select, ignore = _codes(options.select), _codes(options.ignore)
    require_known(select or (), "--select")
    require_known(ignore or (), "--ignore")
    mesh = _mesh(options.mesh)
    baseline = _absolute(options.baseline)
    path = _absolute(options.config)
    given = configuration.load(path) if path is not None else None

    @cache
    def settings(folder: Path) -> Config:
        config = given if given is not None else configuration.find(folder)
        return config.with_options(
            select=select,
            ignore=(*config.ignore, *ignore) if ignore else None,
            extend_exclude=(*config.extend_exclude, *_listed(options.exclude))
            if options.exclude
            else None,
            force_exclude=True if options.force_exclude else None,
            respect_gitignore=False if options.no_respect_gitignore else None,
            mesh=mesh,
            jax_version=options.jax_version,
            evaluate=False if options.no_evaluate else None,
            jobs=options.jobs,
            baseline=baseline,
        )

    return settings


def without_baseline(settings: Callable[[Path], Config]) -> Callable[[Path], Config]:
    """The same settings, with nothing hidden."""
    return lambda folder: replace(settings(folder), baseline=None)


def _mesh(text: str | None) -> dict[str, int | None] | None:
    try:
        return configuration.parse_mesh(text) if text else None
    except ValueError as error:
        raise ConfigError("--mesh", str(error)) from None


def _absolute(path: str | None) -> Path | None:
    return Path(os.path.abspath(path)) if path else None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _codes(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else _listed(text)


def _jobs(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(
            f"a number of processes (0: one per core), got {text!r}"
        )
    return int(text)


def _release(text: str) -> Version:
    found = parse_version(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"a release of JAX such as 0.10.2, got {text!r}"
        )
    return found
