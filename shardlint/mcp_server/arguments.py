"""The arguments of a call of a tool: what is wrong with them is said in our words, with the names that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, Tool
from pydantic import ValidationError

from shardlint import messages

_KINDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "object": "an object",
    "string": "a text",
}


class Server(MCPServer[Any]):
    """The library's own leaves out arguments that it does not know, and tells of others in the words of pydantic."""

    async def list_tools(self) -> list[Tool]:
        """The tools, with schemas that admit no other argument."""
        tools = await super().list_tools()
        for tool in tools:
            tool.input_schema["additionalProperties"] = False
        return tools

    async def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        context: Context[Any, Any] | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Raises ``ToolError`` for a tool or an argument that there is not, and for a value that it does not take."""
        tools = await self.list_tools()
        schemas = {tool.name: tool.input_schema for tool in tools}
        if name not in schemas:
            raise ToolError(messages.unknown_tool(name, schemas))
        _require_known(name, arguments, schemas[name])
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            wrong = "; ".join(_wrong(error.__cause__, arguments, schemas[name]))
            raise ToolError(wrong) from None


def _require_known(
    tool: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> None:
    known = schema["properties"]
    for name in arguments:
        if name not in known:
            raise ToolError(messages.unknown_argument(tool, name, known))
    for name in schema.get("required", ()):
        if name not in arguments:
            about = known[name]["description"]
            raise ToolError(messages.missing_argument(tool, name, about))


def _wrong(
    error: ValidationError, arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[str]:
    """A sentence for each argument whose value is not one that it takes."""
    places = [found["loc"][0] for found in error.errors()]
    for name in dict.fromkeys(map(str, places)):
        wanted = " or ".join(_kinds(schema["properties"][name]))
        yield messages.wrong_argument(name, wanted, arguments.get(name))


def _kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    """What a value may be, by the JSON schema; without null, which stands for no argument."""
    for one in schema.get("anyOf", ()):
        yield from _kinds(one)
    kind = _KINDS.get(schema.get("type", ""))
    if kind is None:
        return
    items = schema.get("items", schema.get("additionalProperties"))
    if isinstance(items, dict):
        inside = " or ".join(_kinds(items))
        kind = f"{kind}, each {inside}"
    if "maximum" in schema:
        kind = f"{kind} from {schema['minimum']} to {schema['maximum']}"
    elif "minimum" in schema:
        kind = f"{kind} from {schema['minimum']} on"
    yield kind
