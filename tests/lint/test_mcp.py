"""The server for coding agents: the official client, and the server in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import TextContent

import shardlint
from shardlint import messages
from shardlint.mcp_server.serving import make_server
from shardlint.rules import rule
from shardlint.rules.pages import page
from tests.support import run, run_python

pytestmark = [pytest.mark.once, pytest.mark.long]

MODEL = """
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.sharding import PartitionSpec as P
    from shardtypes import f32, typed_shard_map


    def norm(x: f32["B/d L M"], scale: f32["M"]) -> f32["B/d L M"]:
        return x / jnp.sqrt(jnp.mean(x * x, axis=-1)) * scale


    @typed_shard_map
    def wrong(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M"]:
        return lax.psum(jnp.tanh(x @ w), "t")


    @typed_shard_map
    def right(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M"]:
        out = lax.psum(x @ w, "t")
        print("no answer")
        return jnp.tanh(out)


    def helper(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M"]:
        return lax.psum(x @ w, "t")


    class Plain:
        @staticmethod
        def product(x, w):
            specs = (P("d", "t"), P("t"))
            return jax.shard_map(jnp.matmul, in_specs=specs, out_specs=P("d"), check_vma=False)(x, w)
"""
SETTINGS = "mesh = { d = 2, t = 4 }\nextend-exclude = ['old.py']\nevaluate = false\n"


class Agent:
    """Calls tools as an agent does."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def told(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured answer."""
        found = await self.client.call_tool(tool, arguments)
        assert not found.is_error, found.content
        assert isinstance(found.structured_content, dict)
        return found.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Why there is no answer."""
        found = await self.client.call_tool(tool, arguments)
        assert found.is_error
        (content,) = found.content
        assert isinstance(content, TextContent)
        return content.text.removeprefix(f"Error executing tool {tool}: ")


def ask(
    folder: Path, script: Callable[[Agent], Awaitable[None]], *arguments: str
) -> None:
    """Start a server in a folder, follow the script, and end it."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "shardlint", "mcp", *arguments],
        cwd=folder,
        env=dict(os.environ),
    )

    async def session() -> None:
        async with Client(stdio_client(server)) as client:
            await script(Agent(client))

    asyncio.run(session())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL).lstrip())
    (tmp_path / "shardlint.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "model.py").read_text().splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if text in line]
    return found


def test_the_tools_say_what_they_do(folder: Path) -> None:
    async def script(agent: Agent) -> None:
        tools = {tool.name: tool for tool in (await agent.client.list_tools()).tools}
        assert set(tools) == {"check", "explain", "types_at", "prove"}
        for name, tool in tools.items():
            assert tool.annotations is not None
            runs = name == "prove"
            assert tool.annotations.read_only_hint is not runs
            assert (tool.description or "").startswith("RUNS CODE: ") is runs
            assert tool.output_schema is not None
            assert tool.output_schema["type"] == "object"
            assert tool.input_schema["additionalProperties"] is False
            for about in tool.input_schema["properties"].values():
                assert about["description"]
        assert "ended\nafter `seconds`" in (tools["prove"].description or "")
        assert "`prove` runs" in (agent.client.instructions or "")

    ask(folder, script)


def test_a_check_finds_what_the_linter_does(folder: Path) -> None:
    """Files, a text that is not saved, and what was not read."""
    (folder / "old.py").write_text("x = (\n")
    text = "def f(a, b):\n    return a.at[0].set(b)\n\nx = ("

    async def script(agent: Agent) -> None:
        whole = await agent.told("check")
        expected = shardlint.check_paths(["."])
        found = [asdict(replaced(one)) for one in expected.findings]
        plain = json.loads(json.dumps(found))  # tuples are lists there
        assert whole["findings"] == plain
        assert {one["code"] for one in plain} == {"ST204", "ST301"}
        assert whole["findings"][0]["url"].endswith("/rules/ST204/")
        assert (whole["files"], whole["more"], whole["not_read"]) == (1, 0, [])
        assert whole["left_out"] == [str(folder / "old.py")]

        first = await agent.told("check", paths=["model.py", "gone.py"], most=1)
        assert first["findings"] == plain[:1]
        assert first["more"] == len(plain) - 1
        assert first["not_read"] == [messages.gone("gone.py")]

        unsaved = await agent.told("check", text=text, path="new.py")
        (found,) = unsaved["findings"]
        place = (found["path"], found["line"], found["column"])
        assert (found["code"], *place) == ("ST902", "new.py", 4, 5)

        no_rules = await agent.told("check", settings={"select": ["ST3"]})
        assert {one["code"] for one in no_rules["findings"]} == {"ST301"}
        said = await agent.refused("check", settings={"slect": ["ST3"]})
        assert "unknown key 'slect'" in said
        assert "did you mean 'select'?" in said

    ask(folder, script)


def test_one_file_is_named_as_a_list_of_them_is(folder: Path) -> None:
    (folder / "other.py").write_text("x = (\n")

    async def script(agent: Agent) -> None:
        one = await agent.told("check", path="other.py")
        assert one == await agent.told("check", paths=["other.py"])
        assert [found["code"] for found in one["findings"]] == ["ST902"]
        both = await agent.told("check", path="other.py", paths=["model.py"])
        assert both["files"] == 2
        said = await agent.refused("check", text="x = 1\n", paths=["model.py"])
        assert said == messages.text_and_paths()

    ask(folder, script)


def test_arguments_for_the_same_have_one_name(folder: Path) -> None:
    """A file is a path, in all tools; of a function it is named before it, as on the command line."""
    tools = asyncio.run(make_server(sys.executable).list_tools())
    names = {tool.name: list(tool.input_schema["properties"]) for tool in tools}
    assert names == {
        "check": ["paths", "text", "path", "settings", "most"],
        "explain": ["code"],
        "types_at": ["path", "line", "column", "text"],
        "prove": ["function", "mesh", "examples", "sizes", "grad", "moves", "seconds"],
    }


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        (
            "check",
            {"pths": ["model.py"]},
            "check has no argument 'pths': did you mean 'paths'? Its arguments are paths, text, path, settings, most",
        ),
        (
            "explain",
            {"code": "ST301", "verbose": True},
            "explain has no argument 'verbose'. Its arguments are code",
        ),
        (
            "types_at",
            {"path": "model.py"},
            "types_at needs 'line': from 1 on",
        ),
        (
            "types_at",
            {"path": ["model.py"], "line": 0, "column": "x"},
            "'path' must be a text, got ['model.py']; 'line' must be a whole number from 1 on, got 0; "
            "'column' must be a whole number from 1 on, got 'x'",
        ),
        (
            "check",
            {"paths": "model.py", "settings": 3},
            "'paths' must be a list, each a text, got 'model.py'; 'settings' must be an object, got 3",
        ),
        (
            "prove",
            {"function": "model.py::right", "sizes": {"B": "x"}, "seconds": 4000},
            "'sizes' must be an object, each a whole number, got {'B': 'x'}; "
            "'seconds' must be a whole number from 1 to 3600, got 4000",
        ),
        (
            "prove",
            {"function": "model.py::right", "grad": "perhaps"},
            "'grad' must be true or false, got 'perhaps'",
        ),
        (
            "lint",
            {},
            "there is no tool 'lint': the tools are check, explain, types_at, prove",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    folder: Path, tool: str, arguments: dict[str, Any], said: str
) -> None:
    """In our words; nothing is checked, and no program runs."""

    async def session() -> str:
        async with Client(make_server(sys.executable)) as client:
            return await Agent(client).refused(tool, **arguments)

    assert asyncio.run(session()) == said


def replaced(found: shardlint.Finding) -> Any:
    """A finding whose sizes are a plain dict, which ``asdict`` can copy."""
    from dataclasses import replace

    related = [asdict(one) for one in found.related]
    return replace(found, witness=dict(found.witness), related=related)  # type: ignore[arg-type]  # as JSON has it


def test_a_fix_comes_with_its_edits(folder: Path) -> None:
    text = "import jax\nx = 1  # shardlint: ignore[ST201]\n"

    async def script(agent: Agent) -> None:
        found = await agent.told("check", text=text)
        (finding,) = found["findings"]
        assert (finding["code"], finding["fix"]["applicability"]) == ("ST901", "safe")
        (edit,) = finding["fix"]["edits"]
        assert edit == {
            "line": 2,
            "column": 8,
            "end_line": 2,
            "end_column": 34,
            "replacement": "",
        }

    ask(folder, script)


def test_the_page_of_a_rule(folder: Path) -> None:
    about = rule("ST301")
    assert about is not None

    async def script(agent: Agent) -> None:
        for name in ("ST301", "st301", "pending-sum-used"):
            found = await agent.told("explain", code=name)
            assert found["page"] == page(about)
            assert found["url"].endswith("/rules/ST301/")
        assert await agent.refused("explain", code="ST999") == messages.unknown_rule(
            "ST999"
        )

    ask(folder, script)


ARRAYS = """
import jax
import jax.numpy as jnp
from shardtypes import bf16, f32, i4


def product(x: bf16["8/d 32/t"], y: bf16["32/t M"], z: i4["B 6"]):
    out = x @ y
    return out + x[0, 0], x, z, unknown(x)
"""


def test_what_is_known_at_a_place(folder: Path) -> None:
    """Sizes, axes, the part of each device and bytes, of saved and unsaved text."""

    async def script(agent: Agent) -> None:
        line = line_of(folder, "return jnp.tanh(out)")
        column = len("    return jnp.tanh(o")
        found = await agent.told("types_at", path="model.py", line=line, column=column)
        (out,) = found["names"]
        assert out == {
            "name": "out",
            "line": line,
            "column": column,
            "type": "float32['B/d M']",
            "why": None,
            "sizes": ["B", "M"],
            "sharding": [["d"], []],
            "pending": [],
            "local": "float32['B//2 M']",
            "bytes": "4*B*M",
            "local_bytes": "4*M*(B//2)",
        }
        assert found["note"] is None

        def at(line: int, column: int | None = None) -> Awaitable[dict[str, Any]]:
            given = {"path": "new.py", "line": line, "text": ARRAYS}
            if column is not None:
                given["column"] = column
            return agent.told("types_at", **given)

        names = {one["name"]: one for one in (await at(9))["names"]}
        x = names["x"]
        assert (x["bytes"], x["local_bytes"]) == (8 * 32 * 2, 8 * 32 * 2 // 8)
        assert x["local"] == "bfloat16['4 8']"
        assert names["z"]["bytes"] == "3*B"
        nothing = await at(9, 1)
        assert nothing["names"] == []
        assert nothing["note"].startswith("no name is here; on this line there are out")
        empty = await at(1)
        assert empty["note"] == messages.nothing_there([])

        half_typed = ARRAYS + "\n\ndef later(:\n    pass\n"
        found = await agent.told("types_at", path="new.py", line=8, text=half_typed)
        assert [one["name"] for one in found["names"]] == ["out", "x", "y"]
        assert "line 12 does not parse" in found["note"]

        assert (
            "no such file"
            in (await agent.refused("types_at", path="gone.py", line=1)).lower()
        )
        notebook = await agent.refused("types_at", path="a.ipynb", line=1)
        assert notebook == messages.no_python("a.ipynb")

    ask(folder, script)


def test_programs_are_proved_and_refuted(folder: Path) -> None:
    """With arrays of the annotations, inside of shard_map where that is meant, and with examples."""

    async def script(agent: Agent) -> None:
        refuted = await agent.told("prove", function="model.py::wrong", mesh="d=2,t=4")
        assert (refuted["verdict"], refuted["agrees"]) == ("refuted", False)
        culprit = refuted["culprit"]
        assert Path(culprit["file"]) == folder / "model.py"
        assert culprit["line"] == line_of(folder, "lax.psum(jnp.tanh(x @ w)")
        assert "partial sum over 't'" in culprit["message"]
        difference = refuted["numbers"]
        assert difference["path"] == "result"
        assert float(difference["on_devices"]) != float(difference["on_one"])
        names = refuted["names"]
        assert len(set(names.values())) == 3
        batch, inner, outer = (names[name] for name in "BFM")
        assert (batch % 2, inner % 4) == (0, 0)
        assert refuted["arguments"] == {
            "x": [f"f32[{batch}, {inner}]"],
            "w": [f"f32[{inner}, {outer}]"],
        }

        sizes = {"B": 4, "F": 8, "M": 3}
        for name in ("right", "helper"):
            proved = await agent.told(
                "prove",
                function=f"model.py::{name}",
                mesh="d=2,t=4",
                sizes=sizes,
                grad=True,
                moves=True,
            )
            assert proved["verdict"] == "proved", proved
            assert (proved["names"], proved["mesh"]) == (sizes, {"d": 2, "t": 4})
            assert any("4/d, 8/t" in row[1] for row in proved["moves"])

        examples = "array(8, 16), array(16, 8)"
        product = {"function": "model.py::Plain.product", "mesh": "d=2,t=4"}
        found = await agent.told("prove", **product, examples=examples)
        assert found["verdict"] == "refuted"
        assert "call lax.psum(…, 't')" in found["culprit"]["message"]
        named = "{'x': jnp.ones((8, 16)), 'w': array(16, 8)}"
        again = await agent.told("prove", **product, examples=named)
        assert again["culprit"] == found["culprit"]
        assert again["arguments"] == {"x": ["f32[8, 16]"], "w": ["f32[16, 8]"]}

    ask(folder, script)


def test_what_cannot_be_proved_says_why(folder: Path) -> None:
    (folder / "bad.py").write_text(
        "import jax\n\ndef f(x):\n    return x.reshape(7)\n\n"
        "if jax.device_count() != 8:\n    raise ValueError('devices')\n"
    )
    (folder / "broken.py").write_text("import no_such_module\n")

    async def script(agent: Agent) -> None:
        async def refused(function: str, **more: Any) -> str:
            return await agent.refused("prove", function=function, **more)

        assert await refused("model.py") == messages.no_function_named("model.py")
        assert "has no 'rigt'; it has right" in await refused("model.py::rigt")
        assert "parameter 'x' has no annotation" in await refused("bad.py::f")
        raised = await refused("bad.py::f", examples="array(8)")
        assert raised.startswith("TypeError: cannot reshape")
        assert raised.endswith(f"({folder / 'bad.py'}:4)")
        broken = await refused("broken.py::f")
        missing = "ModuleNotFoundError: No module named 'no_such_module'"
        assert broken == f"{missing} ({folder / 'broken.py'}:1)"

    ask(folder, script)


def test_a_program_that_takes_too_long_is_ended(folder: Path) -> None:
    """With the processes that it has started."""
    (folder / "slow.py").write_text(
        "import os, pathlib, subprocess, sys, time\n"
        "code = 'import time; time.sleep(600)'\n"
        "child = subprocess.Popen([sys.executable, '-c', code])\n"
        "pathlib.Path('pids.part').write_text(f'{os.getpid()} {child.pid}')\n"
        "os.replace('pids.part', 'pids')\n"
        "time.sleep(600)\n"
    )
    started = folder / "pids"

    async def script(agent: Agent) -> None:
        seconds = 1
        while not started.exists():  # a busy machine may not come so far in that time
            seconds *= 2
            slow = await agent.refused("prove", function="slow.py::f", seconds=seconds)
            assert slow == messages.out_of_time(seconds)
        explained = await agent.told("explain", code="ST301")
        assert explained["code"] == "ST301"

    ask(folder, script)
    for pid in started.read_text().split():
        assert ends(int(pid))


def ends(pid: int) -> bool:
    """Whether a process that was killed is gone, or waits for its parent to ask."""
    for _ in range(300):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_another_interpreter_runs_the_programs(folder: Path, tmp_path: Path) -> None:
    """One without shardtypes says what it lacks; one that is not there, too."""
    bare = folder / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)

    async def script(agent: Agent) -> None:
        said = await agent.refused("prove", function="model.py::right")
        assert "pip install 'shardtypes[jax]'" in said
        assert "No module named 'shardtypes'" in said

    ask(folder, script, "--python", str(bare))

    async def gone(agent: Agent) -> None:
        said = await agent.refused("prove", function="model.py::right")
        assert said.startswith(f"{folder / 'gone'} cannot be started: ")

    ask(folder, gone, "--python", str(folder / "gone"))


def test_without_the_package_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from shardlint.cli import main; sys.exit(main(['mcp']))"
    done = run_python("-c", code, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip() == f"shardlint: {messages.no_mcp('mcp.server')}"
    assert "pip install 'shardtypes[mcp]'" in done.stderr


def test_the_version_tells_whether_it_can_be_started() -> None:
    done = run([sys.executable, "-m", "shardlint", "mcp", "--version"])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("shardlint ")
