"""Speaks to a Jupyter server as JupyterLab does of a notebook, with Jupyter's own Python; writes what it was told: the
codes of diagnostics, and a hover."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import websocket  # which jupyter_server needs


def main(address: str, token: str) -> None:
    """Open the text of a notebook in the language server that the recipe names."""
    folder = Path.cwd()
    uri = (folder / ".virtual_documents" / "study.ipynb").as_uri()
    there = address.replace("http", "ws", 1)
    ws = websocket.create_connection(f"{there}lsp/ws/shardlint?token={token}")
    ws.settimeout(60)

    def say(method: str, params: object, number: int | None = None) -> None:
        message: dict[str, object] = {
            "jsonrpc": "2.0",
            "method": method,
            "params": params,
        }
        if number is not None:
            message["id"] = number
        ws.send(json.dumps(message))

    def until(is_it: Any) -> Any:
        while True:
            message = json.loads(ws.recv())
            if is_it(message):
                return message

    able = {"publishDiagnostics": {}, "hover": {"contentFormat": ["markdown"]}}
    editor = {
        "capabilities": {"textDocument": able},
        "rootUri": folder.as_uri(),
        "processId": None,
    }
    say("initialize", editor, 1)
    until(lambda one: one.get("id") == 1)
    say("initialized", {})
    document = {
        "uri": uri,
        "languageId": "python",
        "version": 1,
        "text": Path("model.py").read_text(encoding="utf-8"),
    }
    say("textDocument/didOpen", {"textDocument": document})

    wanted = set(os.environ["CODES"].split())

    def codes_in(message: Any) -> list[str]:
        params = message.get("params") or {}
        is_told = message.get("method") == "textDocument/publishDiagnostics"
        if not is_told or params["uri"] != uri:
            return []
        return [str(one.get("code")) for one in params["diagnostics"]]

    told = until(lambda one: wanted <= set(codes_in(one)))
    line = int(os.environ["HOVER_LINE"])
    column = int(os.environ["HOVER_COLUMN"])
    at = {"line": line, "character": column}
    say("textDocument/hover", {"textDocument": {"uri": uri}, "position": at}, 2)
    hover = until(lambda one: one.get("id") == 2)
    seen = {"codes": codes_in(told), "hover": str(hover.get("result"))}
    Path(os.environ["SEEN"]).write_text(json.dumps(seen), encoding="utf-8")
    ws.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
