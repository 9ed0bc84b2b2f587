"""One server at work on a small project: texts are shown to it, and questions asked at places of them."""

from __future__ import annotations

import ast
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from benchmarks.servers.client import Client, Json, Refused, same_file
from benchmarks.servers.setups import Setup

MODEL = """\
import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P
from shardtypes import f32

MESH = AbstractMesh((2, 4), ("d", "t"), (AxisType.Auto, AxisType.Auto))


def gated(x: f32["B/d M"], w: f32["M F"]) -> f32["B/d F"]:
    hidden = x @ w
    active = jnp.tanh(hidden)
    return active


def row_parallel(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M"]:
    partial = x @ w
    total = jax.lax.psum(partial, "t")
    return total


def attention(scores: f32["H/t Q K"]) -> f32["H/t Q K"]:
    return jax.nn.softmax(scores, axis=2)


def on_devices(mesh: jax.sharding.Mesh):
    rows = jax.shard_map(
        row_parallel, mesh=mesh, in_specs=(P("d", "t"), P("t")), out_specs=P("d")
    )
    heads = jax.shard_map(attention, mesh=mesh, in_specs=P("t"), out_specs=P("t"))
    return rows, heads


def placed(x: f32["B/d M"]) -> f32["B/d M"]:
    held = jax.lax.with_sharding_constraint(x, NamedSharding(MESH, P("d", None)))
    return held


def biased(
    x: f32["B M"],
    w: f32["M N"],
    bias: f32["N"],
) -> f32["B N"]:
    return x @ w + bias


def normed(x: f32["B L"]) -> f32["B L"]:
    mean = jnp.mean(x, axis=1, keepdims=True)
    return x - mean


def dense(x: f32["B/d M"], w: f32["M F"]) -> f32["B/d F"]:
    return x @ w


def layer(a: f32["8/d 16"], b: f32["16 32"]) -> f32["8/d 32"]:
    result = dense(a, b)
    return result


def count_of(name: str) -> int:
    letters = len(name)
    return letters + 1


class Layer:
    def width(self) -> int:
        return 1


class Wide(Layer):
    def width(self) -> int:
        return 2
"""
#: A file that no editor has open.
OTHER = """\
from shardtypes import f32


def closed(x: f32["B M"], w: f32["F M"]) -> f32["B F"]:
    return x @ w
"""
#: How long a server may take to settle after a change, in seconds.
_SETTLES = 60.0
_FENCE = re.compile(r"```\w*")


@dataclass
class Desk:
    """Of one server. ``text`` is what it is shown of the open file now."""

    setup: Setup
    whole: bool = False
    patience: float = 20.0
    still: float = 2.0
    pulls: bool = False
    text: str = field(default="", init=False)

    def __enter__(self) -> Desk:
        """Start the server with the project open, and wait until it has nothing left to do.

        Raises:
            Refused: it does not start.
        """
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name).resolve()
        texts = {"model.py": MODEL, "other.py": OTHER}
        self.written = self.setup.prepare(self.folder, texts)["model.py"]
        self.path = self.folder / "model.py"
        self.text = self.written
        starting = self.setup.start(
            self.folder,
            whole=self.whole,
            patience=self.patience,
            still=self.still,
            pulls=self.pulls,
        )
        try:
            self.client: Client = starting.__enter__()
        except Refused:
            self._folder.cleanup()
            raise
        self.client.open(self.path, self.text)
        self.client.settle(_SETTLES)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.client.__exit__(kind, error, traceback)
        self._folder.cleanup()

    # --- texts ------------------------------------------------------------------------------------------------------

    def show(self, *changes: tuple[str, str]) -> None:
        """Type these changes, (old, new), into the text as it was at first, and wait."""
        text = self.written
        for old, new in changes:
            if old not in text:
                raise ValueError(f"the text has no {old!r}")
            text = text.replace(old, new, 1)
        self.show_text(text)

    def show_text(self, text: str) -> None:
        """Replace the whole text, and wait."""
        if text != self.text:
            self.text = text
            self.client.change(self.path, text)
            self.client.settle(_SETTLES)

    def findings(self) -> list[Json]:
        """What was last said of the text."""
        return self.client.findings(self.path)

    def new_findings(self, *changes: tuple[str, str]) -> list[Json]:
        """What is said after changes and not before; the changes keep the number of lines."""
        self.show()
        before = [_key(one) for one in self.findings()]
        self.show(*changes)
        return [one for one in self.findings() if _key(one) not in before]

    def tells_of(self, function: str, *changes: tuple[str, str]) -> bool:
        """Whether something is said of a function after changes that was not before."""
        found = self.new_findings(*changes)
        first, last = self.lines_of(function)
        return any(first <= one["range"]["start"]["line"] <= last for one in found)

    def lines_of(self, function: str) -> tuple[int, int]:
        """The first and last line of a function, from its decorators on."""
        head = self.at(f"def {function}(")["line"]
        text = self.text.splitlines()
        first = head
        while first and text[first - 1].startswith("@"):
            first -= 1
        last = head
        while last + 1 < len(text) and not re.match(r"[\w@]", text[last + 1]):
            last += 1
        return first, last

    def at(self, needle: str, offset: int = 0) -> Json:
        """The position so far behind the beginning of a piece of the text."""
        index = self.text.index(needle) + offset
        before = self.text[:index]
        line = before.count("\n")
        return {"line": line, "character": len(before) - (before.rfind("\n") + 1)}

    # --- questions --------------------------------------------------------------------------------------------------

    def ask(self, method: str, **params: Json) -> Json:
        """A question about the open file.

        Raises:
            Refused: it is not answered.
        """
        about = {"uri": self.path.as_uri()}
        return self.client.request(
            f"textDocument/{method}", {"textDocument": about, **params}
        )

    def ask_at(self, method: str, needle: str, offset: int = 0, **params: Json) -> Json:
        """A question about a place in it."""
        return self.ask(method, position=self.at(needle, offset), **params)

    def hover(self, needle: str, offset: int = 0) -> str:
        """The words of the hover there."""
        found = self.ask_at("hover", needle, offset)
        if not found:
            return ""
        return _FENCE.sub("", " ".join(_words(found["contents"])))

    def hints(self, function: str) -> list[str]:
        """The hints in a function."""
        first, last = self.lines_of(function)
        within = lines(first, last + 1)
        found = self.ask("inlayHint", range=within) or []
        return ["".join(_words(one["label"])) for one in found]

    def labels(self, needle: str, offset: int) -> list[Json]:
        """What is proposed there."""
        found = self.ask_at("completion", needle, offset, context={"triggerKind": 1})
        if isinstance(found, dict):
            found = found["items"]
        return found or []

    def places(self, answer: Json) -> list[tuple[int, str]]:
        """Of what an answer points to in the open file: lines, and the text that begins there."""
        if isinstance(answer, dict):
            answer = [answer]
        found = []
        for one in answer or []:
            uri = one.get("targetUri") or one["uri"]
            chosen = one.get("targetSelectionRange") or one["range"]
            if same_file(uri, self.path):
                start = chosen["start"]
                line = self.text.splitlines()[start["line"]]
                found.append((start["line"], line[start["character"] :]))
        return found

    def edits(self, answer: Json) -> list[tuple[int, int, str]]:
        """What an answer changes in the open file: from where to where in characters, and into what."""
        if not answer:
            return []
        changes = list((answer.get("changes") or {}).items())
        for one in answer.get("documentChanges") or []:
            if "textDocument" in one:
                changes.append((one["textDocument"]["uri"], one["edits"]))
        starts: list[int] = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))

        def offset(position: Json) -> int:
            line: int = min(position["line"], len(starts) - 1)
            character: int = position["character"]
            end = starts[min(line + 1, len(starts) - 1)]
            return min(starts[line] + character, max(end - 1, starts[line]))

        found = []
        for uri, edits in changes:
            if same_file(uri, self.path):
                for edit in edits:
                    start, end = edit["range"]["start"], edit["range"]["end"]
                    found.append((offset(start), offset(end), edit["newText"]))
        return sorted(found)

    def renamed(self, needle: str, offset: int, name: str) -> list[tuple[int, str]]:
        """What a rename replaces: lines, and the names that stood there."""
        answer = self.ask_at("rename", needle, offset, newName=name)
        found = []
        for start, end, _ in self.edits(answer):
            line = self.text.count("\n", 0, start)
            found.append((line, self.text[start:end].strip("'\"")))
        return found

    def applied(self, answer: Json) -> str:
        """The text with what an answer changes."""
        text = self.text
        for start, end, new in reversed(self.edits(answer)):
            text = text[:start] + new + text[end:]
        return text

    def actions(
        self, kind: str, within: Json, findings: Sequence[Json] = ()
    ) -> Iterator[Json]:
        """The edits that actions of a kind offer in a range, for findings if there are any."""
        context = {"diagnostics": list(findings), "only": [kind], "triggerKind": 1}
        found = self.ask("codeAction", range=within, context=context)
        for one in found or []:
            if not str(one.get("kind", "")).startswith(kind):
                continue
            if one.get("edit") is None and one.get("data") is not None:
                one = self.client.request("codeAction/resolve", one)
            if one.get("edit"):
                yield one["edit"]


def code(text: str) -> str | None:
    """A program without its comments; None if it does not parse."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:
        return None


def lines(first: int, last: int) -> Json:
    """The range from the beginning of a line to that of another."""
    return {
        "start": {"line": first, "character": 0},
        "end": {"line": last, "character": 0},
    }


def _words(contents: Json) -> list[str]:
    """Whatever form of text an answer chose."""
    if isinstance(contents, str):
        return [contents]
    if isinstance(contents, dict):
        return [contents["value"]]
    return [word for one in contents for word in _words(one)]


def _key(finding: Json) -> str:
    """A finding, to be told from others."""
    return json.dumps([finding["range"]["start"]["line"], finding["message"]])
