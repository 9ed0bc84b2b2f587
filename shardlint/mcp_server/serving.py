"""The tools, and the server that has them on standard input and output."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Annotated, Any, TypeAlias, TypeVar

from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field, TypeAdapter

from shardlint import messages
from shardlint.addresses import DOCUMENTATION, rule_page
from shardlint.mcp_server.answers import Checked, Explained, Proved, Typed
from shardlint.mcp_server.arguments import Server
from shardlint.mcp_server.processes import NoAnswer, ask, with_this_program
from shardlint.rules import all_rules, rule
from shardlint.rules.pages import page

T = TypeVar("T")

_INSTRUCTIONS = """\
Shapes, dtypes and shardings of JAX programs, checked without running them. After each change of code that computes
with JAX arrays call `check` with the files that changed: a finding is certain, and one about shapes has sizes for which
the program fails. `explain` has the page of a rule, with its repair. `types_at` tells what an array is at a line, and
what each device has of it. `prove` runs a function's file, and tells whether the function computes on a mesh of devices
what it computes on one. Shape strings are written `f32['batch/d embed/t']`: dimensions by name, with the mesh axes
behind a slash.
"""
_READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_RUNS = ToolAnnotations(read_only_hint=False, open_world_hint=True)
_DEVICES = 8
_DEVICES_FLAG = "--xla_force_host_platform_device_count"

# --- what agents read about the parameters ------------------------------------------------------------------------

_Paths: TypeAlias = Annotated[
    list[str] | None,
    Field(
        description="files and folders; without `paths`, `path` and `text` all of the working folder"
    ),
]
_Text: TypeAlias = Annotated[
    str | None, Field(description="the text of the file, where it is not saved yet")
]
_OnePath: TypeAlias = Annotated[
    str | None,
    Field(
        description="one file or folder; with `text` the path of that, which decides on settings and imports and need "
        "not exist"
    ),
]
_Settings: TypeAlias = Annotated[
    dict[str, Any] | None,
    Field(
        description="the table [tool.shardlint], such as {'mesh': {'d': 2, 't': 4}}; by default the settings nearest "
        "to each file"
    ),
]
_Most: TypeAlias = Annotated[
    int, Field(description="list at most so many findings", ge=1)
]
_Code: TypeAlias = Annotated[
    str, Field(description="a code such as ST301, or a name such as pending-sum-used")
]
_Path: TypeAlias = Annotated[
    str, Field(description="a Python file; with `text` it need not exist")
]
_Line: TypeAlias = Annotated[int, Field(description="from 1 on", ge=1)]
_Column: TypeAlias = Annotated[
    int | None,
    Field(description="from 1 on; by default every name of the line is told", ge=1),
]
_Function: TypeAlias = Annotated[
    str, Field(description="file and function: model.py::loss, model.py::Model.step")
]
_Mesh: TypeAlias = Annotated[
    str | None,
    Field(
        description="axes with their sizes, such as d=2,t=4; by default the mesh that the function holds"
    ),
]
_Examples: TypeAlias = Annotated[
    str | None,
    Field(
        description="the arguments as a Python expression, evaluated in the function's module: a tuple, a dict of "
        "arguments by name, or the only argument. array(8, 16) and array(8, dtype='int32') stand for arrays; jax, jnp "
        "and np are known. By default arrays are made from the annotations of shardtypes"
    ),
]
_Sizes: TypeAlias = Annotated[
    dict[str, int] | None,
    Field(
        description="sizes of the names in annotations, such as {'B': 8}, where no examples are given"
    ),
]
_Grad: TypeAlias = Annotated[
    bool, Field(description="compare the gradients of the results as well")
]
_Moves: TypeAlias = Annotated[
    bool, Field(description="tell how the arrays move over the mesh, line by line")
]
_Seconds: TypeAlias = Annotated[
    int, Field(description="the time that it may take", ge=1, le=3600)
]

# --- the server ---------------------------------------------------------------------------------------------------


def serve(interpreter: str | None) -> None:
    """Answer one client on standard input and output until it is gone. ``interpreter`` runs programs for ``prove``;
    None is that of the server."""
    make_server(interpreter or sys.executable).run("stdio")


def make_server(interpreter: str) -> Server:
    """The server with its tools."""
    server = Server(
        "shardlint",
        instructions=_INSTRUCTIONS,
        website_url=DOCUMENTATION,
        version=version("shardtypes"),
        log_level="WARNING",
    )

    async def prove(
        function: _Function,
        mesh: _Mesh = None,
        examples: _Examples = None,
        sizes: _Sizes = None,
        grad: _Grad = False,
        moves: _Moves = False,
        seconds: _Seconds = 120,
    ) -> Proved:
        """RUNS CODE: imports the file of the function and traces the function, in a process of its own that is ended
        after `seconds`.

        Tells whether a function that maps over devices (shard_map, pmap, vmap with axis names) computes on a mesh what
        the same program computes on one device: proved for all arguments of these shapes, refuted by numbers with the
        line where it begins, or could not tell. No devices are needed; JAX sees forced CPU devices. A function that
        takes annotated arrays needs no examples.
        """
        file, _, name = function.partition("::")
        if not file or not name:
            raise ToolError(messages.no_function_named(function))
        question = {
            "file": file,
            "function": name,
            "mesh": mesh,
            "examples": examples,
            "sizes": sizes or {},
            "grad": grad,
            "moves": moves,
        }
        command = [interpreter, "-m", "shardtypes.proving.named_function"]
        return await _answer(Proved, command, question, _on_devices(), seconds)

    _add(server, check, Checked, _READS)
    _add(server, explain, Explained, _READS)
    _add(server, types_at, Typed, _READS)
    _add(server, prove, Proved, _RUNS)
    return server


def _add(
    server: Server,
    tool: Callable[..., Awaitable[object]],
    answer: type[object],
    hints: ToolAnnotations,
) -> None:
    """A tool, described by its own docstring and that of what it answers."""
    description = f"{inspect.getdoc(tool)}\n\nThe answer: {inspect.getdoc(answer)}"
    server.add_tool(
        tool, description=description, annotations=hints, structured_output=True
    )


async def check(
    paths: _Paths = None,
    text: _Text = None,
    path: _OnePath = None,
    settings: _Settings = None,
    most: _Most = 50,
) -> Checked:
    """Check JAX code for wrong shapes, dtypes and shardings, without running or importing it: files and folders, or one
    text as that of a file.

    Each finding has its code, message, place, the address of the rule's page, and a fix where there is one. What could
    not be read is in `not_read`.
    """
    asked = list(paths or ())
    if text is not None and asked:
        raise ToolError(messages.text_and_paths())
    if path is not None:
        asked.append(path)
    question = {
        "about": "check",
        "paths": asked or ["."],
        "text": text,
        "path": path or "source.py",
        "settings": settings,
        "most": most,
    }
    return await _linted(Checked, question)


async def explain(code: _Code) -> Explained:
    """The page of a rule: what it does, why that is bad, an example and its repair."""
    wanted = code.strip()
    found = rule(wanted.upper())
    if found is None:
        named = [one for one in all_rules() if one.name == wanted]
        if not named:
            raise ToolError(messages.unknown_rule(code))
        (found,) = named
    return Explained(found.code, found.name, page(found), rule_page(found.code))


async def types_at(
    path: _Path, line: _Line, column: _Column = None, text: _Text = None
) -> Typed:
    """What is known of the names on a line, or of the one at a column, without running the file: the shape with its
    sharding over mesh axes, what one device has of it, its bytes, or why nothing is known."""
    question = {
        "about": "types",
        "path": path,
        "line": line,
        "column": column,
        "text": text,
    }
    return await _linted(Typed, question)


async def _linted(kind: type[T], question: dict[str, Any]) -> T:
    # modules of the working folder are not ours
    command = [sys.executable, "-P", "-m", "shardlint.mcp_server.linting"]
    return await _answer(kind, command, question, with_this_program(os.environ))


async def _answer(
    kind: type[T],
    command: list[str],
    question: dict[str, Any],
    environment: dict[str, str],
    seconds: float | None = None,
) -> T:
    try:
        found = await ask(command, question, environment, seconds)
    except NoAnswer as error:
        raise ToolError(str(error)) from None
    return TypeAdapter(kind).validate_python(found)


def _on_devices() -> dict[str, str]:
    """The environment of a program on forced CPU devices."""
    flags = os.environ.get("XLA_FLAGS", "")
    if _DEVICES_FLAG not in flags:
        flags = f"{flags} {_DEVICES_FLAG}={_DEVICES}".strip()
    return {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags}
