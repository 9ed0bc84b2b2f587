"""The import hook: what it leaves as it was, its cached bytecode, modules it cannot take, and the switches."""

from __future__ import annotations

import importlib
import inspect
import json
import linecache
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import shardtypes as st
from tests.support import run_python

Load = Callable[..., Any]

SOURCE = '''"""The module's own text."""
from __future__ import annotations

import functools
from typing import Iterator

from shardtypes import f32


def logged(function):
    @functools.wraps(function)
    def run(*args, **kwargs):
        """Outside."""
        return function(*args, **kwargs)
    return run


@logged
def documented(x: f32['B M'],
               scale: float = 2.0) -> f32['B M']:
    """What it does."""
    y = x * scale
    return y


def fails(x: f32['B']) -> f32['B']:
    z = x + 1
    raise RuntimeError('here')


def only_locals(x):
    a: f32['B'] = x
    b: f32['B'] = x[1:]
    return b


def rows(x: f32['N M']) -> Iterator[f32['M']]:
    for row in x:
        yield row[1:]


async def later(x: f32['B']) -> f32['B']:
    return x[1:]


def plain(x):
    return x


class Model:
    width: f32['never checked here'] = 3

    def __call__(self, x: f32['B']) -> f32['B']:
        def inner(y: f32['C']) -> f32['C']:
            return y[1:]
        return inner(x)
'''


def forget() -> None:
    for module in [name for name in sys.modules if name.startswith("hooked_package")]:
        del sys.modules[module]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Write modules of a package and import one of them under the hook."""
    package = tmp_path / "hooked_package"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)

    def load(name: str, **sources: str) -> Any:
        for file, text in sources.items():
            (package / f"{file}.py").write_text(text)
        forget()
        importlib.invalidate_caches()
        linecache.clearcache()
        with st.install_import_hook("hooked_package") as hook:
            assert hook.packages == ("hooked_package",)
            return importlib.import_module(f"hooked_package.{name}")

    load.package = package  # type: ignore[attr-defined]  # for the tests to look into
    yield load
    forget()


def test_everything_annotated_is_checked(load: Load) -> None:
    model = load("model", model=SOURCE)
    x = jnp.ones(3)
    for run, message in (
        (
            lambda: model.documented(x),
            "documented: parameter 'x': rank is 1, expected 2",
        ),
        (
            lambda: model.only_locals(x),
            "only_locals: variable 'b': dimension 0 is 2, expected B = 3",
        ),
        (
            lambda: list(model.rows(jnp.ones((2, 3)))),
            "rows: the yielded value: dimension 0 is 2, expected M = 3",
        ),
        (
            lambda: model.Model()(x),
            "inner: the result: dimension 0 is 2, expected C = 3",
        ),
        (
            lambda: next(model.later(x).__await__()),
            "later: the result: dimension 0 is 2, expected B = 3",
        ),
    ):
        with pytest.raises(st.ShapeError) as caught:
            run()
        assert str(caught.value).startswith(message)
    with pytest.raises(Exception, match="documented: parameter 'scale'"):
        model.documented(jnp.ones((2, 2)), "wide")
    assert not hasattr(model.plain, "__wrapped__")


def test_tracebacks_signatures_and_sources_stay_as_written(load: Load) -> None:
    model = load("model", model=SOURCE)
    with pytest.raises(RuntimeError) as caught:
        model.fails(jnp.ones(2))
    last = traceback.extract_tb(caught.tb)[-1]
    assert (Path(last.filename).name, last.name, last.line) == (
        "model.py",
        "fails",
        "raise RuntimeError('here')",
    )
    assert last.lineno == SOURCE[: SOURCE.index("raise RuntimeError")].count("\n") + 1
    inner = inspect.unwrap(model.documented)
    assert (
        inner.__code__.co_firstlineno
        == SOURCE[: SOURCE.index("@logged")].count("\n") + 1
    )
    assert "y = x * scale" in inspect.getsource(inner)
    assert (
        model.documented.__doc__ == "What it does."
        and model.__doc__ == "The module's own text."
    )
    assert str(inspect.signature(model.documented)).startswith(
        "(x: \"f32['B M']\", scale: 'float' = 2.0)"
    )
    assert inspect.isgeneratorfunction(
        inspect.unwrap(model.rows)
    ) and inspect.iscoroutinefunction(model.later)


@pytest.mark.once
def test_breakpoints_stop_on_the_lines_as_written(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(SOURCE)
    line = next(
        i for i, text in enumerate(SOURCE.splitlines(), 1) if "y = x * scale" in text
    )
    program = (
        "import shardtypes; shardtypes.install_import_hook('stopped')\n"
        "import jax.numpy as jnp, stopped\n"
        "stopped.documented(jnp.ones((2, 3)))\n"
    )
    (tmp_path / "main.py").write_text(program)
    commands = [
        f"break {tmp_path / 'stopped.py'}:{line}",
        "continue",
        "p x.shape",
        "where",
        "next",
        "p y.shape",
        "where",
        "quit",
    ]
    options = [part for command in commands for part in ("-c", command)]
    done = run_python("-m", "pdb", *options, "main.py", cwd=tmp_path)
    assert f"Breakpoint 1 at {tmp_path / 'stopped.py'}:{line}" in done.stdout, (
        done.stdout + done.stderr
    )
    stopped = done.stdout
    assert f"stopped.py({line})documented()" in stopped
    assert "-> y = x * scale" in stopped and "(2, 3)" in stopped
    assert f"stopped.py({line + 1})documented()" in stopped and "-> return y" in stopped


def test_bytecode_is_cached_apart_from_pythons(load: Load) -> None:
    load("model", model=SOURCE)
    cache = load.package / "__pycache__"  # type: ignore[attr-defined]
    (ours,) = cache.glob("model.*shardtypes*.pyc")
    written = ours.stat().st_mtime_ns
    load("model")
    assert ours.stat().st_mtime_ns == written
    forget()
    plain = importlib.import_module("hooked_package.model")
    plain.only_locals(jnp.ones(3))  # without the hook Python's own code is loaded
    with pytest.raises(st.ShapeError, match="dimension 0 is 1, expected B = 3"):
        load(
            "model",
            model=SOURCE.replace("b: f32['B'] = x[1:]", "b: f32['B'] = x[2::1]"),
        ).only_locals(jnp.ones(3))
    ours.write_bytes(ours.read_bytes()[:16] + b"damaged")
    assert load("model", model=SOURCE).fails


@pytest.fixture
def usual_depth() -> Iterator[None]:
    """Python's own limit of recursion: hypothesis leaves higher ones behind."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("usual_depth")
def test_a_module_that_cannot_be_instrumented_is_named(load: Load) -> None:
    deep = (
        "from shardtypes import f32\nvalue = "
        + "+".join(["1"] * 900)
        + "\ndef f(x: f32['B B']): return x\n"
    )
    with pytest.warns(
        UserWarning,
        match=r"shardtypes cannot instrument hooked_package\.deep .*it is not checked",
    ):
        module = load("deep", deep=deep, model=SOURCE)
    assert module.value == 900 and module.f(3) == 3
    with pytest.raises(st.ShapeError):
        load("model").documented(jnp.ones(3))
    with pytest.raises(SyntaxError, match="invalid syntax"):
        load("broken", broken="def f(:\n  (")


def test_names_of_packages() -> None:
    for wrong in ("a-b", ["x", 3], ["a..b"]):
        with pytest.raises(
            ValueError, match="install_import_hook needs names of packages"
        ):
            st.install_import_hook(wrong)  # type: ignore[arg-type]


def test_checks_turned_off_while_the_program_runs() -> None:
    @st.typechecked
    def f(x: st.f32["B B"]) -> int:
        return 1

    try:
        st.enabled(False)
        assert f(jnp.ones(2)) == 1
        with st.enabled(True), pytest.raises(st.ShapeError):
            f(jnp.ones(2))
        assert f(jnp.ones(2)) == 1
    finally:
        st.enabled(True)
    with st.enabled(False):
        assert f(jnp.ones(2)) == 1
        st.check(st.f32, "B B", jnp.ones(2))
    with pytest.raises(st.ShapeError):
        f(jnp.ones(2))


@pytest.mark.once
def test_the_environment_turns_everything_off_at_no_cost(tmp_path: Path) -> None:
    (tmp_path / "off_package").mkdir()
    (tmp_path / "off_package" / "__init__.py").write_text(
        "from shardtypes import f32\ndef f(x: f32['B']): return x\n"
    )
    program = (
        "import json, sys\nimport shardtypes as st\n"
        "def f(x: st.f32['B']) -> st.f32['B']: return x\n"
        "class C:\n    def m(self, x: st.f32['B']): return x\n"
        "m = C.m\nst.install_import_hook('off_package')\nimport off_package\n"
        "print(json.dumps([st.typechecked(f) is f, st.typechecked(scope=True)(f) is f, st.typechecked(C).m is m,\n"
        "    hasattr(off_package.f, '__wrapped__'), any('shardtypes' in type(x).__module__ for x in sys.meta_path)]))\n"
    )
    done = run_python(
        "-c", program, env={"SHARDTYPES": "0", "PYTHONPATH": str(tmp_path)}
    )
    assert json.loads(done.stdout) == [True, True, True, False, False], done.stderr
    done = run_python(
        "-c", program, env={"SHARDTYPES": "1", "PYTHONPATH": str(tmp_path)}
    )
    assert json.loads(done.stdout) == [False, False, False, True, True], done.stderr
