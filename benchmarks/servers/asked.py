"""What can be asked of a language server, each tried on a small project and decided by the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.servers.client import Ended, Json, Refused
from benchmarks.servers.desk import Desk, code, lines
from benchmarks.servers.setups import MESH

YES, NO = "yes", "no"


@dataclass(frozen=True)
class Row:
    """``check`` says yes, no, or in a few words what there is of it."""

    name: str
    check: Callable[[Desk], str]

    def ask(self, desk: Desk) -> str:
        """The cell of a server. What it refuses to answer it does not have.

        Raises:
            Ended: it does not run any more.
        """
        try:
            desk.show()
            return self.check(desk)
        except Ended:
            raise
        except Refused:
            return NO


def _said(good: object) -> str:
    return YES if good else NO


# --- findings -------------------------------------------------------------------------------------------------------

_WRONG_SHAPE = ("hidden = x @ w", "hidden = w @ x")
_WRONG_RESULT = ("return active", "return active.T")
_NO_PSUM = ('jax.lax.psum(partial, "t")', "partial")
_OTHER_AXIS = ("axis=2", "axis=0")
_NO_KEEPDIMS = (", keepdims=True", "")
_HALF_TYPED = ("active = jnp.tanh(hidden)", "active = jnp.tanh(")
_WRONG_TYPE = ("letters + 1", 'letters + "1"')


def _wrong_shape(desk: Desk) -> str:
    return _said(desk.tells_of("gated", _WRONG_SHAPE))


def _forgotten_psum(desk: Desk) -> str:
    told = desk.new_findings(_NO_PSUM)
    return _said(told)


def _sharded_softmax(desk: Desk) -> str:
    told = desk.new_findings(_OTHER_AXIS)
    return _said(told)


def _half_typed(desk: Desk) -> str:
    if not desk.tells_of("normed", _NO_KEEPDIMS):
        return NO
    return _said(desk.tells_of("normed", _NO_KEEPDIMS, _HALF_TYPED))


def _wrong_type(desk: Desk) -> str:
    return _said(desk.tells_of("count_of", _WRONG_TYPE))


def _pulled(desk: Desk) -> str:
    """By an editor that says that it can."""
    with Desk(desk.setup, pulls=True) as other:
        return _pulled_at(other)


def _pulled_at(desk: Desk) -> str:
    desk.show(_WRONG_SHAPE)
    first, last = desk.lines_of("gated")
    answer = desk.ask("diagnostic") or {}
    found = [one["range"]["start"]["line"] for one in answer.get("items", [])]
    return _said(any(first <= line <= last for line in found))


def _whole(desk: Desk) -> str:
    """Pulled or pushed, of a file that is not open."""
    for one in desk.client.published:
        if one.uri.endswith("/other.py") and one.findings:
            return YES
    answer = desk.client.request("workspace/diagnostic", {"previousResultIds": []})
    for one in (answer or {}).get("items", []):
        if one["uri"].endswith("/other.py") and one.get("items"):
            return YES
    return NO


def _notebook(desk: Desk) -> str:
    text = desk.written.replace(*_WRONG_SHAPE)
    head, rest = text.split("\n\n\n", 1)
    book = desk.folder / "book.ipynb"
    cells = []
    documents: list[Json] = []
    for index, source in enumerate((head, rest)):
        uri = f"vscode-notebook-cell:{book}#{index}"
        cells.append({"kind": 2, "document": uri})
        documents.append(
            {"uri": uri, "languageId": "python", "version": 1, "text": source}
        )
    written: Json = {
        "cells": [
            {
                "cell_type": "code",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": one["text"].splitlines(keepends=True),
            }
            for one in documents
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    book.write_text(json.dumps(written))
    shown = {
        "uri": book.as_uri(),
        "notebookType": "jupyter-notebook",
        "version": 1,
        "cells": cells,
    }
    params = {"notebookDocument": shown, "cellTextDocuments": documents}
    desk.client.notify("notebookDocument/didOpen", params)
    desk.client.settle(60)
    line = rest[: rest.index(_WRONG_SHAPE[1])].count("\n")
    for one in desk.client.published:
        if one.uri == documents[1]["uri"]:
            for finding in one.findings:
                if abs(finding["range"]["start"]["line"] - line) <= 2:
                    return YES
    return NO


# --- hover and hints ------------------------------------------------------------------------------------------------

_SHAPE = re.compile(r"\bB\S*[ ,]+F\b")
_SHARDED = re.compile(r"\bB[/|]d\b|P\('d'")
_LOCAL = re.compile(r"\b4[ ,]+32\b")


def _hover_shape(desk: Desk) -> str:
    return _said(_SHAPE.search(desk.hover("hidden)")))


def _hover_local(desk: Desk) -> str:
    return _said(_LOCAL.search(desk.hover("result\n")))


def _hover_bytes(desk: Desk) -> str:
    return _said(re.search(r"\b512 (bytes|B)\b", desk.hover("result\n")))


def _hint_shape(desk: Desk) -> str:
    return _said(any(_SHAPE.search(one) for one in desk.hints("gated")))


def _hint_sharding(desk: Desk) -> str:
    shown = [*desk.hints("gated"), *desk.hints("placed")]
    return _said(any(_SHARDED.search(one) for one in shown))


def _hover_type(desk: Desk) -> str:
    return _said(re.search(r"letters: int\b", desk.hover("letters =")))


def _signature(desk: Desk) -> str:
    answer = desk.ask_at("signatureHelp", "dense(a, b", len("dense(a, "))
    text = json.dumps(answer)
    if re.search(r"\b16\b", text) and re.search(r"\b32\b", text):
        return YES
    return "as declared" if re.search(r"\bM\W+F\b", text) else NO


def _titles(desk: Desk) -> str:
    titles = []
    for one in desk.ask("codeLens") or []:
        if one.get("command") is None:
            one = desk.client.request("codeLens/resolve", one)
        titles.append((one.get("command") or {}).get("title", ""))
    return "\n".join(titles)


def _lens_collectives(desk: Desk) -> str:
    return _said(re.search(r"psum|all[-_]reduce", _titles(desk)))


def _lens_shapes(desk: Desk) -> str:
    return _said(re.search(r"\bM\W+F\b", _titles(desk)))


# --- names in strings -----------------------------------------------------------------------------------------------

#: An annotation that all servers are given alike, and the dimension in it that is asked for.
_STRING = '"M F"'
_DIMENSION = _STRING.index("F")


def _complete_dimension(desk: Desk) -> str:
    desk.show((_STRING, '"M "'))
    found = desk.labels('"M "', len('"M '))
    return _said({"M", "F"} <= {one["label"] for one in found})


def _complete_axis(desk: Desk) -> str:
    typed = f'"M{desk.setup.behind or "/"}"'
    desk.show((_STRING, typed))
    found = desk.labels(typed, len(typed) - 1)
    return _said(set(MESH) <= {one["label"] for one in found})


def _definition(desk: Desk) -> str:
    found = desk.places(desk.ask_at("definition", _STRING, _DIMENSION))
    first, last = desk.lines_of("gated")
    return _said(
        any(first <= line <= last and text.startswith("F") for line, text in found)
    )


def _references(desk: Desk) -> str:
    context = {"includeDeclaration": True}
    answer = desk.ask_at("references", _STRING, _DIMENSION, context=context)
    found = desk.places(answer)
    return _of_one_function(desk, [(line, text[:1]) for line, text in found])


def _rename(desk: Desk) -> str:
    return _of_one_function(desk, desk.renamed(_STRING, _DIMENSION, "Width"))


def _of_one_function(desk: Desk, found: list[tuple[int, str]]) -> str:
    """Yes if the places are those of the dimension, which belongs to its function."""
    first, last = desk.lines_of("gated")
    own = [one for one in found if first <= one[0] <= last]
    if len(own) < 2 or any(name != "F" for _, name in found):
        return NO
    return YES if len(own) == len(found) else "in all functions alike"


def _rename_axis(desk: Desk) -> str:
    found = desk.renamed('partial, "t"', len('partial, "'), "model")
    head = desk.at("def row_parallel(")["line"]
    named = [line for line, name in found if name == "t"]
    if len(named) < len(found) or not named:
        return NO
    return YES if head in named else "in strings of its own"


def _tokens(desk: Desk) -> str:
    data = (desk.ask("semanticTokens/full") or {}).get("data", [])
    place = desk.at(_STRING)
    inside = range(place["character"] + 1, place["character"] + len(_STRING) - 1)
    line = column = 0
    for index in range(0, len(data), 5):
        down, right, length = data[index : index + 3]
        column = right if down else column + right
        line += down
        if line == place["line"] and column in inside and length == 1:
            return YES
    return NO


# --- fixes ----------------------------------------------------------------------------------------------------------


def _quick_fix(desk: Desk) -> str:
    """Of any of these mistakes, one that mends it."""
    offered = NO
    for change in (_NO_KEEPDIMS, _WRONG_SHAPE, _WRONG_RESULT, _NO_PSUM, _OTHER_AXIS):
        for finding in desk.new_findings(change):
            desk.show(change)
            for edit in list(desk.actions("quickfix", finding["range"], [finding])):
                fixed = desk.applied(edit)
                if code(fixed) == code(desk.text):
                    offered = "silencing comments"
                    continue
                desk.show_text(fixed)
                if finding["message"] not in [o["message"] for o in desk.findings()]:
                    return YES
                desk.show(change)
    return offered


def _fix_all(desk: Desk) -> str:
    for what, change in (
        ("wrong shapes", _NO_KEEPDIMS),
        ("idle suppressions", _idle("shardlint: ignore[ST204]")),
        ("idle suppressions", _idle("pyrefly: ignore")),
        ("idle suppressions", _idle("jaxtyc: ignore")),
        ("redundant casts", ("= len(name)", "= typing.cast(int, len(name))")),
    ):
        desk.show(change)
        within = lines(0, desk.text.count("\n"))
        for edit in desk.actions("source.fixAll", within):
            if desk.applied(edit) != desk.text:
                return what
    return NO


def _idle(comment: str) -> tuple[str, str]:
    """A suppression of nothing."""
    return ("hidden = x @ w", f"hidden = x @ w  # {comment}")


def _annotate(desk: Desk) -> str:
    """The result of a function that does not state it."""
    head = next(
        one for one in desk.written.splitlines() if one.startswith("def dense(")
    )
    without = head[: head.index(" ->")] + ":"
    desk.show((head, without))
    line = desk.at(without)["line"]
    for kind in ("refactor", "quickfix"):
        for edit in desk.actions(kind, lines(line, line + 1)):
            if re.search(r"def dense\([^\n]*\) -> \S*B[^\n]*F", desk.applied(edit)):
                return YES
    return NO


def _extract(desk: Desk) -> str:
    text = "jnp.tanh(hidden)"
    within = {"start": desk.at(text), "end": desk.at(text, len(text))}
    edits = desk.actions("refactor.extract", within)
    return _said(any(desk.applied(edit) != desk.text for edit in edits))


def _import(desk: Desk) -> str:
    """For a name that is missing, as an action or as what completion adds."""
    change = ("len(name)", "len(OrderedDict())")
    for finding in desk.new_findings(change):
        for edit in desk.actions("quickfix", finding["range"], [finding]):
            if "import OrderedDict" in desk.applied(edit):
                return YES
    desk.show(("len(name)", "OrderedDi"))
    for one in desk.labels("OrderedDi", len("OrderedDi")):
        if "import" in json.dumps(one.get("additionalTextEdits") or ""):
            return YES
    return NO


# --- what any Python has --------------------------------------------------------------------------------------------


def _function_definition(desk: Desk) -> str:
    found = desk.places(desk.ask_at("definition", "dense(a"))
    head = desk.at("def dense(")["line"]
    return _said(any(line == head for line, _ in found))


def _function_references(desk: Desk) -> str:
    """Asked at a call, or at the definition."""
    context = {"includeDeclaration": True}
    for place in ("dense(a", "dense(x"):
        found = desk.places(desk.ask_at("references", place, context=context))
        if len([text for _, text in found if text.startswith("dense")]) >= 2:
            return YES
    return NO


def _function_rename(desk: Desk) -> str:
    found = desk.renamed("dense(a", 0, "linear")
    return _said(len([name for _, name in found if name == "dense"]) >= 2)


def _variable_rename(desk: Desk) -> str:
    found = desk.renamed("hidden)", 0, "inner")
    return _said(len([name for _, name in found if name == "hidden"]) >= 2)


def _complete_attribute(desk: Desk) -> str:
    desk.show(("jnp.tanh(hidden)", "jnp.ta"))
    found = desk.labels("jnp.ta", len("jnp.ta"))
    return _said("tanh" in {one["label"] for one in found})


def _calls(desk: Desk) -> str:
    items = desk.ask_at("prepareCallHierarchy", "dense(x")
    if not items:
        return NO
    calls = desk.client.request("callHierarchy/incomingCalls", {"item": items[0]})
    return _said(any(one["from"]["name"].endswith("layer") for one in calls or []))


def _symbols(desk: Desk) -> str:
    text = json.dumps(desk.ask("documentSymbol"))
    if '"count_of"' in text:
        return YES
    return "annotated functions" if '"dense"' in text else NO


def _workspace_symbols(desk: Desk) -> str:
    answer = desk.client.request("workspace/symbol", {"query": "dense"})
    return _said('"dense"' in json.dumps(answer))


def _answers(method: str, needle: str, offset: int = 0) -> Callable[[Desk], str]:
    def check(desk: Desk) -> str:
        return _said(desk.ask_at(method, needle, offset))

    return check


def _implementations(desk: Desk) -> str:
    """Of a method that a subclass has, too, or of a function."""
    found = desk.ask_at("implementation", "width(self)")
    return _said(found or desk.ask_at("implementation", "dense(a"))


def _folding(desk: Desk) -> str:
    return _said(desk.ask("foldingRange"))


def _selection(desk: Desk) -> str:
    return _said(desk.ask("selectionRange", positions=[desk.at("hidden)")]))


#: What is about arrays, then what is about any Python.
OF_ARRAYS = [
    Row("a wrong shape is reported while typing", _wrong_shape),
    Row("a forgotten `psum`", _forgotten_psum),
    Row("a softmax over a sharded dimension", _sharded_softmax),
    Row("half-typed code leaves the findings of other functions", _half_typed),
    Row("hover on a local shows its shape", _hover_shape),
    Row("hover shows what one device has of it", _hover_local),
    Row("hover shows the bytes", _hover_bytes),
    Row("inlay hints with shapes", _hint_shape),
    Row("inlay hints with shardings", _hint_sharding),
    Row("completion of dimensions inside an annotation", _complete_dimension),
    Row("completion of mesh axes inside an annotation", _complete_axis),
    Row("definition of a dimension", _definition),
    Row("references of a dimension", _references),
    Row("rename of a dimension", _rename),
    Row("rename of a mesh axis", _rename_axis),
    Row("semantic tokens inside an annotation", _tokens),
    Row(
        "highlights of a dimension", _answers("documentHighlight", _STRING, _DIMENSION)
    ),
    Row(
        "linked editing of a dimension",
        _answers("linkedEditingRange", _STRING, _DIMENSION),
    ),
    Row("signature help with the sizes that a call binds", _signature),
    Row("code lens with collectives", _lens_collectives),
    Row("code lens with shapes", _lens_shapes),
    Row("annotations that are inferred are written", _annotate),
    Row("a quick fix that mends one of these mistakes", _quick_fix),
    Row("fix all in a file", _fix_all),
    Row("findings are pulled", _pulled),
    Row("findings of files that are not open", _whole),
    Row("findings in notebooks", _notebook),
]
OF_PYTHON = [
    Row("a wrong type of what is no array", _wrong_type),
    Row("hover on what is no array", _hover_type),
    Row("completion of attributes", _complete_attribute),
    Row("automatic imports", _import),
    Row("definition of a function", _function_definition),
    Row("declaration of a function", _answers("declaration", "dense(a")),
    Row("type definition of a variable", _answers("typeDefinition", "letters +")),
    Row("implementations of a function or a method", _implementations),
    Row("references of a function", _function_references),
    Row("rename of a function", _function_rename),
    Row("rename of a variable", _variable_rename),
    Row("highlights of a variable", _answers("documentHighlight", "hidden)")),
    Row("call hierarchy", _calls),
    Row("type hierarchy", _answers("prepareTypeHierarchy", "Wide(Layer)")),
    Row("symbols of a file", _symbols),
    Row("symbols of the workspace", _workspace_symbols),
    Row("extracting a variable or a function", _extract),
    Row("folding", _folding),
    Row("selection ranges", _selection),
]
