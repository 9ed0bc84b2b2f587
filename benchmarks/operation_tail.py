"""What the linter says of ``psum(OP(x @ w))`` for every ``OP`` of JAX: ``python -m benchmarks.operation_tail``.

For each function of ``jax.numpy``, ``jax.nn``, ``jax.scipy.special`` and ``jax.scipy.stats`` that takes an array of
floats, up to four annotated programs over eight devices are written: the function of a partial sum before ``psum``, and
its right twin, the function of the sum; where it has an axis, the function along the sharded dimension, and its right
twin, which gathers first. Each runs on eight forced CPU devices beside the function on one: a program is wrong if its
numbers are. Then the linter checks all of them. Functions that find no arguments, programs that JAX refuses, and those
whose numbers are not finite, are counted. ``--output FOLDER`` keeps the programs. Exit status 1: a right twin has a
finding.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.tools import shardlint

DEVICES = 8
SIZES = {"B": 4, "M": 16, "F": 24}
#: Other sizes, by which it is seen what of a shape is general.
OTHERS = {"B": 40, "M": 16, "F": 32}
MODULES = ("jax.numpy", "jax.nn", "jax.scipy.special", "jax.scipy.stats")
_ALIASES = {
    "jax.numpy": "jnp",
    "jax.nn": "jax.nn",
    "jax.scipy.special": "special",
    "jax.scipy.stats": "stats",
}
#: What is given besides the array: the first that JAX accepts.
_MORE = ("", ", 0.5", ", 2", ", 0.5, 0.7", ", 0.5, 0.7, 0.3", ", ROW")
_OWN = {
    "jnp.interp": "jnp.interp({x}, KNOTS, HEIGHTS)",
    "jnp.polyval": "jnp.polyval(HEIGHTS, {x})",
    "jnp.piecewise": "jnp.piecewise({x}, [{x} < 0.4, {x} >= 0.4], [0.0, 1.0])",
    "jnp.select": "jnp.select([{x} > 0.4], [{x}], 0.0)",
    "jnp.where": "jnp.where({x} > 0.4, {x}, 0.0)",
    "jnp.linalg.multi_dot": "jnp.linalg.multi_dot([{x}, {x}.T, {x}])",
    "special.polygamma": "special.polygamma(1, {x})",
    "jnp.einsum": 'jnp.einsum("bf->fb", {x})',
    "jnp.convolve": "jnp.convolve({x}[0], HEIGHTS)",
    "jnp.correlate": "jnp.correlate({x}[0], HEIGHTS)",
    "jnp.polyadd": "jnp.polyadd({x}[0], HEIGHTS)",
    "jnp.polysub": "jnp.polysub({x}[0], HEIGHTS)",
    "jnp.polymul": "jnp.polymul({x}[0], HEIGHTS)",
    "jnp.polyder": "jnp.polyder({x}[0])",
    "jnp.polyint": "jnp.polyint({x}[0])",
    "jnp.vander": "jnp.vander({x}[0], 3)",
    "jnp.gradient": "jnp.gradient({x}, axis=0)",
    "jnp.histogram": "jnp.histogram({x}, KNOTS)[0]",
    "jnp.unique": "jnp.unique({x}, size=9)",
    "jnp.searchsorted": "jnp.searchsorted(KNOTS, {x})",
    "jnp.cumulative_sum": "jnp.cumulative_sum({x}, axis=0)",
    "jnp.cumulative_prod": "jnp.cumulative_prod({x}, axis=0)",
    "jnp.cross": "jnp.cross({x}[:, :3], {x}[:, 3:6])",
    "jnp.reshape": "jnp.reshape({x}, (-1,))",
    "jnp.swapaxes": "jnp.swapaxes({x}, 0, 1)",
    "jnp.moveaxis": "jnp.moveaxis({x}, 0, 1)",
    "jnp.vdot": "jnp.vdot({x}, {x})",
    "jnp.tensordot": "jnp.tensordot({x}, {x}.T, 1)",
    "jnp.modf": "jnp.modf({x})[0]",
    "jnp.frexp": "jnp.frexp({x})[0]",
    "jnp.divmod": "jnp.divmod({x}, 0.3)[1]",
    "jnp.linalg.inv": "jnp.linalg.inv({x} @ {x}.T + jnp.eye(4))",
    "jnp.linalg.det": "jnp.linalg.det({x} @ {x}.T + jnp.eye(4))",
    "jnp.linalg.slogdet": "jnp.linalg.slogdet({x} @ {x}.T + jnp.eye(4))[1]",
    "jnp.linalg.solve": "jnp.linalg.solve({x} @ {x}.T + jnp.eye(4), {x})",
    "jnp.linalg.cholesky": "jnp.linalg.cholesky({x} @ {x}.T + jnp.eye(4))",
    "jnp.linalg.eigvalsh": "jnp.linalg.eigvalsh({x} @ {x}.T + jnp.eye(4))",
    "jnp.linalg.matrix_power": "jnp.linalg.matrix_power({x} @ {x}.T, 2)",
    "jnp.linalg.qr": "jnp.linalg.qr({x})[1]",
    "jnp.linalg.svd": "jnp.linalg.svd({x})[1]",
    "special.fresnel": "special.fresnel({x})[0]",
    "special.sici": "special.sici({x})[0]",
    "special.expn": "special.expn(1, {x})",
}
#: They give no function of numbers, or take what an array of floats is not.
_LEFT_OUT = frozenset(
    """array_repr array_str save savez load frombuffer fromfile fromiter fromstring from_dlpack printoptions
    set_printoptions get_printoptions zeros ones empty eye identity tri shape size ndim iscomplexobj isrealobj isscalar
    iterable result_type promote_types can_cast einsum_path fromfunction frompyfunc vectorize""".split()
)
_DTYPES = {"float32": "f32", "int32": "i32", "bool": "bool_", "complex64": "c64"}
_HEAD = '''"""{title}."""

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special, stats
from jax.sharding import PartitionSpec as P

from shardtypes import {dtypes}

KNOTS = jnp.asarray([0.0, 0.3, 0.5, 2.0])
HEIGHTS = jnp.asarray([0.5, 0.1, 0.7, 0.2])
ROW = jnp.linspace(0.1, 0.9, 24)
mesh = jax.make_mesh((8,), ("t",), axis_types=(jax.sharding.AxisType.Auto,))


def f(x: f32["{left}"], w: f32["{right}"]) -> {result}:
    def local(x, w):
        y = x @ w
        return {value}

    return jax.shard_map(local, mesh=mesh, in_specs={specs}, out_specs={out}, check_vma={checked})(x, w)
'''


@dataclass(frozen=True)
class Program:
    """One program. ``single`` is the function of ``y`` that one device computes."""

    function: str
    kind: str
    single: str
    text: str

    @property
    def file(self) -> str:
        return f"{self.function.replace('.', '_')}__{self.kind}.py"

    @property
    def module(self) -> str:
        return next(
            full
            for full, short in _ALIASES.items()
            if self.function.startswith(f"{short}.")
        )


# --- what to call -----------------------------------------------------------------------------------------------------


def _names(module: ModuleType) -> Iterator[str]:
    for name, value in sorted(vars(module).items()):
        if (
            not name.startswith("_")
            and callable(value)
            and not inspect.isclass(value)
            and name not in _LEFT_OUT
        ):
            yield name


def functions() -> Iterator[tuple[str, Any]]:
    """The functions as programs write them."""
    for full, short in _ALIASES.items():
        module = importlib.import_module(full)
        for name in _names(module):
            yield f"{short}.{name}", getattr(module, name)
        if full == "jax.scipy.stats":
            for inner, value in sorted(vars(module).items()):
                if isinstance(value, ModuleType) and not inner.startswith("_"):
                    yield from (
                        (f"{short}.{inner}.{name}", getattr(value, name))
                        for name in _names(value)
                    )
        if full == "jax.numpy":
            for inner in (module.linalg, module.fft):
                place = inner.__name__.rpartition(".")[2]
                yield from (
                    (f"{short}.{place}.{name}", getattr(inner, name))
                    for name in _names(inner)
                )


def _scope() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax.scipy import special, stats

    knots, heights = (
        jnp.asarray([0.0, 0.3, 0.5, 2.0]),
        jnp.asarray([0.5, 0.1, 0.7, 0.2]),
    )
    row = jnp.linspace(0.1, 0.9, SIZES["F"])
    scope = {"jax": jax, "jnp": jnp, "lax": lax, "special": special, "stats": stats}
    return {**scope, "KNOTS": knots, "HEIGHTS": heights, "ROW": row}


def _result(call: str, scope: dict[str, Any], sizes: dict[str, int] = SIZES) -> Any:
    """Shape and dtype of a call, None where JAX does not take it."""
    import jax

    y = jax.ShapeDtypeStruct((sizes["B"], sizes["F"]), "float32")
    # the text is written here
    function = eval(f"lambda y: {call.format(x='y')}", scope)
    try:
        found = jax.eval_shape(function, y)
    except Exception:  # noqa: BLE001 - any refusal of JAX means that this is no way to call it
        return None
    return (
        found
        if isinstance(found, jax.ShapeDtypeStruct) and found.dtype.name in _DTYPES
        else None
    )


def _letters(found: Any, sizes: dict[str, int]) -> str | None:
    """A shape in letters; None where it has another size."""
    names = {size: letter for letter, size in sizes.items()}
    dims = [str(size) if size == 1 else names.get(size) for size in found.shape]
    return None if None in dims else " ".join(str(one) for one in dims)


@dataclass(frozen=True)
class Types:
    """What a program is annotated with: numbers where it takes no other sizes, an open result where letters do not say
    its shape."""

    left: str
    right: str
    result: str
    shape: tuple[int, ...]


def _types(call: str, scope: dict[str, Any]) -> Types:
    found, other = _result(call, scope), _result(call, scope, OTHERS)
    dtype = _DTYPES[found.dtype.name]
    if other is None:
        left, right = (
            " ".join(str(SIZES[letter]) for letter in dims) for dims in ("BM", "MF")
        )
        shape = " ".join(map(str, found.shape))
        return Types(left, right, f'{dtype}["{shape}"]', found.shape)
    text, second = _letters(found, SIZES), _letters(other, OTHERS)
    return Types(
        "B M",
        "M F",
        f'{dtype}["{text if text == second and text is not None else "..."}"]',
        found.shape,
    )


def _write(
    function: str,
    kind: str,
    single: str,
    value: str,
    types: Types,
    specs: str,
    out: str,
    checked: bool,
) -> Program:
    dtypes = ", ".join(sorted({"f32", types.result.partition("[")[0]}))
    text = _HEAD.format(
        title=f"{function}, {kind}",
        dtypes=dtypes,
        left=types.left,
        right=types.right,
        result=types.result,
        value=value,
        specs=specs,
        out=out,
        checked=checked,
    )
    return Program(function, kind, single, text)


def programs() -> tuple[list[Program], list[str]]:
    """All programs, and the functions that found no arguments."""
    scope = _scope()
    found: list[Program] = []
    without: list[str] = []
    for name, value in functions():
        ways = (
            [_OWN[name]] if name in _OWN else [f"{name}({{x}}{more})" for more in _MORE]
        )
        call = next((way for way in ways if _result(way, scope) is not None), None)
        if call is None:
            without.append(name)
            continue
        found.extend(_of_sums(name, call, scope))
        if name not in _OWN and _has_axis(value):
            found.extend(_of_rows(name, f"{call[:-1]}, axis=1)", scope))
    return found, without


def _has_axis(function: Any) -> bool:
    try:
        return "axis" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _of_sums(name: str, call: str, scope: dict[str, Any]) -> Iterator[Program]:
    single, types = call.format(x="y"), _types(call, scope)
    specs = '(P(None, "t"), P("t", None))'
    if not types.result.startswith("bool"):  # which psum does not take
        yield _write(
            name,
            "sum_wrong",
            single,
            f'lax.psum({single}, "t")',
            types,
            specs,
            "P()",
            True,
        )
    whole = call.format(x="z")
    yield _write(
        name,
        "sum_right",
        single,
        f'(lambda z: {whole})(lax.psum(y, "t"))',
        types,
        specs,
        "P()",
        True,
    )


def _of_rows(name: str, call: str, scope: dict[str, Any]) -> Iterator[Program]:
    if _result(call, scope) is None:
        return
    types = _types(call, scope)
    single, specs = call.format(x="y"), '(P(), P(None, "t"))'
    kept = types.shape == (SIZES["B"], SIZES["F"])
    out = 'P(None, "t")' if kept else "P()"
    yield _write(name, "rows_wrong", single, single, types, specs, out, False)
    whole = call.format(x="z")
    gathered = f'(lambda z: {whole})(lax.all_gather(y, "t", axis=1, tiled=True))'
    yield _write(name, "rows_right", single, gathered, types, specs, "P()", False)


# --- what is true -----------------------------------------------------------------------------------------------------


_QUICK = {"xla_backend_optimization_level": 0}


def _inputs(low: float, high: float) -> tuple[Any, Any]:
    import numpy as np

    random = np.random.default_rng(0)
    x = random.uniform(low, high, (SIZES["B"], SIZES["M"]))
    w = random.uniform(low, high, (SIZES["M"], SIZES["F"]))
    return x.astype(np.float32), w.astype(np.float32)


def truth(folder: Path, found: list[Program]) -> dict[str, str]:
    """By file: ``right`` or ``wrong`` in numbers, or why neither can be said.

    The numbers are positive ones below 1, for functions of probabilities, and ones of both signs.
    """
    import jax
    import numpy as np

    draws = [_inputs(0.1, 0.3), _inputs(-1.0, 1.0)]
    scope = _scope()
    single: dict[str, list[Any]] = {}
    answers: dict[str, str] = {}
    for program in found:
        if program.single not in single:
            function = jax.jit(
                eval(f"lambda y: {program.single}", scope), compiler_options=_QUICK
            )
            single[program.single] = [np.asarray(function(x @ w)) for x, w in draws]
        answers[program.file] = _compared(
            folder / program.file, draws, single[program.single]
        )
    return answers


def _compared(path: Path, draws: list[tuple[Any, Any]], expected: list[Any]) -> str:
    import jax
    import numpy as np

    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function = jax.jit(module.f, compiler_options=_QUICK)
        values = [function(x, w) for x, w in draws]
    except Exception as error:  # noqa: BLE001 - whatever JAX refuses is an answer
        return f"refused: {type(error).__name__}"
    pairs = [
        pair
        for pair in zip(values, expected, strict=True)
        if np.isfinite(pair[1]).all()
    ]
    if not pairs:
        return "not finite on one device"
    return "right" if all(_same(value, wanted) for value, wanted in pairs) else "wrong"


def _same(value: Any, expected: Any) -> bool:
    """Whether every device holds its part of what one device computes."""
    import numpy as np

    if value.shape != expected.shape:
        return False
    shards = value.addressable_shards
    return all(
        np.allclose(one.data, expected[one.index], rtol=1e-3, atol=1e-4)
        for one in shards
    )


# --- what the linter says ---------------------------------------------------------------------------------------------


def findings(folder: Path) -> dict[str, list[str]]:
    """By file: the codes of what the linter reports."""
    codes: dict[str, list[str]] = defaultdict(list)
    for path, _, said, _ in shardlint(folder):
        codes[path.name].append(said.partition(" ")[0])
    return codes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--output",
        type=Path,
        help="a folder for the programs; else they are thrown away",
    )
    parser.add_argument(
        "--only", default="", help="only functions whose name contains this"
    )
    options = parser.parse_args()
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    )
    os.environ["JAX_PLATFORMS"] = "cpu"
    with tempfile.TemporaryDirectory() as made:
        folder = options.output or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        found, without = programs()
        found = [program for program in found if options.only in program.function]
        for program in found:
            (folder / program.file).write_text(program.text)
        (folder / "pyproject.toml").write_text("[tool.shardlint]\n")
        return report(found, without, truth(folder, found), findings(folder))


def report(
    found: list[Program],
    without: list[str],
    answers: dict[str, str],
    codes: dict[str, list[str]],
) -> int:
    """Print the table, and what was missed and reported wrongly. The exit status."""
    alarms: list[str] = []
    print(
        f"{'module':20} {'kind':5} {'functions':>9} {'wrong':>6} {'reported':>8} {'right':>6} {'with a finding':>14}"
    )
    misses: dict[tuple[str, str], list[str]] = {}
    for module in MODULES:
        for kind in ("sum", "rows"):
            here = [
                one
                for one in found
                if one.module == module and one.kind.startswith(kind)
            ]
            wrong = [one for one in here if answers[one.file] == "wrong"]
            right = [one for one in here if answers[one.file] == "right"]
            misses[module, kind] = [
                one.function for one in wrong if not codes.get(one.file)
            ]
            false = [one for one in right if codes.get(one.file)]
            alarms += [f"{one.file}: {', '.join(codes[one.file])}" for one in false]
            reported = len(wrong) - len(misses[module, kind])
            count = len({one.function for one in here})
            print(
                f"{module:20} {kind:5} {count:9} {len(wrong):6} {reported:8} {len(right):6} {len(false):14}"
            )
    other = defaultdict(list)
    for one in found:
        if answers[one.file] not in ("right", "wrong"):
            other[answers[one.file]].append(one.file)
    for (module, kind), names in misses.items():
        if names:
            print(f"\nnot reported, {module}, {kind}: {' '.join(names)}")
    for answer, files in sorted(other.items()):
        print(f"\n{answer}: {len(files)}: {' '.join(files)}")
    print(f"\nno arguments found: {len(without)}: {' '.join(without)}")
    twins = [one for one in alarms if "_right.py" in one]
    drawn = [one for one in alarms if one not in twins]
    print(
        f"\nfindings in programs that are right for the numbers drawn: {len(drawn)}",
        *drawn,
        sep="\n  ",
    )
    print(f"\nfindings in right twins: {len(twins)}", *twins, sep="\n  ")
    return 1 if twins else 0


if __name__ == "__main__":
    raise SystemExit(main())
