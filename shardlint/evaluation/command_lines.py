"""What a program is started with, and in which surroundings: it is run without arguments, so that every option has its
default."""

from __future__ import annotations

import argparse
import os.path
from collections.abc import Callable, Iterator
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK, Resolver, surroundings
from shardlint.evaluation.outside import provide
from shardlint.evaluation.python import Exit, methods, public

# --- argparse ---------------------------------------------------------------------------------------------------------

_TEXTS = frozenset(
    "prog usage description epilog formatter_class add_help fromfile_prefix_chars".split()
)


@provide("argparse.ArgumentParser")
class Parser(argparse.ArgumentParser):
    """A parser that is given no arguments: neither those of the linter nor any of the program's user."""

    def __init__(self, *texts: Any, **options: Any) -> None:
        known = {name: one for name, one in options.items() if name not in _TEXTS}
        super().__init__(prog="", add_help=False, **known)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        return super().parse_known_args([] if args is None else args, namespace)

    def error(self, message: str) -> Any:
        raise NotEvaluable(f"its command line: {message}")

    def exit(self, status: int = 0, message: str | None = None) -> Any:
        raise NotEvaluable("its command line ends it")


provide("argparse.Namespace")(argparse.Namespace)
provide("argparse.BooleanOptionalAction")(argparse.BooleanOptionalAction)

# --- absl -------------------------------------------------------------------------------------------------------------


class _Flags:
    """The flags of the program that is run, by name."""

    is_value = True

    def __call__(self, argv: Any = None, known_only: bool = False) -> list[str]:
        """Read a command line that has no flags."""
        return [""]


class _Flag:
    """What defines a flag: its name, with its value."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = self.default = value
        self.present = False


setattr(_Flag, MARK, True)
FLAGS = _Flags()


def _flag(flags: _Flags, name: str) -> Any:
    defined = surroundings().flags
    if name in defined:
        return defined[name]
    raise NotEvaluable(f"the flag {name}, which this program does not define")


def _define(name: str, default: Any, *help_: Any, **options: Any) -> _Flag:
    surroundings().flags[name] = default
    return _Flag(name, default)


provide("absl.flags.FLAGS")(FLAGS)
for _name in """string integer float bool boolean list multi_string multi_integer multi_float spaceseplist enum
                enum_class multi_enum""".split():
    provide(f"absl.flags.DEFINE_{_name}")(_define)


@provide("absl.app.run")
def _run_app(main: Callable[..., Any], argv: Any = None, **options: Any) -> None:
    main([""])


for _name in (
    "mark_flag_as_required",
    "mark_flags_as_required",
    "register_validator",
    "adopt_module_key_flags",
):
    provide(f"absl.flags.{_name}")(lambda *args, **options: None)

# --- tests ------------------------------------------------------------------------------------------------------------


def _run_tests(*args: Any, **options: Any) -> None:
    """A file that runs its tests is no program: these are functions by themselves."""
    raise Exit


for _name in (
    "unittest.main",
    "pytest.main",
    "absl.testing.absltest.main",
    "tensorflow.test.main",
    "tensorflow.compat.v1.test.main",
    "googletest.main",
):
    provide(_name)(_run_tests)

# --- others -----------------------------------------------------------------------------------------------------------


@provide("tyro.cli")
@provide("simple_parsing.parse")
@provide("fire.Fire")
@provide("jsonargparse.CLI")
def _call_with_defaults(
    function: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """Call a function, or make a dataclass, of which every parameter is an option."""
    return function()


# --- surroundings -----------------------------------------------------------------------------------------------------

provide("sys.argv")(("",))


@provide("sys.exit")
def _leave(*args: Any) -> None:
    raise Exit


provide("sys.version_info")((3, 12, 0, "final", 0))
for _name in ("join", "basename", "dirname", "splitext"):
    provide(f"os.path.{_name}")(getattr(os.path, _name))


class _Environment:
    """The variables of an environment that is empty but for what the program sets."""

    def __getitem__(self, name: str) -> str:
        return surroundings().variables[name]

    def __setitem__(self, name: str, value: str) -> None:
        surroundings().variables[name] = value

    def __contains__(self, name: str) -> bool:
        return name in surroundings().variables

    def __iter__(self) -> Iterator[str]:
        return iter(list(surroundings().variables))


def _of_environment(value: _Environment, name: str) -> Any:
    return public(surroundings().variables, name)


provide("os.environ")(_Environment())


@provide("os.getenv")
def _variable(name: str, default: Any = None) -> Any:
    return surroundings().variables.get(name, default)


def register(resolver: Resolver) -> None:
    """Attributes of parsers and of what they give."""
    table = resolver.of_type
    adding = "add_argument add_argument_group add_mutually_exclusive_group set_defaults"
    table[Parser] = methods(
        adding, "parse_args parse_known_args add_subparsers parse_intermixed_args"
    )
    table[argparse._ArgumentGroup] = methods(adding)
    table[argparse._SubParsersAction] = methods("add_parser")
    table[argparse.Action] = methods("dest default")
    table[argparse.Namespace] = public
    table[_Flags] = _flag
    table[_Environment] = _of_environment
