"""How long the language server takes from a change to what it says of it, in processor time.

Usage: ``python -m benchmarks.server_latency [--edits 15]``. Each row edits one function of one open file; a server is
started for each and spoken to over its protocol. ``at once`` is the median of what checking the changed function and
those that use it takes, measured in this process, and ``server`` the mean of what the server's process takes for a
change, reading and writing of the protocol included. ``after a pause`` is what the run over everything that is open
takes; it has a process of its own and ends with the next keystroke.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

from shardlint.server.checking import Request, answer
from shardlint.server.documents import Document, Snapshot
from shardlint.server.quick import Session

_HEAD = """\
import jax
import jax.numpy as jnp
from shardtypes import f32
"""
_BLOCK = '''

def helper{index}(x, w):
    """Not annotated: evaluated where it is called."""
    y = x @ w
    return jnp.tanh(y)


def block{index}(x: f32["B L M"], w: f32["M F"], v: f32["F M"]) -> f32["B L M"]:
    """A block, with a norm and a gate."""
    hidden = jnp.einsum("blm,mf->blf", x, w)
    mean = jnp.mean(hidden, axis=-1, keepdims=True)
    centred = hidden - mean
    scale = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-6)
    active = jax.nn.gelu(centred * scale)
    out = active @ v
    total = out + helper{index}(x, w) @ v
    if x.shape[0] > 4:
        total = total + {call}
    return total + x
'''
_EDITED = "active = jax.nn.gelu(centred * scale"
#: Blocks that call each other, before the next begin anew.
_DEPTH = 6


def program(lines: int, imported: str = "") -> str:
    """A file of about so many lines."""
    size = _BLOCK.count("\n")
    text = _HEAD + imported
    for index in range(max(1, lines // size)):
        call = f"block{index - 1}(x, w, v)" if index % _DEPTH else "x"
        text += _BLOCK.format(index=index, call=call)
    return text


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=15)
    options = parser.parse_args()
    print(f"{'':24}{'at once':>10}{'server':>10}{'after a pause':>16}")
    for lines in (200, 1_000, 4_000):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "model.py")
            _row(f"{lines:,} lines", path, program(lines), options.edits)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pyproject.toml").write_text("[tool.shardlint]\n")
        for index in range(500):
            other = f"from part{index - 1} import block0 as other\n" if index else ""
            (folder / f"part{index}.py").write_text(program(60, other))
        path = folder / "part499.py"
        _row("200 lines, 500 files", path, program(200, other), options.edits)


def _row(name: str, path: Path, text: str, edits: int) -> None:
    path.write_text(text)
    at_once = statistics.median(_at_once(path, text, edits))
    server = asyncio.run(_server(path, text, edits))
    start = time.process_time()
    answer(Request({path: text + "\n"}, evaluate=False))
    pause = time.process_time() - start
    print(f"{name:24}{at_once * 1e3:8.0f}ms{server * 1e3:8.0f}ms{pause * 1e3:14.0f}ms")


def _at_once(path: Path, text: str, edits: int) -> list[float]:
    document = Document(path, text, 0)
    session = Session.begin(path, Snapshot.of(document.units), {})
    assert session is not None
    found = []
    for version in range(1, edits + 2):
        changed = _edited(text, version)
        start = time.process_time()
        document.change(changed, version)
        fresh = session.check(document.units)
        assert fresh is not None and fresh.numbers
        document.take(fresh.snapshot, fresh.results, fresh.numbers)
        list(document.findings())
        found.append(time.process_time() - start)
    return found[1:]


async def _server(path: Path, text: str, edits: int) -> float:
    client = LanguageClient("editor", "1")
    published: asyncio.Queue[int | None] = asyncio.Queue()

    @client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def told(params: lsp.PublishDiagnosticsParams) -> None:
        published.put_nowait(params.version)

    async def until(version: int) -> None:
        while await published.get() != version:
            pass

    def change(version: int) -> None:
        whole = lsp.TextDocumentContentChangeWholeDocument(_edited(text, version))
        about = lsp.VersionedTextDocumentIdentifier(version, path.as_uri())
        client.text_document_did_change(lsp.DidChangeTextDocumentParams(about, [whole]))

    await client.start_io(
        sys.executable, "-m", "shardlint", "server", cwd=str(path.parent)
    )
    assert client._server is not None
    process = client._server.pid
    await client.initialize_async(
        lsp.InitializeParams(lsp.ClientCapabilities(), root_uri=path.parent.as_uri())
    )
    client.initialized(lsp.InitializedParams())
    item = lsp.TextDocumentItem(path.as_uri(), "python", 0, text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
    await until(0)
    version, quiet = 1, 0
    while quiet < 3:  # until it is ready, and idle
        before = _used(process)
        await asyncio.sleep(1)
        quiet = quiet + 1 if _used(process) == before else 0
    before = _used(process)
    for version in range(1, edits + 1):
        change(version)
        await until(version)
    used = (_used(process) - before) / edits
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
    return used


def _edited(text: str, version: int) -> str:
    """The text with a function changed in a way that is another one each time."""
    half = text.rindex(_EDITED, 0, len(text) // 2 + len(_BLOCK))
    end = half + len(_EDITED)
    return f"{text[:end]} * {version}.0{text[end:]}"


def _used(process: int) -> float:
    """Seconds of the processor, of one process without its children."""
    fields = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
