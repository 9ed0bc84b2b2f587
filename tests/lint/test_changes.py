"""Lists, dicts and names of a module that other code changes are unknown where they are used; others are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlint import changed_modules, ir
from shardlint.changes import Path as Way
from shardlint.changes import changes, returned_paths
from shardlint.config import find
from shardlint.lower import lower
from shardlint.project import Project
from shardlint.run import check

pytestmark = pytest.mark.once

PRIM = """\
import jax.numpy as jnp

STACK = []
SIZES = {"width": 3}
NESTED = {"sizes": {"width": 3}, "all": []}
WIDTH = 3
PAIR = ([], 3)
OTHER = STACK


def stack():
    return STACK


def push(items, item):
    items.append(item)


def push_on(items, item):
    push(items, item)


class Keeper:
    def __init__(self, items):
        self.items = items

    def keep(self, item):
        self.items.append(item)


def of_stack():
    return (jnp.zeros(()) if not STACK else jnp.zeros(3))[0]


def of_other():
    return (jnp.zeros(()) if not OTHER else jnp.zeros(3))[0]


def of_pair():
    return (jnp.zeros(()) if not PAIR[0] else jnp.zeros(3))[0]


def of_sizes():
    return jnp.zeros((2, 4)) + jnp.zeros(SIZES["width"])


def of_nested():
    return jnp.zeros((2, 4)) + jnp.zeros(NESTED["sizes"]["width"])


def of_width():
    return jnp.zeros((2, 4)) + jnp.zeros(WIDTH)
"""
#: What each line of another module makes right, one function of ``PRIM`` or several.
CHANGING = [
    ("from pack.prim import STACK\nSTACK.append(1)", "of_stack of_other"),
    ("from pack.prim import STACK as S\nS.append(1)", "of_stack of_other"),
    ("from pack import prim\nprim.STACK.append(1)", "of_stack of_other"),
    ("from pack import prim as p\np.STACK.append(1)", "of_stack of_other"),
    ("import pack.prim\npack.prim.STACK.append(1)", "of_stack of_other"),
    ("import pack.prim as p\ndef run():\n    p.STACK.append(1)", "of_stack of_other"),
    (
        "from . import prim\nclass Plate:\n    def __enter__(self):\n        prim.STACK.append(self)",
        "of_stack of_other",
    ),
    ("from .prim import STACK\ndef run():\n    STACK.extend([1])", "of_stack of_other"),
    (
        "def run():\n    from .prim import STACK\n    STACK.extend([1])",
        "of_stack of_other",
    ),
    ("from .prim import *\nSTACK.append(1)", "of_stack of_other"),
    ("from pack import *\nSTACK.append(1)", "of_stack of_other"),
    ("from pack import STACK\nSTACK.append(1)", "of_stack of_other"),
    ("from pack.prim import STACK\nSTACK += [1]", "of_stack of_other"),
    ("from pack.prim import STACK\nSTACK[:] = [1]", "of_stack of_other"),
    (
        "from pack.prim import STACK\nstack = STACK\nstack.append(1)",
        "of_stack of_other",
    ),
    (
        "from pack import prim\ndef run(n):\n    a, b = prim.STACK, n\n    a.append(b)",
        "of_stack of_other",
    ),
    ("from pack.prim import STACK, push\npush(STACK, 1)", "of_stack of_other"),
    (
        "from pack.prim import STACK, push_on\npush_on(item=1, items=STACK)",
        "of_stack of_other",
    ),
    ("from pack.prim import STACK, Keeper\nKeeper(STACK).keep(1)", "of_stack of_other"),
    ("from pack.prim import stack\nstack().append(1)", "of_stack of_other"),
    ("from pack import prim\nheld = prim.stack()\nheld.append(1)", "of_stack of_other"),
    (
        "import heapq\nfrom pack.prim import STACK\nheapq.heappush(STACK, 1)",
        "of_stack of_other",
    ),
    ("from pack.prim import OTHER\nOTHER.append(1)", "of_stack of_other"),
    ("from pack.prim import PAIR\nPAIR[0].append(1)", "of_pair"),
    ("from pack.prim import PAIR\nfor one in PAIR[:1]:\n    one.append(1)", "of_pair"),
    ("import pack.prim as prim\nprim.SIZES['width'] = 4", "of_sizes"),
    ("from pack.prim import SIZES\nSIZES.update(width=4)", "of_sizes"),
    ("from pack.prim import SIZES\nSIZES |= {'width': 4}", "of_sizes"),
    (
        "from pack.prim import SIZES\ndef test(monkeypatch):\n    monkeypatch.setitem(SIZES, 'width', 4)",
        "of_sizes",
    ),
    (
        "from unittest import mock\n@mock.patch.dict('pack.prim.SIZES', width=4)\ndef test():\n    pass",
        "of_sizes",
    ),
    ("from pack.prim import NESTED\nNESTED['sizes']['width'] = 4", "of_nested"),
    (
        "from pack.prim import NESTED\nsizes = NESTED['sizes']\ndef run():\n    sizes['width'] = 4",
        "of_nested",
    ),
    (
        "from pack.prim import NESTED\nfor one in NESTED.values():\n    one['width'] = 4",
        "of_nested",
    ),
    ("from pack import prim\nprim.WIDTH = 4", "of_width"),
    ("from pack import prim\ndef run():\n    prim.WIDTH += 1", "of_width"),
    ("from pack import prim\nsetattr(prim, 'WIDTH', 4)", "of_width"),
    (
        "def test(monkeypatch):\n    monkeypatch.setattr('pack.prim.WIDTH', 4)",
        "of_width",
    ),
    (
        "from pack import prim\ndef test(monkeypatch):\n    monkeypatch.setattr(prim, 'WIDTH', 4)",
        "of_width",
    ),
]
#: What changes nothing of it.
LEAVING = [
    "from pack.prim import STACK\nprint(len(STACK), *STACK)",
    "STACK = []\nSTACK.append(1)",
    "from pack.prim import STACK\ndef run(STACK):\n    STACK.append(1)",
    "from pack.prim import STACK\ndef run():\n    STACK = []\n    STACK.append(1)",
    "from pack.prim import STACK\nSTACK = [*STACK, 1]",
    "from pack.prim import SIZES\nsizes = dict(SIZES)\nsizes['width'] = 4",
    "from pack.prim import SIZES\nsizes = {**SIZES, 'width': 4}\nsizes['width'] = 5",
    "from pack import prim\nWIDTH = prim.WIDTH\nWIDTH += 1",
    "from pack.prim import WIDTH\nWIDTH = 4",
    "class Other:\n    def __init__(self):\n        self.STACK = []\n        self.STACK.append(1)",
]
EVERY = {"of_stack", "of_other", "of_pair", "of_sizes", "of_nested", "of_width"}


def found(folder: Path, text: str, *paths: str, project: bool = True) -> set[str]:
    """The functions of ``PRIM`` that are reported."""
    if project:
        (folder / "pyproject.toml").write_text("[tool.shardlint]\n")
    (folder / "pack").mkdir(exist_ok=True)
    (folder / "pack" / "__init__.py").write_text("from pack.prim import *\n")
    (folder / "pack" / "prim.py").write_text(PRIM)
    (folder / "pack" / "main.py").write_text(text + "\n")
    report = check([str(folder / path) for path in paths or ("",)], find(folder))
    lines = PRIM.splitlines()
    names = set()
    for one in report.diagnostics:
        assert one.place.path.endswith("prim.py")
        above = [line for line in lines[: one.place.line] if line.startswith("def ")]
        names.add(above[-1][4:].partition("(")[0])
    return names


@pytest.mark.parametrize(("text", "functions"), CHANGING)
def test_what_other_modules_change_is_unknown(
    tmp_path: Path, text: str, functions: str
) -> None:
    """Also where the file was looked at before; everything else is what was written."""
    assert found(tmp_path, "") == EVERY
    assert found(tmp_path, text) == EVERY - set(functions.split())


@pytest.mark.parametrize("text", LEAVING)
def test_what_nothing_changes_is_what_was_written(tmp_path: Path, text: str) -> None:
    """Reading, copying, and names that are the same by chance."""
    assert found(tmp_path, text) == EVERY


def test_what_another_file_changes_is_unknown_in_a_run_over_some_files(
    tmp_path: Path,
) -> None:
    """The files beside it are read as well, where it is a project."""
    text = "from pack.prim import STACK\nSTACK.append(1)"
    assert found(tmp_path, text, "pack/prim.py") == EVERY - {"of_stack", "of_other"}


def test_what_is_left_empty_is_unknown_where_not_all_files_are_known(
    tmp_path: Path,
) -> None:
    """Others may fill it."""
    assert found(tmp_path, "", "pack/prim.py", project=False) == EVERY - {
        "of_stack",
        "of_other",
        "of_pair",
    }


def test_what_libraries_are_given_is_not_kept() -> None:
    """An outline is small."""
    text = "import jax.numpy as jnp\nimport os\n\ndef f(x):\n    return jnp.sum(jnp.sin(jnp.pi * x), os.sep)\n"
    assert changes(lower(text.encode(), "m", "m.py", False).module.body).made == ()


def test_each_function_is_read_once_however_many_ways_lead_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve functions that may each give what any other gives: ten thousand ways to one stack."""
    names = [f"give{i}" for i in range(12)]
    read = Counter[str]()

    def counted(node: ir.Function) -> Iterator[Way]:
        read[node.name] += 1
        return returned_paths(node)

    monkeypatch.setattr(changed_modules, "returned_paths", counted)
    others = {
        name: "".join(
            f"    if LEFT:\n        return {other}()\n"
            for other in names
            if other != name
        )
        for name in names
    }
    functions = "".join(
        f"def {name}():\n{body}    return STACK\n" for name, body in others.items()
    )
    text = f"STACK, LEFT = [], []\n{functions}def run():\n    give0().append(1)\n    give1().append(1)\n"
    project = Project(
        {"main": lower(text.encode(), "main", "main.py", False).module}, {}
    )
    assert changed_modules.changed_modules(project) == {"main": {"STACK": False}}
    assert read == dict.fromkeys(names, 1)
