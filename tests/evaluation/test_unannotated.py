"""Functions are called by themselves without annotations: specs say how the arguments are sharded."""

from __future__ import annotations

from textwrap import indent

import pytest

from shardlint.evaluation.judgements import Judgement
from tests.evaluation.functions import HEAD
from tests.evaluation.test_entries import judged, judged_as_program, tried

pytestmark = pytest.mark.once  # JAX has no part in it

WRITTEN = {
    "decorated": """
@functools.partial(jax.shard_map, mesh=mesh, in_specs={specs}, out_specs={out}, check_vma=False)
def f(x, w):
{body}
""",
    "factory": """
def body(x, w):
{body}

def make(mesh):
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs={specs}, out_specs={out}, check_vma=False))
""",
    "called_inside": """
def body(x, w):
{body}

def f(x, w):
    return jax.shard_map(body, mesh=mesh, in_specs={specs}, out_specs={out}, check_vma=False)(x, w)
""",
    "some_annotations": """
def body(x, w):
{body}

def f(x: jax.Array, w: jnp.ndarray):
    return jax.shard_map(body, mesh=mesh, in_specs={specs}, out_specs={out}, check_vma=False)(x, w)
""",
}

CASES = {
    "softmax_of_each_part": (
        '(P("d", None), P(None, "t"))',
        'P("d", "t")',
        'p = jnp.exp(x @ w)\nreturn p / lax.psum(jnp.sum(p, axis=-1, keepdims=True), "t")',
        "p = jax.nn.softmax(x @ w)\nreturn p * 2",
        "jax.nn.softmax is applied to a value sharded over 't'",
    ),
    "partial_sum": (
        '(P("d", "t"), P("t", None))',
        'P("d", None)',
        'return jnp.tanh(lax.psum(x @ w, "t"))',
        'return lax.psum(jnp.tanh(x @ w), "t")',
        "jnp.tanh is applied to a partial sum over 't': call lax.psum",
    ),
    "short_specs": (
        '(P("d"), P())',
        "P()",
        'return lax.pmean(jnp.mean(x @ w, axis=0), "d")',
        "return jnp.log1p(jnp.mean((x @ w) ** 2, axis=0))",
        "jnp.log1p is applied to a per-device mean along 'd': call lax.pmean",
    ),
    "integers": (
        '(P("d"), P("t", None))',
        'P("d")',
        'at = x - lax.axis_index("t") * w.shape[0]\n'
        "here = (at >= 0) & (at < w.shape[0])\n"
        'return lax.psum(jnp.where(here[..., None], w[jnp.clip(at, 0, w.shape[0] - 1)], 0), "t")',
        'return lax.psum(jnp.take(w, x, axis=0, mode="clip") ** 2, "t")',
        "jnp.take is applied to",
    ),
    "one_dimension_of_integers": (
        '(P(None), P("t"))',
        "P()",
        'at = x - lax.axis_index("t") * w.shape[0]\n'
        "here = jnp.logical_and(at >= 0, at < w.shape[0])\n"
        'return lax.psum(jnp.take(w, jnp.where(here, at, 0), axis=0) * here[:, None], "t")',
        'return lax.psum(jnp.take(w, x, axis=0), "t")',
        "jnp.take is applied to",
    ),
    "filled_out_of_range": (
        '(P(None), P("t", None))',
        "P()",
        "n = w.shape[0]\n"
        'at = x - lax.axis_index("t") * n\n'
        'return lax.psum(w.at[jnp.where(at < 0, n, at)].get(mode="fill", fill_value=0), "t")',
        'return lax.psum(w.at[x].get(mode="fill", fill_value=0), "t")',
        "get is applied to",
    ),
    "one_hot": (
        '(P(None), P("t", None))',
        "P()",
        'at = x - lax.axis_index("t") * w.shape[0]\n'
        'return lax.psum(jax.nn.one_hot(at, w.shape[0], dtype=w.dtype) @ w, "t")',
        'return lax.psum(jax.nn.one_hot(x, w.shape[0], dtype=w.dtype) @ w, "t")',
        "jax.nn.one_hot is applied to",
    ),
}


def program(case: str, written: str, is_right: bool) -> str:
    specs, out, right, wrong, _ = CASES[case]
    body = indent(right if is_right else wrong, "    ")
    return HEAD + WRITTEN[written].format(specs=specs, out=out, body=body)


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_found_and_what_is_right_is_not(
    case: str, written: str
) -> None:
    right = judged(program(case, written, True))
    assert right.departures == ()
    assert {"d", "t"} & set(right.compared)
    assert texts(judged(program(case, written, False))) != []
    assert any(
        CASES[case][-1] in text for text in texts(judged(program(case, written, False)))
    )


def texts(judgement: Judgement) -> list[str]:
    """What is said of a function by itself."""
    from shardlint.evaluation.wording import departure_text

    return [departure_text(one) for one in judgement.departures if one.is_wrong_alone]


@pytest.mark.parametrize(
    "body",
    [
        'lax.psum(jnp.tanh(w[0]), "d")',
        'lax.pmean(x @ w[0], "d")',
        'lax.psum(jax.nn.softmax(w[0, :]), "d")',
        'lax.psum(jnp.tanh(jax.tree.map(lambda a: a[0], {"w": w})["w"]), "d")',
        'lax.psum(jnp.tanh(lax.index_in_dim(w, 0, keepdims=False)), "d")',
        'lax.psum(w, "d")[0]',
        'jnp.tanh(lax.psum(w, "d"))',
    ],
)
def test_each_device_may_be_meant_to_have_one_entry(body: str) -> None:
    """Layers that are sharded over stages, one for each: nothing is wrong but the sizes that were chosen."""
    text = f"""
def f(x, w):
    body = lambda x, w: {body}
    return jax.shard_map(body, mesh=mesh, in_specs=(P(), P("d")), out_specs=P(), check_vma=False)(x, w)
"""
    assert texts(judged(HEAD + text)) == []


@pytest.mark.parametrize(
    "count",
    [
        "x.size",
        "len(x)",
        "x.nbytes",
        "jnp.size(x)",
        "jnp.size(x, 0)",
        "jnp.shape(x)[0]",
        "np.size(x)",
        "np.prod(x.shape)",
        "max(1, x.size)",
        "jnp.float32(x.size)",
        "np.float32(x.size)",
        "jnp.asarray(x.size, x.dtype)",
        "jnp.array(x.shape[0]).astype(jnp.float32)",
        "jnp.full((), x.size, jnp.float32)",
        "(jnp.ones(()) * x.size)",
        "jnp.maximum(1.0, x.size)",
        "np.maximum(1.0, x.size)",
        "float(x.size)",
        "math.pow(x.size, 1.0)",
    ],
)
def test_a_total_is_not_divided_by_a_local_size(count: str) -> None:
    text = """
import math
import numpy as np

def f(x):
    def body(x):
        return lax.psum(jnp.sum(x), "d") / {}

    return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False)(x)
"""
    (said,) = texts(judged(HEAD + text.format(count)))
    assert "depends on the number of devices along 'd'" in said
    for right in (f'({count} * lax.axis_size("d"))', f'lax.psum({count}, "d")'):
        assert texts(judged(HEAD + text.format(right))) == []


@pytest.mark.parametrize("over", ['("d", "t")', "mesh.axis_names", '["d", "t"]'])
def test_what_all_devices_have_alike_is_not_added_up(over: str) -> None:
    text = """
def f(x):
    def body(x):
        return lax.psum({}, OVER)

    return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False)(x)
""".replace("OVER", over)
    (said,) = texts(judged(HEAD + text.format("jnp.sum(x)")))
    assert "lax.psum gives a value multiplied by the number of devices" in said
    for right in (
        "1",
        "jnp.ones(())",
        'jnp.sum(x) / lax.axis_size("t")',
        "jnp.ones(3).sum()",
    ):
        assert texts(judged(HEAD + text.format(right))) == []


def test_specs_that_are_trees_make_trees() -> None:
    text = """
def f(params, x):
    def body(params, x):
        return jnp.tanh(x @ params["w"]) + params["b"]

    specs = ({"w": P("t", None), "b": P()}, P("d", "t"))
    return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("d"), check_vma=False)(params, x)
"""
    (said,) = texts(judged(HEAD + text))
    assert "jnp.tanh is applied to a partial sum over 't'" in said


MLP = """
SPECS = {"w": P(None, "t"), "b": P("t"), "v": P("t", None), "c": P()}

def f(ARGUMENTS):
    def body(ARGUMENTS):
        h = jax.nn.gelu(x @ params["w"] + params["b"])
        return RESULT

    return jax.shard_map(body, mesh=mesh, in_specs=(IN_SPECS), out_specs=P("d"), check_vma=False)(ARGUMENTS)
"""


@pytest.mark.parametrize(
    ("arguments", "specs"),
    [("params, x", 'SPECS, P("d")'), ("x, params", 'P("d"), SPECS')],
)
def test_biases_among_parameters_have_fewer_dimensions(
    arguments: str, specs: str
) -> None:
    text = HEAD + MLP.replace("ARGUMENTS", arguments).replace("IN_SPECS", specs)
    right = judged(
        text.replace("RESULT", 'lax.psum(h @ params["v"], "t") + params["c"]')
    )
    assert right.compared == ("d", "t")
    assert right.departures == ()
    (said,) = texts(
        judged(text.replace("RESULT", 'lax.psum(h @ params["v"] + params["c"], "t")'))
    )
    assert "depends on the number of devices along 't'" in said


def test_labels_have_fewer_dimensions_than_what_they_belong_to() -> None:
    text = (
        HEAD
        + """
def f(logits, labels):
    def body(logits, labels):
        nll = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)
        batch, _ = logits.shape
        return lax.psum(nll.sum(), "d") / {}

    return jax.shard_map(body, mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P(), check_vma=False)(logits, labels)
"""
    )
    assert texts(judged(text.format('lax.psum(batch, "d")'))) == []
    (said,) = texts(judged(text.format("batch")))
    assert "depends on the number of devices along 'd'" in said


def test_separate_biases_have_fewer_dimensions() -> None:
    text = (
        HEAD
        + """
def f(x, w, b, v, c):
    def body(x, w, b, v, c):
        return {}

    specs = (P("d"), P(None, "t"), P("t"), P("t"), P())
    return jax.shard_map(body, mesh=mesh, in_specs=specs, out_specs=P("d"), check_vma=False)(x, w, b, v, c)
"""
    )
    assert (
        texts(judged(text.format('lax.psum(jnp.tanh(x @ w + b) @ v, "t") + c'))) == []
    )
    (said,) = texts(judged(text.format('lax.psum(jnp.tanh(x @ w + b) @ v + c, "t")')))
    assert "depends on the number of devices along 't'" in said


def test_methods_of_objects_are_called() -> None:
    text = (
        HEAD
        + """
class Layer:
    def __init__(self, axis):
        self.axis = axis

    def apply(self, x, w):
        return {}

layer = Layer("t")
f = jax.jit(jax.shard_map(layer.apply, mesh=mesh, in_specs=(P("d", "t"), P("t")), out_specs=P("d"), check_vma=False))
"""
    )
    right = judged(text.format("jnp.tanh(lax.psum(x @ w, self.axis))"))
    assert right.compared == ("d", "t")
    assert right.departures == ()
    (said,) = texts(judged(text.format("lax.psum(jnp.tanh(x @ w), self.axis)")))
    assert "jnp.tanh is applied to a partial sum over 't'" in said


def test_one_argument_of_two_mapped_functions_is_one_array() -> None:
    text = """
def f(x):
    square = jax.shard_map(lambda x: x * x, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    total = jax.shard_map(lambda x: lax.psum(jnp.sum(x), "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    return square(x), total(x)
"""
    found = tried(HEAD + text, "f")
    assert not isinstance(found, str)
    first, second = found.declared.regions
    assert first.arguments[0] is second.arguments[0]


# --- helpers of mapped functions --------------------------------------------------------------------------------------

HELPER = """
def head(x: f32["B M"], w: f32["M V/t"], table: f32["V/t M"]) -> f32["B M"]:
    {}
"""


def test_a_helper_is_mapped_by_its_annotations() -> None:
    right = 'p = jnp.exp(x @ w)\n    return lax.psum(p @ table, "t") / lax.psum(p.sum(-1, keepdims=True), "t")'
    assert judged(HEAD + HELPER.format(right)).compared == ("d", "t")
    assert texts(judged(HEAD + HELPER.format(right))) == []
    wrong = 'return lax.psum(jax.nn.softmax(x @ w) @ table, "t")'
    (said,) = texts(judged(HEAD + HELPER.format(wrong)))
    assert "jax.nn.softmax is applied to a value sharded over 't'" in said


# --- shapes -----------------------------------------------------------------------------------------------------------

SHAPES = """
@functools.partial(jax.shard_map, mesh=mesh, in_specs=({spec},), out_specs=P())
def total(x):
    return lax.psum(x, "t")

if __name__ == "__main__":
    total(jnp.ones(({rows}, 16)))
"""


@pytest.mark.parametrize(("spec", "rows"), [("P(None, 't')", 12), ("P('t')", 12)])
def test_a_program_that_adds_up_different_columns_is_wrong(
    spec: str, rows: int
) -> None:
    from shardlint.evaluation.wording import departure_text

    (departure,) = judged_as_program(
        HEAD + SHAPES.format(spec=spec, rows=rows)
    ).departures
    assert (
        "lax.psum is applied to a value sharded over 't' along dimension"
        in departure_text(departure)
    )
    assert "(shapes (" in departure_text(departure)
    assert not departure.is_wrong_alone


# --- what callers may mean --------------------------------------------------------------------------------------------

TWO_LAYERS = """
@functools.partial(
    jax.shard_map, mesh=mesh, check_vma=False,
    in_specs=(P("d", None), P(None, "t"), P("t", None)), out_specs=P("d", None),
)
def mlp(x, w, out):
{body}
"""


@pytest.mark.parametrize("collective", ["psum", "pmean"])
@pytest.mark.parametrize(
    "body",
    [
        'h = jax.nn.gelu(lax.{collective}(x @ w, "t"))\nreturn lax.psum(h @ out, "t")',
        'h = lax.{collective}(x @ w, "t") + 1\nreturn lax.psum(jnp.einsum("bf,fm->bm", h, out), "t")',
        'h = lax.{collective}(jnp.tanh(x @ w), "t")\n'
        'return lax.psum(lax.dot_general(h, out, (((1,), (0,)), ((), ()))), "t")',
    ],
)
def test_columns_are_not_added_up_before_the_rows_that_go_with_them(
    body: str, collective: str
) -> None:
    body = indent(body.format(collective=collective), "    ")
    judgement = judged(HEAD + TWO_LAYERS.format(body=body))
    (found,) = texts(judgement)
    assert f"lax.{collective} is applied to a value sharded over 't'" in found


@pytest.mark.parametrize(
    "body",
    [
        'h = jax.nn.gelu(x @ w)\nreturn lax.psum(h @ out, "t")',
        'h = lax.all_gather(x @ w, "t", axis=1, tiled=True)\n'
        'return h @ lax.all_gather(out, "t", tiled=True)',
        # each device has one column: a softmax over all of them
        "h = jnp.exp(x @ w)\n"
        'h = h / lax.psum(h, "t")\n'
        'return lax.psum(jnp.einsum("be,em->bm", h, out), "t")',
        # each device has one of the experts
        'h = x - lax.pmean(x @ w, "t")[:, :1]\nreturn h + lax.psum(out, "t").sum()',
    ],
)
def test_what_callers_may_mean_is_not_reported(body: str) -> None:
    assert texts(judged(HEAD + TWO_LAYERS.format(body=indent(body, "    ")))) == []


def test_one_row_for_each_device_is_right() -> None:
    judgement = judged_as_program(HEAD + SHAPES.format(spec="P('t')", rows=4))
    assert judgement.departures == ()
