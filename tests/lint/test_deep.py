"""Programs that are nested deeply: what lies around the deep part is checked, and the deep part is named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardlint import workers
from shardlint.config import Config
from shardlint.deep import MAX_LEVELS, again_with_room, with_room
from shardlint.folding import fold
from shardlint.run import Report, check

HEAD = "import jax.numpy as jnp\nimport q\nfrom shardtypes import f32\n"
WRONG = "\ndef f(x: f32['B M']) -> f32['M B']:\n    return x\n"
LEVELS = 2000
ELIFS = "".join(f"    elif a == {i}:\n        y = x\n" for i in range(LEVELS))
NOT_FOLLOWED = {
    "sum": "x = " + " + ".join(["a"] * LEVELS),
    "sum over lines": "x = (" + " +\n    ".join(["a"] * LEVELS) + ")",
    "sum over continued lines": "x = " + " + \\\n    ".join(["a"] * LEVELS),
    "sum of arrays": "def g(a: f32['B']):\n    return " + " + ".join(["a"] * LEVELS),
    "attributes": "x = q" + ".a" * LEVELS,
    "calls": "x = q" + "(1)" * LEVELS,
    "method calls": "x = q" + "\\\n    .a(1)" * LEVELS,
    "subscripts": "x = q" + "[0]" * LEVELS,
    "signs": "x = " + "-" * LEVELS + "1",
    "powers": "x = " + "2**" * 900 + "1",
    "lambdas": "x = " + "lambda: " * 900 + "1",
    "conditions": "x = " + "1 if a else " * 900 + "1",
    "lists in patterns": "match q:\n    case "
    + "[" * 90
    + "1"
    + "]" * 90
    + ":\n        x = 1",
    "parts of patterns": "match q:\n    case "
    + "{1: q.A(a=(" * 30
    + "1 | 2"
    + ",))}" * 30
    + ":\n        x = 1",
    "formatted pieces": "x = (" + "\n".join(["f'{a}'"] * LEVELS) + ")",
}
FOLLOWED = {
    "lists": "x = " + "[" * 190 + "]" * 190,
    "dicts": "x = " + "{1:" * 190 + "1" + "}" * 190,
    "arguments": "x = " + "abs(" * 190 + "1" + ")" * 190,
    "operands of one and": "x = " + " and ".join(["a"] * LEVELS),
    "pieces of a string": "x = (" + "\n".join(["'a'"] * LEVELS) + ")",
    "blocks": "".join(" " * i + "if a:\n" for i in range(95)) + " " * 96 + "x = 1",
    "functions": "".join(" " * i + f"def f{i}():\n" for i in range(95))
    + " " * 96
    + "x = 1",
    "elif": f"def g(x, a):\n    if a < 0:\n        y = x\n{ELIFS}    return y",
}

# JAX and Python warn of forks in a process with threads: that is the test run's, which other tests made JAX start in.
pytestmark = [
    pytest.mark.filterwarnings("ignore:os.fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
]


def report(folder: Path, text: str, **settings: int) -> Report:
    (folder / "a.py").write_text(text)
    (folder / "b.py").write_text(HEAD + WRONG)
    return check(
        [str(folder)], Config(root=folder).with_options(**settings), cache=False
    )


def found(of: Report) -> list[tuple[str, int, str]]:
    return [(Path(d.place.path).name, d.place.line, d.code) for d in of.diagnostics]


@pytest.mark.parametrize("name", [*NOT_FOLLOWED, *FOLLOWED])
def test_the_rest_of_the_file_is_checked(tmp_path: Path, name: str) -> None:
    text = HEAD + {**NOT_FOLLOWED, **FOLLOWED}[name] + "\n" + WRONG
    of = report(tmp_path, text, jobs=1)
    assert of.problems == []
    assert found(of) == [
        ("a.py", text.count("\n"), "ST201"),
        ("b.py", HEAD.count("\n") + 3, "ST201"),
    ]
    named = [
        gap
        for gap in of.gaps
        if gap.startswith("nested too deeply to be followed: an expression of ")
    ]
    assert bool(named) == (name in NOT_FOLLOWED)


@pytest.mark.parametrize("levels", [100, 300, 500, 700, 900, 1200, 1600])
def test_places_are_found_at_any_depth_of_blocks(tmp_path: Path, levels: int) -> None:
    """Each step of the work runs out of room at another depth."""
    branches = "".join(f"elif n == {i}:\n    k = {i}\n" for i in range(1, levels))
    text = f"{HEAD}n = 3\nif n == 0:\n    k = 0\n{branches}{WRONG}"
    of = report(tmp_path, text, jobs=1)
    assert of.problems == []
    assert found(of) == [
        ("a.py", text.count("\n"), "ST201"),
        ("b.py", HEAD.count("\n") + 3, "ST201"),
    ]


@pytest.mark.parametrize("name", ["elif", "sum", "lists"])
def test_other_processes_have_room_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(workers, "PARALLEL_BYTES", 0)
    of = report(
        tmp_path, HEAD + {**NOT_FOLLOWED, **FOLLOWED}[name] + "\n" + WRONG, jobs=2
    )
    assert of.problems == []
    assert [(path, code) for path, _, code in found(of)] == [
        ("a.py", "ST201"),
        ("b.py", "ST201"),
    ]


def test_what_python_itself_refuses_is_named(tmp_path: Path) -> None:
    of = report(tmp_path, "x = " + "-" * 100_000 + "1\n", jobs=1)
    assert of.problems == []
    assert [(path, code) for path, _, code in found(of)] == [
        ("a.py", "ST902"),
        ("b.py", "ST201"),
    ]
    assert of.diagnostics[0].message == "the code is nested too deeply to be read"


@pytest.mark.parametrize("levels", [MAX_LEVELS // 2, MAX_LEVELS * 2])
def test_only_what_is_too_deep_is_folded(levels: int) -> None:
    source = f"x = {' + '.join(['a'] * levels)}; y = b\n".encode()
    folded, values = fold(source, ast.parse(source))
    assert bool(values) == (levels > MAX_LEVELS)
    assert len(folded) == len(source)
    assert folded.endswith(b" + a; y = b\n")


def test_what_a_folded_pattern_binds_is_not_what_it_was(tmp_path: Path) -> None:
    pattern = "[" * 30 + "y, *_, {1: {2: z}, **rest}" + "]" * 30
    text = f"""{HEAD}
def g(x: f32['B M'], q) -> f32['B M']:
    y = z = rest = x.T
    match q:
        case {pattern}:
            return y if q else z if x else rest
    return x
{WRONG}"""
    of = report(tmp_path, text, jobs=1)
    assert found(of) == [
        ("a.py", text.count("\n"), "ST201"),
        ("b.py", HEAD.count("\n") + 3, "ST201"),
    ]


def test_work_is_done_again_only_where_room_was_missing() -> None:
    calls = []

    def descend(levels: int) -> int:
        return 0 if levels == 0 else 1 + descend(levels - 1)

    def work() -> int:
        calls.append(1)
        return descend(5_000)

    assert again_with_room(work) == 5_000
    assert len(calls) == 2
    with pytest.raises(RecursionError):
        again_with_room(lambda: descend(1_000_000))
    with pytest.raises(ValueError, match="as it came"):
        with_room(lambda: (_ for _ in ()).throw(ValueError("as it came")))
