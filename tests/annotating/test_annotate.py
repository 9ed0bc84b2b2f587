"""``shardlint annotate`` writes what functions prove of their parameters and results, and nothing that JAX denies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_linter, run_pytest

HEAD = "import jax\nimport jax.numpy as jnp\nfrom shardtypes import f32, i32\n\n\n"


def annotated(text: str, folder: Path, *arguments: str) -> str:
    """The text of a file after the command."""
    path = folder / "model.py"
    path.write_text(text)
    done = run_linter("annotate", "--no-evaluate", *arguments, "model.py", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return path.read_text()


RESULTS = [
    ('def f(x: f32["B M"], w: f32["M F"]):\n    return x @ w', 'f32["B F"]'),
    ('def f(x: f32["B M"]):\n    return x.sum(axis=0), 3', 'tuple[f32["M"], int]'),
    ('def f(x: f32["B M"]):\n    return [x, x]', 'list[f32["B M"]]'),
    ('def f(x: f32["B M"]):\n    return {"a": x, "b": x}', 'dict[str, f32["B M"]]'),
    (
        'def f(x: f32["B M"], n: int):\n    if n:\n        return x\n    return None',
        'f32["B M"] | None',
    ),
    ('def f(x: f32["B M"]):\n    return jnp.concatenate([x, x])', 'f32["2*B M"]'),
    ('def f(x: f32["B M"]):\n    return x.mean(axis=1, keepdims=True)', 'f32["B 1"]'),
    ('def f(x: f32["B/d M/t"]):\n    return x.T', 'f32["M/t B/d"]'),
    ('def f(x: f32["B M"]):\n    return jnp.argmax(x, axis=-1)', 'i32["B"]'),
    ('def f(x: f32["B M"]):\n    return jnp.zeros((7, 5))', 'f32["7 5"]'),
    ('def f(x: f32["B M"]) -> jax.Array:\n    return x.T', 'f32["M B"]'),
    ('def f(x: f32["B M"]) -> "jax.Array":\n    return x.T', 'f32["M B"]'),
]


@pytest.mark.once
@pytest.mark.parametrize(("function", "result"), RESULTS)
def test_results(function: str, result: str, tmp_path: Path) -> None:
    text = annotated(HEAD + function + "\n", tmp_path)
    assert f") -> {result}:" in text


UNKNOWN = [
    "def f(x):\n    return x + 1",
    'def f(x: f32["B M"]):\n    return x, unknown()',
    'def f(x: f32["B M"]):\n    return [x, x.T]',
    'def f(x: f32["B M"]):\n    yield x',
    'def f(x: f32["B M"]):\n    print(x)',
    'def f(x: f32["B M"]):\n    raise NotImplementedError',
]


@pytest.mark.once
@pytest.mark.parametrize("function", UNKNOWN)
def test_what_is_not_known_is_not_written(function: str, tmp_path: Path) -> None:
    text = HEAD + function + "\n"
    assert annotated(text, tmp_path) == text


@pytest.mark.once
def test_the_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HEAD + UNKNOWN[0] + "\n")
    done = run_linter("annotate", "model.py", cwd=tmp_path)
    assert "model.py::f is not annotated: its result is not known" in done.stderr
    assert "nothing to annotate" in done.stderr


@pytest.mark.once
def test_functions_without_arrays_are_not_named(tmp_path: Path) -> None:
    text = 'def f(n: int):\n    if n:\n        return "a"\n    return None\n'
    (tmp_path / "model.py").write_text(HEAD + text)
    done = run_linter("annotate", "model.py", cwd=tmp_path)
    assert done.stderr == "shardlint: nothing to annotate\n"


PARAMETERS = [
    ("def f(x):\n    b, t = x.shape\n    return x", 'x: anydtype["b t"]'),
    ("def f(x=None):\n    return x", "x=None"),
    ("def f(x):\n    x = x.reshape(-1)\n    b, = x.shape\n    return x", "x"),
    (
        'def f(x, y: f32["b"]):\n    b, t = x.shape\n    return x',
        'x: anydtype["_ t"], y: f32["b"]',
    ),
]


@pytest.mark.once
@pytest.mark.parametrize(("function", "parameters"), PARAMETERS)
def test_parameters(function: str, parameters: str, tmp_path: Path) -> None:
    text = annotated(HEAD + function + "\n", tmp_path)
    assert f"def f({parameters})" in text


@pytest.mark.once
def test_sizes_of_settings_are_no_numbers(tmp_path: Path) -> None:
    """Who changes the setting does not want to change annotations."""
    text = 'WIDTH = 512\n\n\ndef f(x: f32["B M"]):\n    return jnp.zeros((x.shape[0], WIDTH))\n'
    assert '-> f32["B _"]:' in annotated(HEAD + text, tmp_path)


@pytest.mark.once
def test_what_a_parameter_is_tells_what_the_function_gives(tmp_path: Path) -> None:
    text = "def f(x):\n    b, t = x.shape\n    return jnp.sum(x, axis=1)\n"
    new = annotated(HEAD + text, tmp_path)
    assert 'def f(x: anydtype["b t"]) -> anydtype["b"]:' in new


BODY = "\n\ndef f(\n    x: \"f32['B M']\",  # not )\n):\n    return x > 0\n"
IMPORTS = [
    ("from shardtypes import f32", "from shardtypes import f32, bool_"),
    ("from shardtypes import (f32)", "from shardtypes import (f32, bool_)"),
    ("from shardtypes import (f32,)", "from shardtypes import (f32, bool_)"),
    (
        "from shardtypes import (\n    f32,\n)",
        "from shardtypes import (\n    f32,\n    bool_,\n)",
    ),
    (
        "from shardtypes import (\n    f32\n)",
        "from shardtypes import (\n    f32,\n    bool_,\n)",
    ),
    (
        "from shardtypes import f32, bool_ as flag",
        "from shardtypes import f32, bool_ as flag",
    ),
    (
        '"""Doc."""\n\nimport jax\n\nif jax:\n    from shardtypes import f32',
        '"""Doc."""\n\nimport jax\nfrom shardtypes import bool_\n\nif jax:\n    from shardtypes import f32',
    ),
]


@pytest.mark.once
@pytest.mark.parametrize(("before", "after"), IMPORTS)
def test_imports(before: str, after: str, tmp_path: Path) -> None:
    name = "flag" if "as flag" in before else "bool_"
    text = annotated(before + BODY, tmp_path).replace('["B M"]:', "['B M']:")
    assert text == (after + BODY).replace("\n):", f"\n) -> {name}['B M']:")
    compile(text, "model.py", "exec")


@pytest.mark.once
def test_the_package_itself_may_be_imported(tmp_path: Path) -> None:
    text = 'import shardtypes as st\n\n\ndef f(x: st.f32["B"]):\n    return x\n'
    assert annotated(text, tmp_path) == text.replace("):", ') -> st.f32["B"]:')


@pytest.mark.once
def test_a_name_that_is_in_use_is_not_shadowed(tmp_path: Path) -> None:
    text = (
        "from shardtypes import f32\n\n\ndef bool_(x):\n    return x\n"
        + BODY.replace('"', "")
    )
    (tmp_path / "model.py").write_text(text)
    done = run_linter("annotate", "model.py", cwd=tmp_path)
    assert "'bool_' means something else in this file" in done.stderr
    assert (tmp_path / "model.py").read_text() == text


@pytest.mark.once
def test_a_difference_leaves_the_files_alone(tmp_path: Path) -> None:
    text = HEAD + RESULTS[0][0] + "\n"
    (tmp_path / "model.py").write_text(text)
    done = run_linter("annotate", "--diff", "model.py", cwd=tmp_path)
    assert '+def f(x: f32["B M"], w: f32["M F"]) -> f32["B F"]:' in done.stdout
    assert "would annotate 1 function in 1 file" in done.stderr
    assert (tmp_path / "model.py").read_text() == text


@pytest.mark.once
def test_one_function(tmp_path: Path) -> None:
    both = RESULTS[0][0] + "\n\n\n" + RESULTS[0][0].replace("def f", "def g") + "\n"
    path = tmp_path / "model.py"
    path.write_text(HEAD + both)
    done = run_linter("annotate", "model.py::g", cwd=tmp_path)
    assert done.returncode == 0
    lines = path.read_text().splitlines()
    heads = [line for line in lines if line.startswith("def ")]
    assert [" -> " in line for line in heads] == [False, True]
    done = run_linter("annotate", "model.py::h", cwd=tmp_path)
    assert done.returncode == 2
    assert "model.py: no function 'h' lacks an annotation" in done.stderr


@pytest.mark.once
def test_what_annotations_uncover_is_reported(tmp_path: Path) -> None:
    """The caller passes what the function cannot take; without its annotation nothing was known of it."""
    text = (
        "def f(x):\n    b, t = x.shape\n    return jnp.zeros((b, t))\n\n\n"
        "def g(load):\n    y = load()\n    a, b, c = y.shape\n    return f(y)\n"
    )
    (tmp_path / "model.py").write_text(HEAD + text)
    done = run_linter("annotate", "--no-evaluate", "model.py", cwd=tmp_path)
    assert done.returncode == 1
    assert (
        "argument x of f: expected 'b t', got 'a b c': rank is 3, expected 2"
        in done.stdout
    )
    assert "1 finding that the annotations make" in done.stderr


METHODS = """\
import dataclasses


@dataclasses.dataclass
class Layer:
    w: f32["M F"]

    def __call__(self, x: f32["B _"]):
        return jnp.zeros((x.shape[0], self.w.shape[1]))

    @staticmethod
    def twice(x: f32["B"]):
        def inner(y: f32["B"]):
            return y * 2
        return inner(x)
"""


@pytest.mark.once
def test_methods_and_nested_functions(tmp_path: Path) -> None:
    text = annotated(HEAD + METHODS, tmp_path)
    assert 'def __call__(self, x: f32["B _"]) -> f32["B F"]:' in text
    assert 'def twice(x: f32["B"]) -> f32["B"]:' in text
    assert 'def inner(y: f32["B"]) -> f32["B"]:' in text


CALLS = """
import jax.numpy as jnp
import model
import pytest

ARGUMENTS = {"B": 4, "M": 6, "F": 8, "b": 4, "t": 6}


@pytest.mark.parametrize("name", [one for one in dir(model) if one.startswith("case_")])
def test_case(name):
    function = getattr(model, name)
    made = [jnp.zeros(model.SHAPES[key]) for key in model.GIVEN[name]]
    function(*made)
"""


@pytest.mark.long
def test_jax_agrees_with_what_is_written(tmp_path: Path) -> None:
    """Annotated functions are called under ``pytest --shardtypes``, which checks every annotation."""
    shapes = {"x": (4, 6), "w": (6, 8)}
    text = HEAD
    given = {}
    for number, (function, _) in enumerate([*RESULTS, *PARAMETERS]):
        name = f"case_{number}"
        text += function.replace("def f", f"def {name}") + "\n\n\n"
        if ", n: int" not in function and "y: f32" not in function:
            given[name] = "xw" if ", w:" in function else "x"
    text += f"SHAPES = {shapes!r}\nGIVEN = {given!r}\n"
    new = annotated(text, tmp_path)
    assert new.count(" -> ") >= len(RESULTS)
    calls = CALLS.replace('dir(model) if one.startswith("case_")', "model.GIVEN")
    (tmp_path / "test_calls.py").write_text(calls)
    done = run_pytest("-q", "--shardtypes", "test_calls.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert f"{len(given)} passed" in done.stdout


@pytest.mark.parametrize("name", ["all_gather", "psum_scatter"])
def test_a_collective_outside_of_mapped_code_says_so(name: str, tmp_path: Path) -> None:
    text = f'from jax import lax\n\n\ndef f(x):\n    return lax.{name}(x.reshape(2, 3), "t")\n'
    (tmp_path / "model.py").write_text(text)
    done = run_linter("annotate", "--diff", "model.py", cwd=tmp_path)
    assert "a collective in code that nothing says is mapped" in done.stderr
    assert "no model" not in done.stderr
