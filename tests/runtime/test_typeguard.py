"""Plain strings under typeguard's own decorator and import hook, in every way our names can be imported.

If a new release of typeguard treats strings in another way, these fail.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import importlib
import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import typeguard

import shardtypes as st
from shardtypes import plain_classes
from tests.runtime.loading import TYPEGUARDS, WAYS, outcome, run
from tests.runtime.loading import load as load_source

_numbers = itertools.count()

IMPORTS = {
    "plain": ("from shardtypes import f32", "f32"),
    "alias": ("from shardtypes import f32 as F", "F"),
    "module": ("import shardtypes", "shardtypes.f32"),
    "module alias": ("import shardtypes as st", "st.f32"),
    "star": ("from shardtypes import *", "f32"),
    "re-export": ("import reexporting_shardtypes as types_", "types_.f32"),
    "re-export from": ("from reexporting_shardtypes import f32", "f32"),
    "assigned": ("import shardtypes\nF = shardtypes.f32", "F"),
}

BODY = """
{imports}
from typing import Annotated, Optional
import jax
{decorator_import}

batch = 8
d = 2

{decorator}
def parsed(x: {f}['batch/d']) -> {f}['batch/d']:
    return x

{decorator}
def unparsable(x: {f}['batch/d embed']) -> {f}['batch/d embed']:
    return x

{decorator}
def nested(x: tuple[{f}['batch'], Optional[{f}['batch']]], y: Annotated[jax.Array, {f}['batch']]) -> None:
    z: {f}['batch'] = y

{decorator}
def quoted(x: "{f}['batch embed']") -> None: ...

{decorator}
def ordinary(x: "list['int']", y: int) -> "Optional['str']":
    return None
"""


@pytest.fixture(params=IMPORTS, autouse=False)
def source(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Path, str, str]]:
    imports, name = IMPORTS[request.param]
    (tmp_path / "reexporting_shardtypes.py").write_text("from shardtypes import *\n")
    sys.path.insert(0, str(tmp_path))
    yield tmp_path, imports, name
    sys.path.remove(str(tmp_path))
    sys.modules.pop("reexporting_shardtypes", None)


def load(source: tuple[Path, str, str], decorator: bool) -> Any:
    folder, imports, name = source
    module = f"typeguarded_{next(_numbers)}"
    text = BODY.format(
        imports=imports,
        f=name,
        decorator="@typechecked" if decorator else "",
        decorator_import="from typeguard import typechecked" if decorator else "",
    )
    (folder / f"{module}.py").write_text(text)
    if decorator:
        return importlib.import_module(module)
    with typeguard.install_import_hook([module]):
        return importlib.import_module(module)


@pytest.mark.parametrize("decorator", [True, False], ids=["decorator", "import hook"])
def test_strings_stay_strings(source: tuple[Path, str, str], decorator: bool) -> None:
    module = load(source, decorator)
    x, y = jnp.ones(8), jnp.ones((8, 3))
    module.parsed(x)
    module.unparsable(y)
    module.nested((x, None), x)
    module.quoted(y)
    module.ordinary([1], 2)
    with pytest.raises(
        st.ShapeError, match="parsed: parameter 'x': rank is 2, expected 1"
    ):
        module.parsed(y)
    with pytest.raises(st.ShapeError, match="unparsable: parameter 'x'"):
        module.unparsable(x)
    with pytest.raises(typeguard.TypeCheckError, match="expected batch = 8"):
        module.nested((x, jnp.ones(4)), x)
    with pytest.raises(st.ShapeError, match="quoted"):
        module.quoted(x)
    with pytest.raises(typeguard.TypeCheckError, match="int"):
        module.ordinary(["a"], 2)


def test_a_number_instead_of_a_string_says_why() -> None:
    with pytest.raises(
        st.ShapeStringError, match=r"typeguard evaluates strings.*bytes"
    ):
        st.f32[4.0]  # type: ignore[index]


def test_without_our_entry_strings_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the tests above can fail: by itself typeguard makes code of the string."""
    transformer = typeguard._transformer  # type: ignore[attr-defined]
    text = "from shardtypes import f32\ndef f(x: f32['batch/d']): return x\n"
    kept = ast.unparse(transformer.TypeguardTransformer().visit(ast.parse(text)))
    assert "(x, f32['batch/d'])" in kept
    monkeypatch.setattr(transformer, "literal_names", transformer.literal_names[:-1])
    broken = ast.unparse(transformer.TypeguardTransformer().visit(ast.parse(text)))
    assert "(x, f32[batch / d])" in broken


def test_scope_goes_above_typeguards_decorator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"typeguarded_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(
        "from typeguard import typechecked\nfrom shardtypes import f32, scope\n"
        "@scope\n@typechecked\ndef f(x: f32['B'], y: f32['B']): return x\n"
        "def below(): return typechecked(scope(f))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module(module)
    loaded.f(jnp.ones(3), jnp.ones(3))
    with pytest.raises(st.ShapeError, match="expected B = 3"):
        loaded.f(jnp.ones(3), jnp.ones(4))
    with pytest.warns(
        typeguard.InstrumentationWarning,
        match="only supports instrumenting functions wrapped with",
    ):
        loaded.below()


def test_each_call_has_sizes_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"typeguarded_{next(_numbers)}"
    (tmp_path / f"{module}.py").write_text(
        "from typeguard import typechecked\nfrom shardtypes import f32\n"
        "@typechecked\ndef f(x: f32['B'], y: f32['B']) -> f32['B']: return x\n"
        "@typechecked\ndef g(x: f32['B']) -> f32['B']:\n    f(x[:2], x[:2])\n    return x\n"
        "@typechecked\ndef wrong(x: f32['B']) -> f32['B']: return x[1:]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    loaded = importlib.import_module(module)
    loaded.f(jnp.ones(3), jnp.ones(3))
    loaded.g(jnp.ones(5))
    with st.Scope(), pytest.raises(st.ShapeError, match="bound by g: parameter 'x'"):
        loaded.g(jnp.ones(5))
    with pytest.raises(st.ShapeError, match="the result"):
        loaded.wrong(jnp.ones(5))
    loaded.f(jnp.ones(6), jnp.ones(6))


SIZES = """
from __future__ import annotations
import asyncio
from collections.abc import AsyncIterator, Iterator
import jax
import jax.numpy as jnp
from shardtypes import f32, key

@checked
async def coroutine(x: f32['n'], y: f32['m']) -> f32['n']:
    await asyncio.sleep(0)
    return y

@checked
def generator(x: f32['n'], y) -> Iterator[f32['m n']]:
    yield jnp.ones((2, *x.shape))
    yield jnp.ones((3, *y.shape))

@checked
async def asynchronous(x: f32['n'], y) -> AsyncIterator[f32['n']]:
    yield x
    await asyncio.sleep(0)
    yield y

def closures():
    F, batch, d = f32, 2, 1

    @checked
    def inner(x: f32['batch/d'], y: f32['batch']) -> f32['batch']:
        return y[batch - d - 1:]
    return inner

class C:
    @checked
    def method(self, x: f32['n'], y: f32['n']) -> None:
        return None
"""


@pytest.mark.parametrize("way", TYPEGUARDS)
@pytest.mark.parametrize(
    "name", ["coroutine", "generator", "asynchronous", "closures", "method"]
)
def test_a_call_shares_its_sizes(tmp_path: Path, way: str, name: str) -> None:
    module = load_source(tmp_path, SIZES, way)
    function = module.C().method if name == "method" else getattr(module, name)
    if name == "closures":
        function = function()
    x = jnp.ones(2)
    run(function, x, x)
    run(function, jnp.ones(3), jnp.ones(3))
    assert outcome(lambda: run(function, x, jnp.ones(5))) == "alarm"


@pytest.mark.parametrize("way", TYPEGUARDS)
def test_interleaved_calls_do_not_share(tmp_path: Path, way: str) -> None:
    module = load_source(tmp_path, SIZES, way)
    pairs = zip(
        module.generator(jnp.ones(2), jnp.ones(2)),
        module.generator(jnp.ones(4), jnp.ones(4)),
        strict=True,
    )
    assert [(a.shape, b.shape) for a, b in pairs] == [
        ((2, 2), (2, 4)),
        ((3, 2), (3, 4)),
    ]

    async def many() -> None:
        await asyncio.gather(
            *(module.coroutine(jnp.ones(n), jnp.ones(n)) for n in range(1, 6))
        )

    asyncio.run(many())


LOCAL_TYPES = """
from __future__ import annotations
from typing import Optional

def make():
    class A:
        pass

    @checked
    def f(x: A, y: "list['A']", z: Optional[A] = None) -> A:
        w: A = x if z is None else z
        return w
    return f, A
"""


@pytest.mark.parametrize("way", TYPEGUARDS)
def test_what_has_nothing_to_do_with_us_is_checked_as_before(
    tmp_path: Path, way: str
) -> None:
    """Types of a function, which typeguard finds by counting frames."""
    function, cls = load_source(tmp_path, LOCAL_TYPES, way).make()
    function(cls(), [cls()])
    for arguments in ((3, []), (cls(), [3]), (cls(), [], 3)):
        with pytest.raises(typeguard.TypeCheckError):
            function(*arguments)


NO_TYPES = """
from __future__ import annotations
from typing import TYPE_CHECKING
import jax
from shardtypes import f32, key

if TYPE_CHECKING:
    from shardtypes import f32 as F

@checked
def parameter(key: key[''], n: int) -> key['']:
    return key

@checked
def variable(k: key[''], n: int) -> None:
    key, sub = jax.random.split(k)

@checked
def checkers_only(x: F['B']) -> None:
    return None
"""


@pytest.mark.parametrize("way", TYPEGUARDS)
def test_names_that_are_no_types_where_typeguard_looks_are_counted(
    tmp_path: Path, way: str
) -> None:
    before = set(st._stats.snapshot()["not_possible"])
    module = load_source(tmp_path, NO_TYPES, way)
    module.parameter(jax.random.key(0), 1)
    module.variable(jax.random.key(0), 1)
    module.checkers_only(3)
    counted = {
        reason for reason in st._stats.snapshot()["not_possible"] if "[…]" in reason
    } - before
    assert counted <= {
        "annotation key[…] of parameter not checked: there key is a variable",
        "annotation key[…] of variable not checked: there key is a variable",
        "annotation F[…] of checkers_only not checked: F exists for type checkers only",
    }
    with pytest.raises(typeguard.TypeCheckError):
        module.parameter(jax.random.key(0), "a")


@pytest.mark.once
@pytest.mark.parametrize("package", ["optax", "equinox"])
def test_the_code_of_programs_without_our_annotations_is_the_same(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformer = typeguard._transformer  # type: ignore[attr-defined]
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None
    sources = [
        path.read_text() for path in sorted(Path(spec.origin).parent.rglob("*.py"))[:60]
    ]

    def instrumented() -> list[str]:
        made = []
        for source in sources:
            try:
                made.append(
                    ast.unparse(
                        transformer.TypeguardTransformer().visit(ast.parse(source))
                    )
                )
            # jaxtyping's strings, which typeguard takes for code
            except SyntaxError as error:
                made.append(str(error))
        return made

    beside = instrumented()
    monkeypatch.setattr(transformer, "literal_names", transformer.literal_names[:-1])
    assert beside == instrumented()


ONCE = """
import typeguard
from shardtypes import f32, pytree_dataclass

@typeguard.typechecked
def f(x: f32['B M']) -> f32['B M']:
    return x

@pytree_dataclass
class Layer:
    w: f32['M']

    @typeguard.typechecked
    def f(self, x: f32['B M']) -> f32['B M']:
        return x

method = Layer(None).f
"""


@pytest.mark.parametrize("name", ["f", "method"])
def test_source_and_bytecode_are_read_once(tmp_path: Path, name: str) -> None:
    """A call costs the same, however long its function is."""
    f = getattr(load_source(tmp_path, ONCE, "typeguard.typechecked"), name)
    x = jnp.ones((2, 3))
    entered: set[str] = set()

    def enter(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            entered.add(str(frame.f_globals.get("__name__")))

    for _ in range(2):
        entered.clear()
        sys.setprofile(enter)
        try:
            f(x)
        finally:
            sys.setprofile(None)
    assert "shardtypes.typeguard_calls" in entered
    assert entered.isdisjoint(
        {"shardtypes.assignments", "shardtypes.recompiled", "ast", "dis"}
    )


@pytest.mark.parametrize("way", WAYS)
def test_types_that_take_one_argument(tmp_path: Path, way: str) -> None:
    source = (
        "import jax.numpy as jnp\nfrom typing import Final, TypeGuard\n"
        "from shardtypes import f32\n"
        "@checked\ndef f(x: f32['N'], y):\n    h: Final[f32['N']] = y\n    return h\n"
        "@checked\ndef g(x: f32['N']) -> TypeGuard[f32['N']]:\n    return True\n"
        "@checked\ndef h(x: f32['N'], y):\n    k: Final = y\n    return k\n"
    )
    module = load_source(tmp_path, source, way)
    assert outcome(lambda: module.f(jnp.ones(3), jnp.ones(3))) == "silence"
    assert outcome(lambda: module.f(jnp.ones(3), jnp.ones(4))) == "alarm"
    assert outcome(lambda: module.g(jnp.ones(3))) == "count"
    assert outcome(lambda: module.h(jnp.ones(3), 1)) == "silence"


def test_classes_without_arrays_are_known_for_as_long_as_they_exist() -> None:
    """typeguard asks us about these too, at each value: that costs one lookup."""

    class Plain:
        n: int

    class Layer:
        w: "st.f32['N']"

    typeguard.check_type(jnp.ones(1), st.f32["1"])  # then we are asked
    typeguard.check_type(Plain(), Plain)
    typeguard.check_type(Layer(), Layer)
    assert plain_classes.known[id(Plain)]() is Plain
    assert id(Layer) not in plain_classes.known
    with pytest.raises(typeguard.TypeCheckError, match="is not an instance"):
        typeguard.check_type(1, Plain)

    gone = type("Gone", (), {})
    number = id(gone)
    plain_classes.remember(gone)
    assert number in plain_classes.known
    del gone
    gc.collect()
    assert number not in plain_classes.known
