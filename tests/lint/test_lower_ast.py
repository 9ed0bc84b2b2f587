"""Python's own tree and that of libcst are lowered to the same form, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from shardlint import ir
from shardlint.config import Config
from shardlint.lower import lower
from shardlint.lower_ast import read_module
from shardlint.run import check
from shardlint.syntax import UnparsableFile
from tests.lint.test_lowering import LIBCST_REFUSES, PROGRAM, STDLIB

ROOT = Path(__file__).parents[2]
OURS = sorted(ROOT.glob("shardlint/engine/*.py")) + sorted(ROOT.glob("tests/lint/*.py"))
STATEMENTS = [
    'a = f"{x = }" "b" f"{y!r:>{w}}c\\n{{d}}" \'e\'',
    'f"{ x=!s}" rf"\\d{z}" "\\x41"',
    'f""',
    'f"{x=:>10}"',
    "f'\\{6}'",
    "rf'\\{6}\\n'",
    "f'a\\'{x}\\\\{y}'",
    'f"""a\\n"{x}"""',
    'f"""a\\""{x}\\n"""',
    "f'\\N{DEGREE SIGN}{x}'",
    "f'''a\r\nb{x}'''",
    "\"a\" f'{x}' '''q\n'''",
    "def f(x: 'f32[\"B\"]' ' | None', y: 'a[' '0]', /, *args: 'b|c', z=1, **kw) -> 't[0]': yield from (yield x)",
    "def f(x: 'a[0', y: 'not | ', z: ' x | y ', *args: *Ts): pass",
    "del (a, b)",
    "del a,",
    "del (a, b), c",
    "x[1, *y, ::2], x[(1, 2)], x[1,], x[*a], x[()], x[:, None]",
    "a and b and c or not d and e",
    "f(a, *b, c=1, *d, **e, g=2)",
    "f(x for x in y if x)",
    "class C(A, *B, metaclass=M, **kw): x: int; y: 'z[0]' = 3",
    "match p:\n    case [a, *b] | (c, d): pass\n    case {'x': 1, **rest} if z: pass\n    case K(1, x=-2): pass",
    "match p:\n    case None | _ : pass\n    case 'a' 'b' as q: pass\n    case 1+2j: pass",
    "async def z():\n    async with a as b, c: pass\n    async for i in x: await y\n    return [i async for i in x]",
    "lambda *a, b=1, **c: (yield)",
    "x = 0xff, 1_000, 1e5, 3j, b'a' b'b', ..., None",
    "for x in *a, b: pass\nelse: pass",
    "try: pass\nexcept A: pass\nexcept (B, C) as e: raise\nelse: x = 1\nfinally: x += 1",
    "x: int\nx.y: 'list[int]' = 1\nx[0]: y",
    "if a: pass\nelif b: x\nelse: y",
    "import a, b.c, d.e as f\nfrom . import g\nfrom ..h.i import j as k, l\nfrom m import *",
    "x = y = z = (a := 1)",
    "'a\\\nb'",
]


def difference(first: object, second: object) -> object:
    """The first parts of two forms that are not the same; None if all are."""
    if type(first) is not type(second):
        return first, second
    if isinstance(first, tuple):
        assert isinstance(second, tuple)
        if len(first) != len(second):
            return first, second
        pairs = list(zip(first, second, strict=True))
    elif isinstance(first, (ir.Node, ir.Module, ir.Suppression)):
        names = [one.name for one in fields(first)]
        pairs = [(getattr(first, name), getattr(second, name)) for name in names]
    else:
        is_nan = first != first and second != second  # no number equals it
        return None if first == second or is_nan else (first, second)
    found = (difference(one, other) for one, other in pairs)
    return next((one for one in found if one is not None), None)


def both(source: bytes, path: str) -> tuple[object, object]:
    """What is read through either tree, or why it is not."""
    made: list[object] = []
    reads: list[Callable[[], ir.Module]] = [
        lambda: read_module(source, "m", path),
        lambda: lower(source, "m", path).module,
    ]
    for read in reads:
        try:
            made.append(read())
        except UnparsableFile as error:
            made.append(str(error))
    return made[0], made[1]


@pytest.mark.parametrize("path", ["m.py", "m.pyi"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements(statement: str, path: str) -> None:
    assert difference(*both(statement.encode(), path)) is None


@pytest.mark.parametrize(
    "source", [PROGRAM, PROGRAM.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + PROGRAM]
)
def test_a_program(source: bytes) -> None:
    assert difference(*both(source, "m.py")) is None


def test_files() -> None:
    for path in (*OURS[::3], *STDLIB[::16]):
        assert difference(*both(path.read_bytes(), str(path))) is None, path


@pytest.mark.parametrize(
    "source", [b"x = (\n", b"x = '\xff'\n", b"# coding: nonsense\n", b"x = 1\0"]
)
def test_what_neither_takes(source: bytes) -> None:
    own, others = both(source, "m.py")
    assert isinstance(own, str)
    assert own == others


def test_what_libcst_refuses_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "ä = '''\n'''; y = jnp.zeros((2, 3)) @ jnp.zeros((4, 5))\ndef f(x: f32['B M/']): pass\n"
    source = "import jax.numpy as jnp\nfrom shardtypes import f32\n" + wrong
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(source)
    (tmp_path / "b.py").write_text(source + LIBCST_REFUSES.decode())
    report = check((".",), Config(), cache=False)
    places = {
        name: [one.place for one in report.diagnostics if one.place.path == name]
        for name in ("a.py", "b.py")
    }
    assert len(places["a.py"]) == 2
    for one, other in zip(places["a.py"], places["b.py"], strict=True):
        assert (one.line, one.end_line) == (other.line, other.end_line)
    assert places["a.py"][0].column == places["b.py"][0].column
