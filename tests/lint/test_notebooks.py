"""Notebooks: every finding has its cell and line, and what is no Python in a cell is bridged."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from shardlint.cli import main
from shardlint.notebooks import bridge, read

pytestmark = pytest.mark.once

CELLS = [
    ("markdown", "# Title"),
    (
        "code",
        "%matplotlib inline\n!pip install jax\nimport jax.numpy as jnp\nfrom shardtypes import f32",
    ),
    ("code", "%%bash\nls | grep x"),
    ("code", "files = !ls\nx = jnp.ones((2, 3))\n%timeit x + 1"),
    ("code", "%%time\n\ndef f(x: f32['B M']) -> f32['M B']:\n    return x"),
    ("code", "y = jnp.ones((2,\n this is no Python"),
    (
        "code",
        "z = y + jnp.ones(4)\nw = x + jnp.ones(4)  # shardlint: ignore[ST204] on purpose\nx @ x",
    ),
    ("code", "1  # shardlint: ignore[ST201]"),
]


BROKEN = "6:1:"


def notebook(cells: list[tuple[str, str]] = CELLS, **metadata: object) -> str:
    """As Jupyter writes it: lines of a cell as a list."""
    made = [
        {
            "cell_type": kind,
            "metadata": {},
            "source": text.splitlines(keepends=True),
            "outputs": [],
            "id": str(n),
        }
        for n, (kind, text) in enumerate(cells)
    ]
    return json.dumps(
        {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5},
        indent=1,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ipynb").write_text(notebook())
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_places_are_cells_and_lines(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):  # from the cache as well
        status, out, _ = run(capsys, "--format", "concise")
        assert status == 1
        rows = [line.split(" ")[:3] for line in out.splitlines()]
        # which column that is depends on the Python
        assert rows[1][1].startswith(BROKEN)
        rows[1][1] = BROKEN
        assert rows == [
            ["a.ipynb:cell", "5:4:12:", "ST201"],
            ["a.ipynb:cell", BROKEN, "ST902"],
            ["a.ipynb:cell", "7:3:1:", "ST204"],
            ["a.ipynb:cell", "8:1:4:", "ST901"],
        ]


def test_every_format_has_the_cell(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = run(capsys)[1]
    assert "   --> a.ipynb:cell 5:4:12\n" in full.replace(
        "  --> a.ipynb:cell 5", "   --> a.ipynb:cell 5"
    )
    assert "4 |     return x\n" in full
    assert "  note: declared f32['M B'] here\n  --> a.ipynb:cell 5:3:29\n" in full
    found = json.loads(run(capsys, "--format", "json")[1])
    assert [(one["path"], one["cell"], one["line"]) for one in found] == [
        ("a.ipynb", 5, 4), ("a.ipynb", 6, 1), ("a.ipynb", 7, 3), ("a.ipynb", 8, 1)
    ]  # fmt: skip
    assert found[0]["related"][0]["cell"] == 5
    github = run(capsys, "--format", "github")[1].splitlines()[0]
    assert github.startswith(
        "::error file=a.ipynb,line=1,title=ST201 return-mismatch::cell 5, line 4, column 12: "
    )
    result = json.loads(run(capsys, "--format", "sarif")[1])["runs"][0]["results"][0]
    assert result["locations"] == [
        {
            "physicalLocation": {"artifactLocation": {"uri": "a.ipynb"}},
            "logicalLocations": [
                {
                    "name": "cell 5",
                    "fullyQualifiedName": "cell 5:4:12",
                    "kind": "element",
                }
            ],
        }
    ]
    types = run(
        capsys, "--show-types", "--select", "ST9", "--format", "concise", "--exit-zero"
    )[1]
    assert "a.ipynb:cell 4:2:1: x: float32['2 3']\n" in types


def test_fixes_are_refused_and_the_file_stays(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (folder / "a.ipynb").read_bytes()
    (folder / "b.py").write_text("x = 1  # shardlint: ignore[ST201]\n")
    status, out, err = run(
        capsys, "--fix", "--select", "ST201,ST901", "--format", "concise"
    )
    assert (status, out.count("\n")) == (1, 2)
    assert err.splitlines()[:2] == [
        "shardlint: fixed 1 finding in 1 file",
        "shardlint: a.ipynb: fixes are not applied to notebooks; change the cells in the editor",
    ]
    assert (folder / "a.ipynb").read_bytes() == before
    assert (folder / "b.py").read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1: ST902 the file is not a valid notebook: Expecting value"),
        ('{"cells": [\n}', "2:1: ST902 the file is not a valid notebook: "),
        ("[]", "1:1: ST902 the file is not a valid notebook: it has no cells"),
        (
            '{"cells": 3}',
            "1:1: ST902 the file is not a valid notebook: it has no cells",
        ),
        ("[" * 100_000, "1:1: ST902 the file is not a valid notebook: "),
    ],
)
def test_what_is_no_notebook(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (folder / "a.ipynb").write_text(text)
    status, out, _ = run(capsys, "--format", "concise")
    assert (status, out.count("\n")) == (1, 1)
    assert out.startswith(f"a.ipynb:{message}")


def test_other_languages_and_older_formats(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.ipynb").write_text(
        notebook([("code", "x <- 1")], language_info={"name": "R"})
    )
    old = {"cell_type": "code", "input": ["x = (\n"], "language": "python"}
    (folder / "b.ipynb").write_text(
        json.dumps({"worksheets": [{"cells": [old]}], "nbformat": 3})
    )
    status, out, err = run(capsys, "--format", "concise")
    assert status == 1
    assert (
        out
        == "b.ipynb:cell 1:1:5: ST902 the file is not valid Python: '(' was never closed\n"
    )
    assert (
        err
        == "shardlint: not checked: a.ipynb (a notebook of r)\nshardlint: 1 file checked\n"
    )


@pytest.mark.parametrize(
    ("cell", "bridged"),
    [
        ("x = 5 % 3", "x = 5 % 3"),
        ("%load_ext x\nx = (5\n% 3)", "pass\nx = (5\n% 3)"),
        (
            "!ls 'it is\nx = '''\n!not a command\n'''",
            "pass\nx = '''\n!not a command\n'''",
        ),
        ("if a:\n    !ls\nx = !ls -l", "if a:\n    pass\nx = get_ipython()"),
        ("a, b = %sql select 1", "a, b = get_ipython()"),
        ("x.y?\n??z\nf('?')  # why?", "pass\npass\nf('?')  # why?"),
        ("%time x = f(1)\ny = 2", "0;    x = f(1)\ny = 2"),
        ("!pip install \\\n  jax\nx = 1", "pass\n\nx = 1"),
        ("%%time\nx = 1", "\nx = 1"),
        ("%%capture out\n!ls\nx = 1", "\npass\nx = 1"),
        ("%%html\n<b>", "\n"),
        ("%%writefile a.py\nimport x\n", "\n\n"),
        ("x = 1 \\\n  + 2\n%y", "x = 1 \\\n  + 2\npass"),
        ("# it's\n!ls", "# it's\npass"),
        ("x != 3\n%y", "x != 3\npass"),
        ("f'{a!r}'\n%y", "f'{a!r}'\npass"),
        ("timeit -n 5 f(x)", "pass"),
        ("pip install jax\n", "pass\n"),
        ("time x = f(1)", "0;   x = f(1)"),
        ("ls", "ls"),
    ],
)
def test_bridges(cell: str, bridged: str) -> None:
    assert bridge(cell) == bridged
    assert bridged.count("\n") == cell.count("\n")
    ast.parse(bridged)


@pytest.mark.parametrize(
    "cell",
    ["x = 1\npip install jax", "pip = (", "time.sleep(", "unknown -n 5 f(x)", "if ls:"],
)
def test_what_is_no_magic_stays_as_it_is(cell: str) -> None:
    """IPython looks for a magic without ``%`` in cells of one line alone, and not where something is assigned."""
    assert bridge(cell) == cell


def test_lines_of_the_whole_text_lead_back() -> None:
    source = notebook().encode()
    found = read(source, "a.ipynb")
    text = found.text.split("\n")
    for start, cell in zip(found.starts, found.cells, strict=True):
        kind, original = CELLS[cell - 1]
        assert kind == "code"
        lines = found.lines(source, cell)
        assert lines == original.split("\n")
        kept = [n for n, line in enumerate(lines) if text[start - 1 + n] == line]
        assert kept or cell in (3, 6)
    assert [one.line for one in found.broken] == [found.starts[found.cells.index(6)]]


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        ("\n  x = jnp.ones((2, 3))\n  def f():\n    return x @ x", "cell 2:4:12"),
        ("\tx = jnp.ones((2, 3))\n\n\tx @ x", "cell 2:3:2"),
        ("%%time\n  x = jnp.ones((2, 3))\n  x @ x", "cell 2:3:3"),
        ("  x = jnp.ones((2, 3))\n  !ls\n  x @ x", "cell 2:3:3"),
        ("  x = jnp.ones((2, 3))\nx @ x", "cell 2:2:1"),
        (
            ">>> def f():\n...     x = jnp.ones((2, 3))\n...\n...     return x @ x",
            "cell 2:4:16",
        ),
        (
            "In [1]: x = jnp.ones((2, 3))\nIn [2]: for i in range(3):\n   ...:     x @ x",
            "cell 2:3:13",
        ),
    ],
)
def test_margins_and_prompts(
    folder: Path, capsys: pytest.CaptureFixture[str], cell: str, place: str
) -> None:
    """IPython runs a cell that is indented as a whole, and one that is copied with its prompts."""
    (folder / "a.ipynb").write_text(
        notebook([("code", "import jax.numpy as jnp"), ("code", cell)])
    )
    assert run(capsys, "--format", "concise")[1].startswith(f"a.ipynb:{place}: ST204 ")


def test_an_indentation_inside_a_cell_is_no_margin(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.ipynb").write_text(notebook([("code", "x = 1\n  y = 2\n")]))
    assert run(capsys, "--format", "concise")[1].startswith("a.ipynb:cell 1:2:")


def test_a_cell_that_is_meant_to_fail(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tag with which Jupyter and nbconvert go on after an error; what such a cell binds is not known afterwards."""
    cells = [
        ("code", "import jax.numpy as jnp\nx = jnp.ones((2, 3))"),
        ("code", "x = jnp.ones(4)\njnp.sum([1, 2])"),
    ]
    document = json.loads(notebook([*cells, ("code", "x @ x")]))
    (folder / "a.ipynb").write_text(json.dumps(document))
    assert run(capsys, "--format", "concise")[1].startswith(
        "a.ipynb:cell 2:2:9: ST219 "
    )
    document["cells"][1]["metadata"]["tags"] = ["hide-output", "raises-exception"]
    (folder / "a.ipynb").write_text(json.dumps(document))
    assert run(capsys, "--format", "concise")[:2] == (0, "")
    document["cells"][2]["source"] = ["y = jnp.ones((2, 3))\n", "y @ y"]
    (folder / "a.ipynb").write_text(json.dumps(document))
    assert run(capsys, "--format", "concise")[1].startswith(
        "a.ipynb:cell 3:2:1: ST204 "
    )
