"""An editor that speaks to any language server: it takes what comes as it comes, and judges nothing."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlparse

#: What JSON holds.
Json = Any

_TICK = 0.25

_KINDS = ["", "quickfix", "refactor", "refactor.rewrite", "source", "source.fixAll"]
_TOKENS = ["typeParameter", "enumMember", "event", "variable", "function", "class"]
_CAPABILITIES: Json = {
    "textDocument": {
        "callHierarchy": {},
        "codeAction": {
            "codeActionLiteralSupport": {"codeActionKind": {"valueSet": _KINDS}},
            "dataSupport": True,
            "resolveSupport": {"properties": ["edit"]},
        },
        "diagnostic": {},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "publishDiagnostics": {
            "dataSupport": True,
            "relatedInformation": True,
            "versionSupport": True,
        },
        "rename": {"prepareSupport": True},
        "semanticTokens": {
            "formats": ["relative"],
            "requests": {"full": True},
            "tokenModifiers": [],
            "tokenTypes": _TOKENS,
        },
        "synchronization": {"didSave": True},
        "typeHierarchy": {},
    },
    "notebookDocument": {"synchronization": {}},
    "workspace": {"configuration": True, "workspaceFolders": True},
}
#: Of editors that ask for findings: a server can tell them to ask anew.
_PULLING: Json = {"diagnostics": {"refreshSupport": True}}


class Refused(Exception):
    """A server answers a question with an error, or not at all."""


class Ended(Refused):
    """It does not run any more."""


@dataclass(frozen=True)
class Published:
    """What a server says of a document, and when that arrived, in seconds of ``time.perf_counter``. Many servers do not
    say of which version they speak."""

    arrived: float
    uri: str
    version: int | None
    findings: list[Json]


@dataclass
class Client:
    """A server in a folder, from its first answer on. Questions wait for their answer up to ``patience`` seconds; one
    that has used no time of the processor for ``still`` seconds has nothing left to do. With ``pulls`` it asks for
    findings itself, and may be told to ask anew."""

    command: Sequence[str]
    folder: Path
    preferences: Json = None
    settings: Mapping[str, Json] = field(default_factory=dict)
    patience: float = 60.0
    still: float = 2.0
    pulls: bool = False
    published: list[Published] = field(default_factory=list, init=False)
    offered: Json = field(default_factory=dict, init=False)
    release: str = field(default="", init=False)

    def __enter__(self) -> Client:
        """Start the server.

        Raises:
            Refused: it does not say what it can do.
        """
        self._process = subprocess.Popen(
            self.command,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input = self._process.stdin
        self._output = self._process.stdout
        self._arrived: queue.Queue[tuple[float, Json] | None] = queue.Queue()
        reading = (self._output, self._arrived)
        self._reader = threading.Thread(target=_read, args=reading, daemon=True)
        self._reader.start()
        self._asked = 0
        self._versions: dict[Path, int] = {}
        try:
            self._initialize()
        except Refused as error:
            self._end()
            raise Refused(f"{self.command[0]} does not start: {error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        """End it, as an editor does."""
        try:
            self.request("shutdown", None)
            self.notify("exit", None)
        except Refused:
            pass  # it has ended before, or is ended now
        self._end()

    def _initialize(self) -> None:
        uri = self.folder.as_uri()
        capabilities = dict(_CAPABILITIES)
        if self.pulls:
            workspace = capabilities["workspace"]
            capabilities["workspace"] = {**workspace, **_PULLING}
        answer = self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": uri,
                "workspaceFolders": [{"uri": uri, "name": self.folder.name}],
                "capabilities": capabilities,
                "initializationOptions": self.preferences,
            },
        )
        self.offered = answer["capabilities"]
        about = answer.get("serverInfo", {})
        self.release = about.get("version", "")
        self.notify("initialized", {})

    def _end(self) -> None:
        try:
            self._input.close()
        except BrokenPipeError:
            pass  # what it was not told it need not know
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._output.close()

    # --- messages ---------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Json) -> None:
        """Say something that is not answered."""
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Json) -> Json:
        """Ask, and wait for the answer.

        Raises:
            Refused: the answer is an error, the server ends, or nothing is said for so long.
        """
        self._asked += 1
        number = self._asked
        self._send({"id": number, "method": method, "params": params})
        until = time.perf_counter() + self.patience
        while time.perf_counter() < until:
            message = self._next(_TICK)
            if message is None or message.get("id") != number or "method" in message:
                continue
            if "error" in message:
                raise Refused(f"{method}: {message['error'].get('message')}")
            return message.get("result")
        raise Refused(f"{method}: no answer within {self.patience:.0f} s")

    def _send(self, message: Json) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        try:
            self._input.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self._input.flush()
        except BrokenPipeError:
            raise Ended("the server has ended") from None

    def _next(self, seconds: float) -> Json | None:
        """The next message, if one comes within so many seconds; what the server asks is answered, what it publishes
        is kept."""
        try:
            found = self._arrived.get(timeout=seconds)
        except queue.Empty:
            return None
        if found is None:
            raise Ended("the server has ended")
        arrived, message = found
        method = message.get("method")
        if method == "textDocument/publishDiagnostics":
            said = message["params"]
            one = Published(
                arrived, said["uri"], said.get("version"), said["diagnostics"]
            )
            self.published.append(one)
        elif method is not None and "id" in message:
            answer = self._answered(method, message.get("params"))
            self._send({"id": message["id"], "result": answer})
        return message

    def _answered(self, method: str, params: Json) -> Json:
        if method == "workspace/configuration":
            return [
                self.settings.get(one.get("section", "")) for one in params["items"]
            ]
        return None

    # --- documents --------------------------------------------------------------------------------------------------

    def open(self, path: Path, text: str) -> None:
        """Show a document."""
        self._versions[path] = 1
        item = {
            "uri": path.as_uri(),
            "languageId": "python",
            "version": 1,
            "text": text,
        }
        self.notify("textDocument/didOpen", {"textDocument": item})

    def change(self, path: Path, text: str) -> int:
        """Replace the text of a document; its version."""
        self._versions[path] += 1
        version = self._versions[path]
        about = {"uri": path.as_uri(), "version": version}
        changes = [{"text": text}]
        self.notify(
            "textDocument/didChange", {"textDocument": about, "contentChanges": changes}
        )
        return version

    def findings(self, path: Path) -> list[Json]:
        """What was last published of a document."""
        for one in reversed(self.published):
            if same_file(one.uri, path):
                return one.findings
        return []

    def settle(
        self, seconds: float, enough: Callable[[], bool] = lambda: False
    ) -> bool:
        """Listen until that is enough, or the server has nothing left to do; whether it came to that in time."""
        used = self.used()
        since = time.perf_counter()
        until = since + seconds
        while not enough():
            now = time.perf_counter()
            if now > until:
                return False
            if self._next(_TICK) is not None or self.used() != used:
                used = self.used()
                since = now
            elif now - since > self.still:
                break
        return True

    # --- the processes ----------------------------------------------------------------------------------------------

    def used(self) -> float:
        """Seconds of the processor, of the server and what it has started."""
        ticks = sum(_ticks(pid) for pid in _tree(self._process.pid))
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident(self) -> int:
        """Bytes of memory of the server and what it has started; what processes share is counted for each."""
        pages = sum(_pages(pid) for pid in _tree(self._process.pid))
        return pages * os.sysconf("SC_PAGE_SIZE")


def same_file(uri: str, path: Path) -> bool:
    """Whether a server means this file, however it writes its address."""
    return unquote(urlparse(uri).path) == str(path)


def _read(output: IO[bytes], arrived: queue.Queue[tuple[float, Json] | None]) -> None:
    """Pass on all messages of a server, with when they came; None when it has ended."""
    while True:
        length = 0
        line = output.readline()
        if not line:
            break
        while line.strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
            line = output.readline()
        body = output.read(length)
        if len(body) < length:
            break
        arrived.put((time.perf_counter(), json.loads(body)))
    arrived.put(None)


def _tree(root: int) -> Iterator[int]:
    """A process and all below it that run now."""
    yield root
    for children in Path("/proc", str(root), "task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:  # ended meanwhile
            continue
        for child in found:
            yield from _tree(int(child))


def _ticks(pid: int) -> int:
    """Of a process, and of those that it waited for."""
    try:
        text = Path("/proc", str(pid), "stat").read_text()
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15])


def _pages(pid: int) -> int:
    try:
        text = Path("/proc", str(pid), "statm").read_text()
    except OSError:
        return 0
    return int(text.split()[1])
