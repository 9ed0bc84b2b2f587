"""Source text to the intermediate form: any text either lowers or is refused with a place."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ir
from shardlint.lower import UnparsableFile, lower

STDLIB = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
NOT_UTF8 = (
    "the file cannot be decoded: byte 0xff is not utf-8; save it as UTF-8,"
    " or declare its encoding on the first line"
)
NO_ENCODING = (
    "the file cannot be decoded: unknown encoding: nonsense; save it as UTF-8, or declare its encoding on the first "
    "line"
)
LIBCST_REFUSES = b"(x): int = 1\n"
PROGRAM = b'''
from __future__ import annotations
import a.b as c, d.e
from . import f as g
from ..h import *
type_ = "x" 'y' + rb"z".decode()
class K(Base, metaclass=M):
    """Doc."""
    x: f32['B/d L'] = field(default=1)
    def m(self, a, /, b=1, *args: int, k, **kw) -> "f32[b'B']":
        with open(a) as f, g: yield f
        try:
            x, *y = a[1:, ..., None], b[::2]
        except* (E, F) as e:
            raise X from e
        finally:
            del x, y
        return [i async for i in z if i for j in k if j] or {**a, 'b': 1} if not a else lambda q, *r: q @ r
match p:
    case K(x=1, y=[a, *b]) | {"k": v, **rest} if v: x += 1
    case _: pass
while (n := 5) < 3 <= 4: n -= 1; break
else: assert n, "m"
for i in range(3): continue
@deco
async def w(): return f"{x!r:>{y}}" "b", await z, (yield), -1j, 0x_ff, 1e3, ..., {1, 2}, {k: v for k, v in z}
global q
'''


def body(source: str) -> tuple[ir.Stmt, ...]:
    return lower(source.encode(), "m", "m.py").module.body


def test_every_form_of_the_language_lowers() -> None:
    module = lower(PROGRAM, "pkg.m", "pkg/m.py").module
    assert (
        len(module.body) == len(ast.parse(PROGRAM.replace(b"global q\n", b"")).body) + 1
    )


def test_numbers_are_the_same_each_time_and_have_nodes() -> None:
    plain = lower(PROGRAM, "m", "m.py")
    kept = lower(PROGRAM, "m", "m.py", keep_nodes=True)
    assert plain.module == kept.module
    assert len(plain.nodes) == len(kept.nodes)
    assert all(node is not None for node in kept.nodes)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a b'", "a b"), ("b'B/d'", b"B/d"), ("'''x\ny'''", "x\ny"), ('"a" "b"', "ab"), (r"r'\d'", r"\d"),
        (r"'\x41\n'", "A\n"), ("''", ""), ("''''''", ""), ("u'z'", "z"), ("0x1F", 31), ("1_000", 1000), ("2j", 2j),
        ("...", ...), ("True", True), ("None", None), (r"rb'\x'", rb"\x"),
    ],
)  # fmt: skip
def test_literals(text: str, value: object) -> None:
    (statement,) = body(f"x = {text}\n")
    assert isinstance(statement, ir.Assign)
    assert isinstance(statement.value, ir.Const)
    assert statement.value.value == value
    assert type(statement.value.value) is type(value)


def test_one_index_with_a_comma_is_a_tuple() -> None:
    (statement,) = body("x[1,]\n")
    assert isinstance(statement, ir.ExprStmt)
    assert isinstance(statement.value, ir.Subscript)
    assert isinstance(statement.value.index, ir.Sequence)


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        (b"x = (\n", 1, 5, "the file is not valid Python: '(' was never closed"),
        (b"x = 1\ny = \xff\n", 2, 5, NOT_UTF8),
        (b"# coding: nonsense\n", 1, 1, NO_ENCODING),
        (b"x = b'a' 'b'\n", 1, 1, "the file is not valid Python: cannot mix bytes and nonbytes literals"),
        (b"(" * 100_000, 1, 1, "the code is nested too deeply to be read"),
        (b"x = " + b"(" * 3000 + b")" * 3000, 1, 1, "the code is nested too deeply to be read"),
        (b"x = " + b"-" * 20_000 + b"1", 1, 1, "the code is nested too deeply to be read"),
    ],
)  # fmt: skip
def test_what_is_no_python_says_where(
    source: bytes, line: int, column: int, message: str
) -> None:
    with pytest.raises(UnparsableFile) as caught:
        lower(source, "m", "m.py")
    assert (caught.value.line, caught.value.message) == (line, message)
    assert caught.value.column == column


def test_a_long_run_of_string_literals() -> None:
    (statement,) = body("x = (" + "'a'\n" * 2000 + ")\n")
    assert isinstance(statement, ir.Assign)
    assert isinstance(statement.value, ir.Const)
    assert statement.value.value == "a" * 2000


def test_template_strings_are_followed_no_further() -> None:
    for text in ('x = t"{a}"\n', 'x = t"{a}" "b"\n'):
        (statement,) = body(text)
        assert isinstance(statement, ir.Assign)
        assert statement.value == ir.Opaque(statement.value.at, "TemplatedString")


def test_a_form_that_libcst_gives_up_is_refused() -> None:
    refuses_cleanly(b'x = t"{a}" t"b"\n')


def test_what_only_libcst_refuses_is_said_to_be_so() -> None:
    with pytest.raises(
        UnparsableFile,
        match=r"Python accepts this line, but shardlint's parser \(libcst\) does not",
    ):
        lower(LIBCST_REFUSES, "m", "m.py")


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\n",
        b"\xef\xbb\xbfx = 1\n",
        b"# coding: latin-1\nx = '\xe9'\n",
        b"x = 1\r\ny = 2\r\n",
    ],
)
def test_unusual_but_valid_files(source: bytes) -> None:
    lower(source, "m", "m.py")


def refuses_cleanly(source: bytes) -> None:
    try:
        lower(source, "m", "m.py")
    except UnparsableFile as error:
        assert error.line >= 1
        assert error.column >= 1
        assert error.message


@given(
    st.text(max_size=60).map(lambda t: t.encode("utf-8", "surrogatepass"))
    | st.binary(max_size=60)
)
def test_arbitrary_text_lowers_or_is_refused(source: bytes) -> None:
    refuses_cleanly(source)


@given(
    st.randoms(use_true_random=False),
    st.sampled_from(
        [b"", b"(", b")", b"'", b"\\", b"\n", b"    ", b"\xc3", b":", b"*", b"0"]
    ),
)
def test_mutated_programs_lower_or_are_refused(
    rng: random.Random, insert: bytes
) -> None:
    at = rng.randrange(len(PROGRAM))
    refuses_cleanly(PROGRAM[:at] + insert + PROGRAM[at + rng.randrange(3) :])


@pytest.mark.parametrize("part", range(4))
def test_the_standard_library_lowers(part: int) -> None:
    """A sample of it; every file with a byte order mark, odd encoding or new syntax included."""
    for path in STDLIB[part::16]:
        lower(path.read_bytes(), path.stem, str(path))


def test_statements_of_a_stub_are_never_run() -> None:
    """A stub that tests a type checker holds calls that are wrong; what it declares is read all the same."""
    source = b"import numpy as np\nnp.sum(a, axis=1.0)\nassert_type(np.concatenate([1]), int)\nx: int\n"
    run, stub = (lower(source, "m", path).module.body for path in ("m.py", "m.pyi"))
    assert [type(one) for one in run] == [type(one) for one in stub]
    assert [isinstance(one, ir.ExprStmt) and isinstance(one.value, ir.Opaque) for one in stub] == [
        False, True, True, False
    ]  # fmt: skip
    assert not any(
        isinstance(one, ir.ExprStmt) and isinstance(one.value, ir.Opaque) for one in run
    )
