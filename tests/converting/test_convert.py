"""``shardlint convert``: each form from each other one, what is not touched, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlint.converting.files import convert
from tests.support import run_linter

pytestmark = pytest.mark.once

FORMS = ("short", "array", "annotated")

SHORT = '''\
"""Model."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
from shardtypes import Array, f32, i32, key, typechecked

Batch = f32["B/d M"]
Pair = tuple[Batch, "i32['B'] | None"]
Layers = Array["layers", f32["M"]]


@dataclass
class Layer:
    """Not f32["B"]."""

    w: f32["M F"]  # f32["M F"]
    b: f32[
        # why
        "F",
    ]
    key: key["2"]


@typechecked
def apply(
    x: f32["B M"], layer: Layer, *rest: f32["B"],
    key: key["2"] = None, **more: "f32['B']"
) -> list[f32["B F"]]:
    y: f32["B F"] = x @ layer.w
    é: 'f32["B F"] | None' = y; z: f32["B F"] = y
    text = "f32['B']"
    return [y]
'''
ARRAY = '''\
"""Model."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from shardtypes import Array, typechecked
from shardtypes.annotated import f32, i32, key

Batch = f32[jax.Array, "B/d M"]
Pair = tuple[Batch, "i32[jax.Array, 'B'] | None"]
Layers = Array["layers", f32["M"]]


@dataclass
class Layer:
    """Not f32["B"]."""

    w: f32[jax.Array, "M F"]  # f32["M F"]
    b: f32[
        # why
        jax.Array, "F",
    ]
    key: key[jax.Array, "2"]


@typechecked
def apply(
    x: f32[jax.Array, "B M"], layer: Layer, *rest: f32[jax.Array, "B"],
    key: key[jax.Array, "2"] = None, **more: "f32[jax.Array, 'B']"
) -> list[f32[jax.Array, "B F"]]:
    y: f32[jax.Array, "B F"] = x @ layer.w
    é: 'f32[jax.Array, "B F"] | None' = y; z: f32[jax.Array, "B F"] = y
    text = "f32['B']"
    return [y]
'''


def test_a_whole_file() -> None:
    assert convert(SHORT, "array").text == ARRAY


BODY = "\n\ndef f(x: {}) -> {}:\n    return x\n"


def program(imports: str, annotation: str) -> str:
    text = imports + BODY.format(annotation, annotation)
    if "import jax" not in imports:
        return text
    name = "j" if "jax as j" in imports else "jax"
    return f"{text}\n\n{name}.jit(f)\n"


CHECKING = "import jax\nfrom typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    "
#: Imports and an annotation, in each form.
CASES = {
    "names": (
        ("from shardtypes import f32", 'f32["B"]'),
        ("from jax import Array\nfrom shardtypes.annotated import f32", 'f32[Array, "B"]'),
        (
            "from typing import Annotated\n\nfrom jax import Array\nfrom shardtypes import f32",
            'Annotated[Array, f32["B"]]',
        ),
    ),
    "jax is there": (
        ("import jax\nfrom shardtypes import Mesh, f8_e5m2, f32", '"f32[\'B\'] | f8_e5m2[\'B\']"'),
        (
            "import jax\nfrom shardtypes import Mesh\nfrom shardtypes.annotated import f8_e5m2, f32",
            '"f32[jax.Array, \'B\'] | f8_e5m2[jax.Array, \'B\']"',
        ),
        (
            "from typing import Annotated\n\nimport jax\nfrom shardtypes import Mesh, f8_e5m2, f32",
            '"Annotated[jax.Array, f32[\'B\']] | Annotated[jax.Array, f8_e5m2[\'B\']]"',
        ),
    ),
    "a name for jax": (
        ("import jax as j\nfrom shardtypes import f32 as F", 'F["B"]'),
        ("import jax as j\nfrom shardtypes.annotated import f32 as F", 'F[j.Array, "B"]'),
        (
            "from typing import Annotated\n\nimport jax as j\nfrom shardtypes import f32 as F",
            'Annotated[j.Array, F["B"]]',
        ),
    ),
    "the package": (
        ("import jax\nimport shardtypes as st\n\nst.typechecked", 'st.f32["B"]'),
        (
            "import jax\nimport shardtypes as st\nfrom shardtypes import annotated\n\nst.typechecked",
            'annotated.f32[jax.Array, "B"]',
        ),
        (
            "from typing import Annotated\n\nimport jax\nimport shardtypes as st\n\nst.typechecked",
            'Annotated[jax.Array, st.f32["B"]]',
        ),
    ),
    "nothing but the package": (
        ("import jax\nimport shardtypes", 'shardtypes.f32["B"]'),
        ("import jax\nfrom shardtypes import annotated", 'annotated.f32[jax.Array, "B"]'),
        ("from typing import Annotated\n\nimport jax\nimport shardtypes", 'Annotated[jax.Array, shardtypes.f32["B"]]'),
    ),
    "names on lines": (
        (
            "import jax\nfrom shardtypes import (\n    Array,  # stacked\n    f32,\n    typechecked,\n)",
            'list[f32[b"B"]]',
        ),
        (
            "import jax\nfrom shardtypes import (\n    Array,  # stacked\n    typechecked,\n)\n"
            "from shardtypes.annotated import f32",
            'list[f32[jax.Array, b"B"]]',
        ),
        (
            "from typing import Annotated\n\n"
            "import jax\nfrom shardtypes import (\n    Array,  # stacked\n    f32,\n    typechecked,\n)",
            'list[Annotated[jax.Array, f32[b"B"]]]',
        ),
    ),
    "for checkers alone": (
        (CHECKING + "from shardtypes import f32", '"f32[\'B\']"'),
        (
            CHECKING + "from shardtypes.annotated import f32",
            '"f32[jax.Array, \'B\']"',
        ),
        (
            CHECKING.replace("ING\n", "ING, Annotated\n") + "from shardtypes import f32",
            '"Annotated[jax.Array, f32[\'B\']]"',
        ),
    ),
}  # fmt: skip
PAIRS = [(a, b) for a in range(3) for b in range(3)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_each_form_from_each_other(case: str, before: int, after: int) -> None:
    text = program(*CASES[case][before])
    wanted = program(*CASES[case][after])
    made = convert(text, FORMS[after])
    assert made.text == wanted
    assert not made.refusals
    assert made.count == (
        0 if before == after else text.count("'B'") + text.count('"B"')
    )


LINES = (
    'from shardtypes.annotated import f32\nfrom jax import Array\nx: f32[\n    Array,  # an array\n    "B",\n]\n',
    'from shardtypes import f32\nx: f32[\n      # an array\n    "B"\n]\n',
)


def test_comments_stay() -> None:
    assert convert(LINES[0], "short").text == LINES[1]
    text = (
        "import jax\nfrom typing import Annotated\nfrom shardtypes import f32\n"
        'x: Annotated[  # why\n    jax.Array,\n    f32["B"],  # and what\n]\n'
    )
    made = convert(text, "short").text
    assert '\nx: (  # why\n    f32["B"]  # and what\n)\n' in made
    compile(made, "made.py", "exec")
    plain = text.replace("  # why", "").replace("  # and what", "")
    assert convert(plain, "short").text.endswith('\nx: f32["B"]\n')


HEAD = "import jax\nfrom shardtypes import f32\n"
#: Programs that cannot be converted, to what, the line, and a part of what is said.
REFUSED = (
    (HEAD + 'x: f32["B"]\nisinstance(x, f32)\n', "array", 4, "from shardtypes import f32 as f32_type"),
    (HEAD + 'x: f32["B"]\nisinstance(x, f32["B"])\n', "array", 4, "'f32' is used as a value"),
    (HEAD + 'B = f32["B"]\nisinstance(1, B)\n', "annotated", 4, "'B' is used as a value"),
    (HEAD + 'x: "f32[\'B" "\']"\n', "array", 3, "write it as one plain string"),
    (HEAD + 'x: f32["B"]\nf32 = 3\n', "array", 3, "'f32' does not always mean"),
    (HEAD + 'x: f32["B"]\nAnnotated = 3\n', "annotated", 3, "needs 'Annotated', that of typing"),
    (HEAD[11:] + 'x: f32["B"]\nArray = 3\njax = 3\n', "array", 2, "needs 'jax', the module"),
    ("from shardtypes import *\n" + 'x: f32["B"]\n', "array", 2, "with a star or inside a function"),
    ('def f():\n    from shardtypes import f32\n    x: f32["B"] = 1\n', "array", 3, "inside a function"),
    (
        "from typing import Annotated\n" + HEAD + 'x: Annotated[jax.Array, f32["B"], "more"]\ny: f32["B"]\n',
        "array", 4, "take it away",
    ),
)  # fmt: skip


@pytest.mark.parametrize(("text", "form", "line", "why"), REFUSED)
def test_what_cannot_be_converted_is_refused(
    text: str, form: str, line: int, why: str
) -> None:
    made = convert(text, form)
    assert made.text == text
    assert made.count == 0
    refusal, *_ = made.refusals
    assert refusal.line == line
    assert why in refusal.text


#: Programs in which nothing is to be converted.
ALONE = (
    HEAD + 'Layers = Array["layers", f32["B"]]\n',
    HEAD + 'isinstance(1, f32["B"])\nx = {"f32": f32["B"]}\n',
    'from mine import f32\nx: f32["B"]\n',
    'import jax\nfrom jaxtyping import Float\nx: Float[jax.Array, "b"]\n',
    HEAD + "SHAPE = 'B'\nx: f32[SHAPE]\n",
    HEAD + 'def f(f32):\n    x: f32["B"] = 1\n',
    "from typing import Literal\n" + HEAD + "x: Literal[\"f32['B']\"]\n",
    "",
)


@pytest.mark.parametrize("text", ALONE)
def test_what_is_no_annotation_of_an_array_stays(text: str) -> None:
    head = "from shardtypes import Array\n" if "Array[" in text else ""
    for form in ("array", "annotated"):
        made = convert(head + text, form)
        assert made.text == head + text
        assert not made.refusals


def test_types_as_values_are_converted() -> None:
    text = (
        HEAD
        + 'from typing import cast\ny = cast(f32["B"], 1)\nz = cast("f32[\'B\']", 1)\n'
    )
    made = convert(text, "array").text
    assert 'cast(f32[jax.Array, "B"], 1)' in made
    assert "cast(\"f32[jax.Array, 'B']\", 1)" in made


def test_an_import_that_others_use_stays() -> None:
    text = 'from jax import Array\nfrom shardtypes.annotated import f32\nx: f32[Array, "B"]\ny: Array\n'
    assert convert(text, "short").text.startswith("from jax import Array\n")
    text = text.replace("y: Array", '__all__ = ["Array"]')
    assert convert(text, "short").text.startswith("from jax import Array\n")


# --- the command ----------------------------------------------------------------------------------------------------


def test_files_are_written(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(SHORT.replace("\n", "\r\n").encode("utf-8-sig"))
    done = run_linter("convert", "--to", "array", "model.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "shardlint: converted 13 annotations in 1 file\n"
    text = path.read_bytes().decode("utf-8-sig")
    assert text == ARRAY.replace("\n", "\r\n")
    done = run_linter("convert", "--to", "array", cwd=tmp_path)
    assert done.stderr == "shardlint: nothing to convert\n"


def test_a_difference_leaves_the_files_alone(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SHORT)
    done = run_linter("convert", "--to", "array", "--diff", cwd=tmp_path)
    assert done.returncode == 0
    assert "--- a/model.py\n+++ b/model.py\n" in done.stdout
    assert '+    w: f32[jax.Array, "M F"]  # f32["M F"]\n' in done.stdout
    assert done.stderr == "shardlint: would convert 13 annotations in 1 file\n"
    assert (tmp_path / "model.py").read_text() == SHORT


def test_what_cannot_be_done_is_said_and_the_rest_is_done(tmp_path: Path) -> None:
    bad, _, _, _ = REFUSED[0]
    (tmp_path / "bad.py").write_text(bad)
    (tmp_path / "broken.py").write_text("def (\n")
    (tmp_path / "latin.py").write_bytes(b"x = '\xe9'\n")
    (tmp_path / "model.py").write_text(SHORT)
    notebook = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notes.ipynb").write_text(json.dumps(notebook))
    done = run_linter("convert", "--to", "array", ".", "gone.py", cwd=tmp_path)
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert lines[0].startswith("shardlint: gone.py")
    assert lines[1].startswith(
        "shardlint: bad.py:4:15: not converted: 'f32' is used as a value here"
    )
    assert lines[2].startswith("shardlint: broken.py:1:")
    assert lines[3].startswith("shardlint: latin.py")
    assert lines[4] == "shardlint: 1 notebook stays as it is"
    assert lines[5] == "shardlint: converted 13 annotations in 1 file"
    assert (tmp_path / "bad.py").read_text() == bad
    assert (tmp_path / "model.py").read_text() == ARRAY


def test_the_form_is_asked_for(tmp_path: Path) -> None:
    done = run_linter("convert", "--to", "arrays", cwd=tmp_path)
    assert done.returncode == 2
    assert "did you mean 'array'" in done.stderr
    done = run_linter("convert", cwd=tmp_path)
    assert done.returncode == 2
    assert "--to" in done.stderr


#: Imports that are awkward to change: before and after, in the array form.
AWKWARD = (
    (
        "import jax\nif 1:\n    import shardtypes as st\n{}",
        "import jax\nif 1:\n    pass\n    from shardtypes import annotated\n{}",
        "st.f32",
        "annotated.f32",
    ),
    (
        "import jax; from shardtypes import f32, typechecked\n{}",
        "import jax; from shardtypes import typechecked; from shardtypes.annotated import f32\n{}",
        "f32",
        "f32",
    ),
    (
        "import jax\nfrom shardtypes import (typechecked,  # first\n    f32,  # second\n)\n{}",
        "import jax\nfrom shardtypes import (typechecked,  # first\n      # second\n)\n"
        "from shardtypes.annotated import f32\n{}",
        "f32",
        "f32",
    ),
    (
        "import jax\nfrom shardtypes import f32, \\\n    typechecked\nfrom shardtypes.annotated import i32\n{}",
        "import jax\nfrom shardtypes import typechecked\nfrom shardtypes.annotated import f32, i32\n{}",
        "f32",
        "f32",
    ),
)


@pytest.mark.parametrize(("before", "after", "short", "array"), AWKWARD)
def test_awkward_imports(before: str, after: str, short: str, array: str) -> None:
    made = convert(before.format(f'x: {short}["B"]\n'), "array").text
    assert made == after.format(f'x: {array}[jax.Array, "B"]\n')
    compile(made, "made.py", "exec")


def test_a_block_of_imports_is_not_left_empty() -> None:
    text = (
        "from shardtypes import typechecked\nif 1:\n    from jax import Array\n"
        "    from shardtypes import annotated\nx: annotated.f32[Array, 'B']\nimport shardtypes\n"
    )
    made = convert(text, "short").text
    assert "if 1:\n    pass\nx: shardtypes.f32['B']\n" in made
