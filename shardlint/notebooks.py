"""Jupyter notebooks as one Python text: their code cells in order, with a table that leads back to cell and line.

What is no Python in a cell is bridged so that every line and column stays where it is: a line magic or a shell line
becomes a statement that does nothing, what is assigned from one is not known, a cell of another language is empty. An
indentation of the whole cell and prompts before its lines are taken away, as IPython does, and places lead back to the
line as it is written. A cell that is no Python even so is reported; of what it binds nothing is known from there on.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
import warnings
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardlint import messages
from shardlint.decoding import lines
from shardlint.syntax import UnparsableFile
from shardtypes.lang.diagnostics import Place

#: Cell magics whose cells hold Python; all others hold another language, or text.
_PYTHON_CELLS = frozenset(
    "time timeit capture prun memit mprun lprun debug python python3".split()
)
_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
_ASSIGNED = re.compile(r"(?P<targets>[^=!%'\"#()]+=\s*)[!%](?!=)")
#: What can hold brackets and ends of lines that do not end a statement.
_PIECE = re.compile(
    r"""(?P<text>(?i:[rbfut]{0,2})(?:\"{3}(?:[^\\]|\\.)*?(?:\"{3}|\Z)|'{3}(?:[^\\]|\\.)*?(?:'{3}|\Z)
        |"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?))
      |(?P<comment>\#[^\n]*)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<joined>\\\n)|(?P<end>\n)|(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
#: A line, with those that it goes on in after a backslash.
_LOGICAL = re.compile(r"(?:[^\n]*\\\n)*[^\n]*")
#: ``name?``, ``??name``: help of the shell.
_HELP = re.compile(r"\?{1,2}[\w.*]+\s*$|[\w.*]+\?{1,2}\s*$")
#: Line magics that run a statement as it stands, whose names stay bound.
_RUNS = re.compile(r"%?(?:time|prun)[ \t]+(?=[^\W\d])")
#: IPython's line magics. A cell of one line may leave out their ``%``.
_LINE_MAGICS = frozenset(
    """alias alias_magic autoawait autocall automagic autosave bookmark cat cd clear colors conda config connect_info cp
    debug dhist dirs doctest_mode ed edit env gui hist history killbgscripts ldir less lf lk ll load load_ext loadpy
    logoff logon logstart logstate logstop ls lsmagic lx macro magic mamba man matplotlib micromamba mkdir more mv
    notebook page pastebin pdb pdef pdoc pfile pinfo pinfo2 pip popd pprint precision prun psearch psource pushd pwd
    pycat pylab quickref recall rehashx reload_ext rep rerun reset reset_selective rm rmdir run save sc set_env store sx
    system tb time timeit unalias unload_ext uv who who_ls whos xdel xmode""".split()
)
#: What IPython takes away from the lines of a cell, if the first line has it.
_MARGIN = re.compile(r"[ \t]+")
_PROMPT = re.compile(r"(?:>>>|\.\.\.)(?: |$)|In \[\d+\]: |\s*\.{3,}: ?")
_FIRST_PROMPT = re.compile(r">>>(?: |$)|In \[\d+\]: ")
#: What a line may bind: all before an equals sign, and the words after these.
_BOUND = re.compile(
    r"(?P<before>[^=\n#]*[^=!<>\n#])=(?!=)|\b(?:for|as|import|def|class|global)\b(?P<after>[^:\n]*)"
)
#: The first word of a line that neither assigns nor continues it.
_COMMAND = re.compile(r"[^\W\d]\w*(?=[ \t]+[^\s=,]|\s*$)")
_WORD = re.compile(r"[^\W\d]\w*")
#: A value of which nothing is known, and which is of no library.
_UNKNOWN = "get_ipython()"


@dataclass(frozen=True, slots=True)
class Notebook:
    """``text`` is the program. ``starts`` and ``cells`` give for each code cell its first line there and its number
    among all cells, from 1; ``broken`` are the cells that are no Python, with their places in ``text``. ``margins``
    has the number of columns that were taken away from the front of a line of ``text``."""

    text: str
    starts: tuple[int, ...]
    cells: tuple[int, ...]
    broken: tuple[UnparsableFile, ...]
    margins: Mapping[int, int]

    def place(self, place: Place) -> Place:
        """A place of ``text`` as one in its cell."""
        if not self.starts:
            return place
        index = max(0, bisect_right(self.starts, place.line) - 1)
        before = self.starts[index] - 1
        column = place.column + self.margins.get(place.line, 0)
        end_column = place.end_column + self.margins.get(place.end_line, 0)
        return Place(
            place.path,
            place.line - before,
            column,
            place.end_line - before,
            end_column,
            self.cells[index],
        )

    def lines(self, source: bytes, cell: int) -> list[str]:
        """The lines of a cell as they are in the notebook."""
        return lines(_source(_cells(json.loads(source))[cell - 1]))


class OtherLanguage(Exception):
    """A notebook that is not of Python; the text is the language."""


def read(source: bytes, path: str) -> Notebook:
    """Read a notebook.

    Raises:
        UnparsableFile: it is no notebook.
        OtherLanguage: its code is not Python.
    """
    document = _document(source, path)
    language = _language(document)
    if language not in ("", "python", "python3", "python2", "ipython"):
        raise OtherLanguage(language)
    parts: list[str] = []
    starts: list[int] = []
    numbers: list[int] = []
    broken: list[UnparsableFile] = []
    margins: dict[int, int] = {}
    line = 1
    for number, cell in enumerate(_cells(document), 1):
        if cell.get("cell_type") != "code":
            continue
        bridged, removed = as_python(_source(cell))
        margins |= {line + index: width for index, width in removed.items()}
        error = _error(bridged)
        if error is not None:
            message = messages.syntax(error.msg)
            broken.append(
                UnparsableFile(
                    path,
                    line + (error.lineno or 1) - 1,
                    max(1, error.offset or 1),
                    message,
                )
            )
            bridged = _forgetting(bridged)
        elif _is_meant_to_fail(cell):
            bridged = _forgetting(bridged)
        starts.append(line)
        numbers.append(number)
        parts.append(bridged)
        line += bridged.count("\n") + 1
    return Notebook(
        "\n".join(parts) + "\n", tuple(starts), tuple(numbers), tuple(broken), margins
    )


def _document(source: bytes, path: str) -> Mapping[str, Any]:
    try:
        document = json.loads(source)
    except (ValueError, RecursionError) as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        reason = getattr(error, "msg", None) or str(error)
        raise UnparsableFile(path, line, column, messages.no_notebook(reason)) from None
    if not isinstance(document, dict) or not isinstance(
        document.get("cells", document.get("worksheets")), list
    ):
        raise UnparsableFile(path, 1, 1, messages.no_notebook("it has no cells"))
    return document


def _cells(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if "cells" in document:
        found = document["cells"]
    else:  # before version 4 of the format
        found = [
            cell for sheet in document["worksheets"] for cell in sheet.get("cells", ())
        ]
    return [cell if isinstance(cell, dict) else {} for cell in found]


def _language(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    about = metadata if isinstance(metadata, dict) else {}
    for key, name in (("language_info", "name"), ("kernelspec", "language")):
        found = about.get(key)
        if isinstance(found, dict) and isinstance(found.get(name), str):
            return str(found[name]).lower()
    return ""


def _source(cell: Mapping[str, Any]) -> str:
    text = cell.get("source", cell.get("input", ""))
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def as_python(cell: str) -> tuple[str, dict[int, int]]:
    """A cell as Python, line by line, and how many columns were taken away from which lines, from 0."""
    text, removed = _without_margins(cell)
    return bridge(text), removed


def _without_margins(cell: str) -> tuple[str, dict[int, int]]:
    """A cell as IPython reads it, without an indentation of the whole and without prompts, and how many columns that
    took away from which lines, from 0. A cell of Python is returned as it is."""
    if _error(cell) is None:
        return cell, {}
    before = cell.split("\n")
    start = next(
        (
            n
            for n, line in enumerate(before)
            if line.strip() and not _CELL_MAGIC.match(line)
        ),
        len(before),
    )
    after = before[:start] + _without_prompts(_dedented(before[start:]))
    widths = {
        n: len(old) - len(new)
        for n, (old, new) in enumerate(zip(before, after, strict=True))
    }
    return "\n".join(after), {n: width for n, width in widths.items() if width}


def _dedented(text: list[str]) -> list[str]:
    margin = _MARGIN.match(text[0]) if text else None
    return (
        text if margin is None else [line.removeprefix(margin.group()) for line in text]
    )


def _without_prompts(text: list[str]) -> list[str]:
    if not text or not _FIRST_PROMPT.match(text[0]):
        return text
    return [
        _PROMPT.sub("", line, count=1) if _PROMPT.match(line) else line for line in text
    ]


def bridge(cell: str) -> str:
    """A cell as Python, line by line; a cell of Python is returned as it is."""
    magic = _CELL_MAGIC.match(cell)
    if magic is not None:
        rest = cell.split("\n")[1:]
        if magic[1] not in _PYTHON_CELLS:
            return "\n" * len(rest)
        return "\n".join(["", *bridge("\n".join(rest)).split("\n")]) if rest else ""
    if _error(cell) is None:
        return cell
    text = cell.split("\n")
    if _is_magic_alone(cell):
        return "\n".join([_bridged_line(text[0], is_magic=True), *text[1:]])
    for number in _statement_lines(cell):
        line, text[number] = text[number], _bridged_line(text[number])
        while text[number] != line and line.endswith("\\") and number + 1 < len(text):
            number += 1
            line, text[number] = text[number], ""
    return "\n".join(text)


def _is_magic_alone(cell: str) -> bool:
    """Whether a cell is one line that starts with a magic."""
    word = _COMMAND.match(cell)
    return (
        word is not None
        and word.group() in _LINE_MAGICS
        and len(cell.splitlines()) == 1
    )


def _bridged_line(line: str, is_magic: bool = False) -> str:
    bare = line.lstrip()
    indent = line[: len(line) - len(bare)]
    is_magic |= bare.startswith("%")
    runs = _RUNS.match(bare)
    if is_magic and runs is not None:
        return f"{indent}0;{' ' * (runs.end() - 2)}{bare[runs.end() :]}"
    if is_magic or bare.startswith("!") or _HELP.match(bare):
        return f"{indent}pass"
    assigned = _ASSIGNED.match(bare)
    if assigned is not None:
        return f"{indent}{assigned['targets']}{_UNKNOWN}"
    return line


def _statement_lines(cell: str) -> list[int]:
    """The numbers of the lines, from 0, on which a statement starts: none that goes on inside brackets, a string, or
    after a backslash. A shell line has rules of its own, so it is read as a comment."""
    found = []
    depth = line = at = 0
    fresh = True
    while at < len(cell):
        if fresh:
            found.append(line)
            fresh = False
            whole = _LOGICAL.match(cell, at)
            if whole is not None and _bridged_line(whole.group()) != whole.group():
                at = whole.end()
                line += whole.group().count("\n")
                continue
        piece = _PIECE.match(cell, at)
        assert piece is not None  # some alternative takes every character
        at = piece.end()
        line += piece.group().count("\n")
        match piece.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth = max(0, depth - 1)
            case "end":
                fresh = depth == 0
    return found


def _error(cell: str) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(cell)
    except (RecursionError, MemoryError):
        return None  # the text of the whole notebook is refused for that
    except SyntaxError as error:
        return error
    except ValueError as error:
        return SyntaxError(str(error))
    return None


def _is_meant_to_fail(cell: Mapping[str, Any]) -> bool:
    """Whether a cell has the tag with which a notebook goes on where an error is what is shown."""
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return isinstance(tags, list) and "raises-exception" in tags


def _forgetting(cell: str) -> str:
    """Lines in place of a cell that cannot be read, or that fails: every name in it stands for something
    unknown afterwards."""
    parts = (found["before"] or found["after"] or "" for found in _BOUND.finditer(cell))
    words = (name for part in parts for name in _WORD.findall(part))
    names = dict.fromkeys(name for name in words if not keyword.iskeyword(name))
    first = " = ".join([*names, _UNKNOWN]) if names else ""
    return first + "\n" * cell.count("\n")


def in_cells(place: Place, notebooks: Mapping[str, Notebook]) -> Place:
    """A place as it is shown: in a notebook by cell."""
    notebook = notebooks.get(place.path)
    return notebook.place(place) if notebook is not None else place


def order(place: Place) -> tuple[str, int, int, int, int, int]:
    """What places are sorted by."""
    return (
        place.path,
        place.cell,
        place.line,
        place.column,
        place.end_line,
        place.end_column,
    )
