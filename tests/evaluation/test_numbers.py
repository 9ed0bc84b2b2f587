"""What a program computes here is what it computes under JAX, on as many devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardlint.evaluation import guards, meshes, modules
from shardlint.evaluation.errors import NotEvaluable
from shardtypes.semantics.array import NotConcrete
from shardtypes.semantics.primitive import evaluation
from tests.evaluation.changes import CHANGES, PROGRAMS, source
from tests.evaluation.running import evaluated
from tests.support import run_python

pytestmark = pytest.mark.once  # what programs compute does not change with JAX

UNDER_JAX = """
import sys
from tests.support import force_devices
force_devices(8)
import importlib.util, jax, numpy as np
jax.config.update("jax_enable_x64", False)
texts, answers = sys.argv[1].split(","), sys.argv[2].split(",")
for text, answer in zip(texts, answers):
    spec = importlib.util.spec_from_file_location("program", text)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    np.savez(answer, *[np.asarray(leaf) for leaf in jax.tree.leaves(module.main())])
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Path]]:
    """Every program and every mistake, with what JAX computes for it on eight devices."""
    folder = tmp_path_factory.mktemp("programs")
    texts = {path.stem: source(path.stem) for path in PROGRAMS.glob("*.py")}
    texts.update(
        {f"{one.program}-{one.name}": one.text for one in CHANGES if not one.diverges}
    )
    found = {}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
        found[name] = text, folder / f"{name}.npz"
    paths = ",".join(str(folder / f"{name}.py") for name in found)
    answers = ",".join(str(path) for _, path in found.values())
    ended = run_python("-c", UNDER_JAX, paths, answers)
    assert ended.returncode == 0, ended.stderr
    return found


@pytest.mark.parametrize(
    "name",
    [
        *sorted(path.stem for path in PROGRAMS.glob("*.py")),
        *(f"{one.program}-{one.name}" for one in CHANGES if not one.diverges),
    ],
)
def test_programs_compute_what_jax_computes(
    programs: dict[str, tuple[str, Path]], name: str
) -> None:
    text, answer = programs[name]
    with np.load(answer) as expected:
        wanted = [expected[key] for key in expected.files]
    found = evaluated(text)
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


HOSTILE = {
    "file": "open('x', 'w')",
    "import": "import os\nos.system('true')",
    "from": "from subprocess import run\nrun(['true'])",
    "class": "().__class__.__base__.__subclasses__()",
    "globals": "(lambda: 0).__globals__['x']",
    "frame": "(x for x in ()).gi_frame.f_back",
    "code": "(lambda: 0).__code__.co_consts",
    "format": "'{0.__class__.__mro__}'.format(1)",
    "getattr": "getattr((), '__cl' + 'ass__').__base__.__subclasses__()",
    "eval": "eval('1')",
    "numpy": "import numpy as np\nnp.load('x')",
    "numpy text": "import numpy as np\nnp.savetxt('x', np.ones(3))",
    "numpy class": "import numpy as np\nnp.memmap('x')",
    "numpy settings": "import numpy as np\nnp.seterr(all='raise')",
    "numpy module": "import numpy as np\nnp.ctypeslib.load_library('c', '.')",
    "dump": "import numpy as np\nnp.ones(3).tofile('x')",
    "traceback": "try:\n    1 / 0\nexcept Exception as error:\n    error.__traceback__.tb_frame",
    "type": "type('A', (), {}).__subclasses__()",
    "endless": "while True:\n    pass",
    "endless membership": "import sys\n'os' in sys.modules",
    "endless list": "import sys\nlist(sys.path)",
    "endless loop over a name": "import sys\nfor path in sys.path:\n    pass",
    "endless unpacking": "import sys\nfirst, *rest = sys.path",
    "endless display": "import sys\n{**dict(sys.modules)}",
    "endless argument list": "import sys\nprint(*sys.path)",
    "endless type": "1 in list",
    "power": "9 ** 9 ** 9",
    "string": "'a' * 10 ** 12",
    "list": "[0] * 10 ** 12",
    "array": "import numpy as np\nnp.zeros((10 ** 6, 10 ** 6))",
    "outer sum": "import numpy as np\nx = np.zeros(10 ** 6)\nx[:, None] + x",
    "outer product": "import numpy as np\nx = np.zeros(10 ** 6)\nx[:, None] @ x[None]",
    "np.outer": "import numpy as np\nx = np.zeros(10 ** 6)\nnp.outer(x, x)",
    "np.add.outer": "import numpy as np\nx = np.zeros(10 ** 6)\nnp.add.outer(x, x)",
    "np.linalg.outer": "import numpy as np\nx = np.zeros(10 ** 6)\nnp.linalg.outer(x, x)",
    "np.tri": "import numpy as np\nnp.tri(10 ** 6)",
    "np.vander": "import numpy as np\nnp.vander(np.zeros(10 ** 6))",
    "np.add": "import numpy as np\nx = np.zeros(10 ** 6)\nnp.add(x[:, None], x)",
    "meshgrid": "import numpy as np\nx = np.zeros(10 ** 4)\nnp.meshgrid(x, x, x)",
    "indexing": "import numpy as np\ni = np.zeros(5_000, int)\nnp.zeros((9, 9))[i[:, None], i]",
    "windows": "import numpy as np\nnp.lib.stride_tricks.sliding_window_view(np.zeros(10 ** 6), 10 ** 5)",
    "many arrays": "import numpy as np\n[np.zeros(10 ** 6) for _ in range(10 ** 4)]",
    "jax array": "import jax.numpy as jnp\njnp.zeros((10 ** 6, 10 ** 6)).sum().item()",
    "recursion": "def f():\n    return f()\nf()",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_program_reaches_nothing_outside_of_its_world(name: str) -> None:
    body = "".join(f"    {line}\n" for line in HOSTILE[name].split("\n"))
    text = f"def main():\n{body}\nif __name__ == '__main__':\n    main()\n"
    world = modules.World(
        lambda name, importer: (
            ("program", "program.py", text) if name == "program" else None
        )
    )
    refused = pytest.raises((NotEvaluable, NotConcrete, RecursionError))
    with (
        evaluation(),
        meshes.on_machine(meshes.Machine(8)),
        guards.running(guards.Run(20_000)),
        refused,
    ):
        world.run_program("program")


OF_NUMPY = {
    "triangle": "x[np.tril_indices(4, k=-1)]",
    "accumulate": "np.maximum.accumulate(x[:, 0])",
    "reduce": "np.add.reduce(x, axis=1)",
    "sliding": "np.convolve(x[0], np.hanning(3), mode='same')",
    "inside": "np.linalg.matrix_power(x[:, :4], 3)",
    "windows": "np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)[:, 1]",
    "windows of an array of jax": "np.lib.stride_tricks.sliding_window_view(jnp.asarray(x), (2, 3))[1, 2]",
    "interpolation": "np.interp([0.5, 1.5], np.arange(4), x[:, 0])",
    "grid of positions": "x[np.ix_([0, 2], [1, 3])]",
    "large numbers in a list": "np.array([10 ** 5] * 4)[:, None] + x",
    "a function of an array of jax": "np.square(jnp.asarray(x)).sum()",
    "a dtype of jax": "np.zeros(3, jnp.int32) + x.astype(jnp.float32)[0, :3]",
    "a dtype of jax by name": "x.sum(axis=0, dtype=jnp.float32)",
    "number beyond the end": "np.asarray(jnp.asarray(x)[7, 1])",
    "number before the start": "np.asarray(jnp.asarray(x)[1:, -9])",
    "numbers beyond, apart": "np.asarray(jnp.asarray(x)[9, :, None][2])",
    "no write beyond the end": "np.asarray(jnp.asarray(x).at[7].set(0.0))",
    "no write apart": "np.asarray(jnp.asarray(x).at[0, 9].add(1.0))",
}


@pytest.mark.parametrize("name", OF_NUMPY)
def test_what_a_program_computes_with_numpy_is_what_numpy_computes(name: str) -> None:
    text = (
        "import jax.numpy as jnp\nimport numpy as np\n\n\ndef main():\n"
        "    x = np.random.default_rng(3).normal(size=(4, 5))\n"
        f"    return {OF_NUMPY[name]}\n"
    )
    scope: dict[str, Any] = {}
    exec(text, scope)
    (found,) = evaluated(text)
    np.testing.assert_allclose(found, scope["main"](), rtol=1e-6)
