"""Sizes that ``trace`` chooses: those that a program accepts are found before it is judged."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import optax
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32, i32, key, pytree_dataclass, trace
from shardtypes.lang import Size
from shardtypes.trace_series import PRIMES
from shardtypes.trace_sizes import Inexpressible, sizes_of


@dataclasses.dataclass(frozen=True)
class Config:
    heads: int = 8
    head: int = 64


def write(cache: f32["B S K D"], new: f32["B T K D"], pos: i32[""]) -> f32["B S K D"]:
    return lax.dynamic_update_slice(cache, new, (0, pos, 0, 0))


def grouped(q: f32["B T H D"], k: f32["B T K D"]) -> f32["B T K H//K D"]:
    b, t, h, d = q.shape
    return q.reshape(b, t, k.shape[2], h // k.shape[2], d)


def scaled_after(q: f32["B T H D"], k: f32["B T K D"]) -> f32["B T H D"]:
    b, t, h, d = q.shape
    scale = math.sqrt(d) * d**-0.5 * float(h)
    return (q * scale).reshape(b, t, k.shape[2], -1, d).reshape(q.shape)


def prefix(x: f32["B T D"], table: f32["S D"]) -> f32["B T D"]:
    used: f32["T D"] = table[: x.shape[1]]
    return x + used


def asserted(q: f32["T D"], k: f32["S D"]) -> f32["T D"]:
    assert q.shape[0] <= k.shape[0]
    assert k.shape[1] >= 64 and k.shape[1] % 4 == 0
    return q + k[: q.shape[0]]


def halves(x: f32["B M"]) -> f32["B M"]:
    a, b = jnp.split(x, 2, axis=1)
    return jnp.concatenate([b, -a], axis=1)


def ceiling(x: f32["T M"]) -> f32["T//16 M"]:
    blocks = (x.shape[0] + 15) // 16
    return x.reshape(blocks, 16, -1).mean(1)


def configured(x: f32["B M"], config: Config = Config()) -> f32["B M"]:
    return x.reshape(x.shape[0], config.heads, config.head).reshape(x.shape)


def by_parameters(x: f32["B M"], heads: int = 8, head: int = 4) -> f32["B M"]:
    return x.reshape(x.shape[0], heads, head).reshape(x.shape)


def resharded(x: f32["B/d M"]) -> f32["B M/d"]:
    return jax.sharding.reshard(x, P(None, "d"))


def convolved(x: f32["B H W C"], k: f32["h w C F"]) -> f32["B H-h+1 W-w+1 F"]:
    return lax.conv_general_dilated(
        x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def convolved_in_a_callee(x: f32["B Q R C"], w: f32["a b C F"]) -> f32["B _ _ F"]:
    return convolved(x, w)


def strided(x: f32["B L C"], k: f32["K C F"]) -> f32["B (L-K)//2+1 F"]:
    return lax.conv_general_dilated(
        x, k, (2,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
    )


def pooled(x: f32["B L C"], window: f32["K"]) -> f32["B (L-K)//3+1 C"]:
    size = (1, window.shape[0], 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, size, (1, 3, 1), "VALID")


def frames(x: f32["L"], window: f32["K"]) -> f32["(L-K)//4+1 K"]:
    starts = 4 * jnp.arange((x.shape[0] - window.shape[0]) // 4 + 1)
    return x[starts[:, None] + jnp.arange(window.shape[0])] * window


def differences(x: f32["n"]) -> f32["n-1"]:
    return x[1:] - x[:-1]


def without_the_first(x: f32["n"], y: f32["k"]) -> f32["n-k"]:
    return x[y.shape[0] :]


def what_was_left(x: f32["n-k"], y: f32["k"]) -> f32["n"]:
    return jnp.concatenate([x, y])


def first_blocks(x: f32["n"], y: f32["k"]) -> f32["n//k"]:
    return x[: x.shape[0] // y.shape[0]]


def rows(x: f32["n"], y: f32["k"]) -> f32["n//k k"]:
    return x.reshape(-1, y.shape[0])


def asserted_number(x: f32["B M"], w: f32["M F"]) -> f32["B F"]:
    assert x.shape[1] == 512
    return x @ w


def asserted_configuration(x: f32["H D"], config: Config) -> f32["H D"]:
    assert x.shape == (config.heads, config.head)
    return x


def refused_unless_one_of_two(x: f32["B M"]) -> f32["B M"]:
    if x.shape[1] not in (64, 128):
        raise ValueError("M")
    return x.reshape(-1, 64).reshape(x.shape)


def matched(x: f32["B M"]) -> f32["B"]:
    match x.shape:
        case (_, 3):
            return x.sum(1)
    raise NotImplementedError


HOLD: list[tuple[Callable[..., Any], str]] = [
    (write, "all sizes where S >= T; not for B=11"),
    (grouped, "all sizes where K divides H; not for"),
    (scaled_after, "B=11, D=23, H=323, K=19, T=13"),
    (prefix, "all sizes where S >= T; not for"),
    (asserted, "all sizes where S >= T and D >= 64 and 4 divides D; not for"),
    (halves, "all sizes where 2 divides M; not for"),
    (ceiling, "all sizes where 16 divides T+15; not for"),
    (configured, "B=11, M=512; B=59, M=512; not for"),
    (by_parameters, "B=11, M=32; B=59, M=32; not for"),
    (resharded, "all sizes"),
    (convolved, "all sizes where H >= h and W >= w"),
    (convolved_in_a_callee, "all sizes where Q >= a and R >= b"),
    (strided, "all sizes where L >= K"),
    (pooled, "all sizes where L >= K"),
    (frames, "all sizes where L >= K"),
    (differences, "all sizes"),
    (without_the_first, "all sizes where n >= k+1"),
    (what_was_left, "all sizes"),
    (first_blocks, "k=13, n=11"),
    (rows, "all sizes where k divides n; not for"),
    (asserted_number, "all sizes where M = 512; not for"),
    (asserted_configuration, "all sizes where H = 8 and D = 64; not for"),
    (refused_unless_one_of_two, "all sizes where M = 128; not for"),
    (matched, "all sizes where M = 3; not for"),
]


@pytest.mark.parametrize(("f", "where"), HOLD, ids=lambda f: getattr(f, "__name__", ""))
def test_what_a_program_needs_of_its_callers_is_no_failure(f: Any, where: str) -> None:
    verdict = trace(f)
    assert verdict.ok is True, verdict.reason
    assert verdict.reason.startswith(f"{f.__name__}: holds for {where}"), verdict.reason


def test_shards_of_what_is_made_on_the_way() -> None:
    mesh = AbstractMesh((64, 8), ("d", "t"), axis_types=(AxisType.Explicit,) * 2)

    def moved(x: f32["B/d T M"]) -> f32["B T M/d/t"]:
        return jax.sharding.reshard(x, P(None, None, ("d", "t")))

    verdict = trace(moved, mesh=mesh)
    assert verdict.ok is True and "where 512 divides M" in verdict.reason


# --- certain failures -----------------------------------------------------------------------------------------------


@pytree_dataclass
class Dense:
    w: f32["M F"]


def two_names(x: f32["B M"], y: f32["B N"]) -> f32["B M"]:
    return x + y


def few_columns(x: f32["B M"]) -> f32["B M"]:
    return x[:, :3]


def after_a_need(cache: f32["B S D"], new: f32["B T D"]) -> f32["B S D"]:
    return lax.dynamic_update_slice(cache, new, (0, 0, 0)).swapaxes(1, 2) + cache


def after_a_division(q: f32["T H D"], k: f32["T K D"]) -> f32["T H D"]:
    t, h, d = q.shape
    return q.reshape(t, k.shape[1], h // k.shape[1], d).reshape(h, t, d)


def turned_weights(x: f32["B M"], dense: Dense) -> f32["F B"]:
    return x @ dense.w


def wrong_variable(x: f32["B M"]) -> f32["B M"]:
    y: f32["M B"] = x
    return y


@jax.jit
def wrong_variable_in_jit(x: f32["B M"]) -> f32["B M"]:
    y: f32["M B"] = x * 2
    return y


def wrong_inside(x: f32["B M"]) -> f32["B M"]:
    def inner(a: f32["B M"]) -> f32["B"]:
        return a.sum(0)

    return x + inner(x)[:, None]


def helper(x: f32["B M"]) -> f32["B"]:
    return x.sum(0)


def wrong_callee(x: f32["B M"]) -> f32["M"]:
    return helper(x)


def convolved_too_far(x: f32["B L C"], k: f32["K C F"]) -> f32["B L-K F"]:
    return lax.conv_general_dilated(
        x, k, (1,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
    )


def wrongly_strided(x: f32["B L C"], k: f32["K C F"]) -> f32["B (L-K)//2+1 F"]:
    return lax.conv_general_dilated(
        x, k, (3,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
    )


def as_large_as_before(x: f32["B Q R C"], w: f32["a b C F"]) -> f32["B Q R F"]:
    return convolved(x, w)


def the_wrong_way_round(x: f32["n"], y: f32["k"]) -> f32["k-n"]:
    return x[y.shape[0] :]


def one_block_more(x: f32["n"], y: f32["k"]) -> f32["n//k"]:
    return x[: x.shape[0] // y.shape[0] + 1]


def two_fewer(x: f32["n"]) -> f32["n-1"]:
    return x[2:] - x[:-2]


def turned_after_an_assertion(x: f32["B M"]) -> f32["M B"]:
    assert x.shape[1] == 512
    return x


def right_only_where_one(x: f32["B M"], w: f32["M F"]) -> f32["B F"]:
    if x.shape[1] == 1:
        return x * w
    return jnp.einsum("bm,fm->bf", x, w)


def more_than_was_left(x: f32["n-k"], y: f32["k"]) -> f32["n"]:
    return jnp.concatenate([x, y, y])


FAIL = [
    two_names,
    few_columns,
    after_a_need,
    after_a_division,
    turned_weights,
    wrong_variable,
    wrong_variable_in_jit,
]
FAIL += [
    wrong_inside,
    wrong_callee,
    convolved_too_far,
    wrongly_strided,
    as_large_as_before,
    the_wrong_way_round,
]
FAIL += [one_block_more, two_fewer, more_than_was_left]
FAIL += [turned_after_an_assertion, right_only_where_one]


@pytest.mark.parametrize("f", FAIL, ids=lambda f: f.__name__)
def test_certain_failures(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is False and verdict.sizes, verdict.reason
    assert "fails for" in verdict.reason


def nowhere(x: f32["n"], y: f32["k"]) -> f32["n-k-n*k"]:
    return x


def test_a_dimension_that_is_never_positive_decides_nothing() -> None:
    verdict = trace(nowhere)
    assert verdict.ok is None
    assert verdict.reason.startswith(
        "nowhere: no sizes were found for which each dimension is positive: "
    )


IMAGE, PATCH, CHANNELS = 8, 2, 3


def patches(image: f32["height width channels"]) -> f32["seq patch"]:
    n = IMAGE // PATCH
    cells = image.reshape(n, PATCH, n, PATCH, CHANNELS).transpose(0, 2, 1, 3, 4)
    return cells.reshape(n * n, -1)


def patches_of_a_batch(images: f32["B height width channels"]) -> f32["B seq patch"]:
    return jax.vmap(patches)(images)


def images(flat: f32["B pixels"]) -> f32["B C H W"]:
    return flat.reshape(-1, CHANNELS, IMAGE, IMAGE)


def turned_images(flat: f32["B pixels"]) -> f32["pixels B"]:
    return flat.reshape(-1, CHANNELS * IMAGE * IMAGE)


@pytest.mark.parametrize("f", [patches, patches_of_a_batch])
def test_sizes_may_be_numbers_of_the_module(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is True, verdict.reason


def test_the_rest_of_a_reshape_may_be_of_any_size() -> None:
    # it runs for other pixels too, and its result is another then
    verdict = trace(images)
    assert verdict.ok is None and "holds for B=2112, pixels=192" in verdict.reason
    assert trace(turned_images).ok is False


# --- equalities that annotations leave out --------------------------------------------------------------------------


def joined(x: f32["B T M"], w: f32["M H D"], out: f32["HD M"]) -> f32["B T M"]:
    q = jnp.einsum("btm,mhd->bthd", x, w)
    return q.reshape(*q.shape[:2], -1) @ out


def literal(x: f32["B P"]) -> f32["B 28 28"]:
    return x.reshape(x.shape[0], 28, 28)


def other_name(x: f32["B L"], dense: Dense) -> f32["B F"]:
    return x @ dense.w


@pytest.mark.parametrize(
    ("f", "equal"), [(joined, "HD = H*D"), (literal, "P = 784"), (other_name, "L = M")]
)
def test_equalities_that_annotations_leave_out_are_told(f: Any, equal: str) -> None:
    verdict = trace(f)
    assert verdict.ok is None
    assert (
        f"holds only where {equal}, which its annotations do not say: "
        in verdict.reason
    )


# --- the sizes themselves -------------------------------------------------------------------------------------------

NAMES = some.sampled_from("BTSHK")


@given(
    some.lists(
        some.tuples(some.sampled_from(["divides", "order"]), NAMES, NAMES), max_size=5
    )
)
def test_what_is_built_in_holds_for_all_numbers(
    steps: list[tuple[str, str, str]],
) -> None:
    sizes = sizes_of("BTSHK", {"B": 2}, {})
    expected: list[Callable[[dict[str, int]], bool]] = []
    for kind, first, second in steps:
        a, b = sizes.named[first], sizes.named[second]
        try:
            made = sizes.divided(a, b) if kind == "divides" else sizes.ordered(a, b)
        except Inexpressible:
            continue
        if made is None:
            continue
        sizes = made
        expected.append(
            functools.partial(
                _divides if kind == "divides" else _ordered, first, second
            )
        )
    for numbers in (sizes.numbers(PRIMES[0]), sizes.numbers(PRIMES[1], backwards=True)):
        assert all(size >= 1 for size in numbers.values())
        assert all(holds(numbers) for holds in expected) and numbers["B"] % 2 == 0


def _divides(what: str, by: str, numbers: dict[str, int]) -> bool:
    return numbers[what] % numbers[by] == 0


def _ordered(large: str, small: str, numbers: dict[str, int]) -> bool:
    return numbers[large] >= numbers[small]


def test_constants_in_an_order() -> None:
    sizes = sizes_of("T", {}, {})
    t = Size.symbol("T")
    at_least, at_most = (
        sizes.ordered(t, Size.const(128)),
        sizes.ordered(Size.const(128), t),
    )
    assert (
        at_least is not None
        and at_least.numbers(PRIMES[0]) == {"T": 138}
        and not at_least.few
    )
    assert (
        at_most is not None
        and at_most.numbers(PRIMES[0]) == {"T": 128}
        and at_most.few
        and at_most.open
    )
    assert sizes.ordered(Size.const(0), t) is None
    with pytest.raises(Inexpressible):
        sizes_of("AB", {}, {}).ordered(
            Size.symbol("A") * Size.symbol("B"), Size.const(3)
        )


# --- oracle -----------------------------------------------------------------------------------------------------------

STEPS: dict[str, Callable[[Any], Any]] = {
    "split": lambda x: sum(jnp.split(x, 3, axis=1)),
    "grouped": lambda x: x.reshape(x.shape[0] // 2, 2, -1).sum(1),
    "first": lambda x: x[: x.shape[1]],
    "top": lambda x: lax.top_k(x, 2)[0],
    "square": lambda x: x.reshape(x.shape[1], -1),
    "padded": lambda x: jnp.pad(x, ((0, 1), (0, 0))),
}


@settings(max_examples=20, deadline=None)
@given(
    some.lists(some.sampled_from(list(STEPS)), min_size=1, max_size=3),
    some.sampled_from(["B M", "M B", "B//2 _"]),
)
@example(["split", "first", "grouped"], "B//2 _")  # where M is three times B, or more
def test_what_is_called_wrong_holds_nowhere(steps: list[str], result: str) -> None:
    """Running it at many sizes is the oracle: where a program runs and its annotations hold, it is not called wrong."""

    def program(x: Any) -> Any:
        for step in steps:
            x = STEPS[step](x)
        return x

    program.__annotations__ = {"x": f32["B M"], "return": f32[result]}
    verdict = trace(program)
    if verdict.ok is False:
        pairs = [
            (rows, columns)
            for rows in (4, 6, 8, 12, 24, 36)
            for columns in (5, 9, 15, 18)
        ]
        runs = [pair for pair in pairs if _holds(program, *pair)]
        rows, columns = ([pair[at] for pair in runs] for at in (0, 1))
        # At most where one size is what the other one says.
        assert len(set(rows)) == len(rows) or len(set(columns)) == len(columns), (
            verdict.reason,
            runs,
        )


def _holds(program: Any, rows: int, columns: int) -> bool:
    try:
        jax.eval_shape(
            st.typechecked(program), jax.ShapeDtypeStruct((rows, columns), jnp.float32)
        )
    except (TypeError, ValueError, ZeroDivisionError, st.ShardTypeError):
        return False
    return True


@dataclasses.dataclass(frozen=True)
class Heads:
    """A configuration of which only the defaults are known."""

    heads: int = 4
    width: int = 64


def joined(x: f32["B L M"], w: f32["M H D"], config: Heads = Heads()) -> f32["B L M"]:
    y = jnp.einsum("blm,mhd->blhd", x, w)
    return y.reshape(*x.shape[:2], config.width)


def joined_and_swapped(
    x: f32["B L M"], w: f32["M H D"], config: Heads = Heads()
) -> f32["B M L"]:
    return joined(x, w, config)


def test_free_names_whose_product_is_a_number_of_a_configuration() -> None:
    """The dimensions that a reshape leaves as they are do not count."""
    verdict = trace(joined)
    assert verdict.ok is True and not verdict.proved
    assert "D=16, H=4, L=13, M=64" in verdict.reason
    assert trace(joined_and_swapped).ok is False


def test_the_search_for_sizes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(x: f32["n"], y: f32["m"]) -> f32["n"]:
        return y

    assert trace(never).ok is False
    monkeypatch.setattr("shardtypes.trace_search._LONGEST", -1.0)
    verdict = trace(never)
    assert verdict.ok is None
    assert "give an example" in str(verdict)


@dataclasses.dataclass(frozen=True)
class Depths:
    layers: int = 3
    dim: int = 8


def scan_one(cfg: Depths, w: f32["layers dim"]) -> f32["dim"]:
    zeros = jnp.zeros(cfg.layers)
    return jax.lax.scan(lambda x, s: (x + s[0] * s[1], None), w[0], (w, zeros))[0]


def scan_two(cfg: Depths, w: f32["layers dim"]) -> f32["dim"]:
    zeros = jnp.zeros((cfg.layers, cfg.dim))
    return jax.lax.scan(lambda x, s: (x + s[0] * s[1], None), w[0], (w, zeros))[0]


def by_argument(w: f32["layers dim"], layers: int = 2) -> f32["layers dim"]:
    return w + jnp.zeros((layers, 1))[:, :1].repeat(w.shape[1], 1)


@pytest.mark.parametrize("f", [scan_one, scan_two, by_argument])
def test_a_size_is_that_of_the_configuration_by_its_name(f: Any) -> None:
    verdict = trace(f)
    assert verdict.ok is True, verdict.reason
    assert f"layers={2 if f is by_argument else 3}" in verdict.reason


def added(x: f32["batch dim"], w: Any) -> Any:
    return x + w


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Kept:
    k: f32["batch size dim"]


def scores(x: f32["batch dim"], cache: Kept) -> f32["batch size"]:
    return jnp.einsum("bd,bsd->bs", x, cache.k)


@pytest.mark.parametrize(
    ("f", "example"),
    [(added, jnp.ones((4, 8))), (scores, Kept(jnp.ones((4, 6, 8))))],
    ids=["an array", "an object"],
)
def test_sizes_of_examples_decide_nothing(f: Any, example: Any) -> None:
    second = list(inspect.signature(f).parameters)[1]
    verdict = trace(f, **{second: example})
    assert verdict.ok is None
    assert "holds only where batch = 4 and dim = 8" in verdict.reason


def updated(
    past: f32["batch/d size dim"],
    new: f32["batch/d length dim"],
    w: f32["dim/t e"],
    start: i32[""],
) -> Any:
    past = jax.lax.dynamic_update_slice_in_dim(past, new, start, axis=1)
    return jnp.einsum("bsd,de->bse", past, w, out_sharding=P("d"))


def test_what_is_needed_of_sizes_before_a_mesh_is_needed() -> None:
    verdict = trace(updated)
    assert verdict.ok is True, verdict.reason
    assert "where size >= length" in verdict.reason
    assert "on a mesh with axes d, t" in verdict.reason


def unreduced(
    x: f32["batch/d hidden/t"], a: f32["hidden/t embed"]
) -> f32["batch/d embed"]:
    product = jnp.matmul(x, a, out_sharding=P("d", None, unreduced={"t"}))
    return jax.sharding.reshard(product, P("d", None))


def test_a_program_of_partial_sums_finds_the_axes_that_it_needs() -> None:
    verdict = trace(unreduced)
    assert verdict.ok is True, verdict.reason


@st.pytree_dataclass
class Training:
    w: f32["d"]
    opt: optax.OptState


OPTIMIZER = optax.adam(1e-3)


def trained(s: Training, x: f32["b d"]) -> Training:
    grad = jax.grad(lambda w: (x @ w).sum())(s.w)
    update, opt = OPTIMIZER.update(grad, s.opt, s.w)
    return Training(optax.apply_updates(s.w, update), opt)


def test_fields_of_types_that_only_their_library_can_read() -> None:
    assert "give an example of 's'" in trace(trained).reason
    w = jnp.ones(16)
    verdict = trace(trained, s=Training(w, OPTIMIZER.init(w)))
    assert verdict.ok is True, verdict.reason


def test_a_mesh_may_be_given_by_the_sizes_of_its_axes() -> None:
    def mlp(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F/t"]:
        return x @ w

    def forgotten(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F"]:
        return x @ w

    for mesh in ("d=2,t=4", {"d": 2, "t": 4}):
        assert trace(mlp, mesh=mesh).proved
        assert "expected not sharded" in trace(forgotten, mesh=mesh).reason
    with pytest.raises(ValueError, match="is not an axis"):
        trace(mlp, mesh="d,t")


class Env(NamedTuple):
    position: f32["... 2"]
    steps: i32["..."]


def stepped(env: Env, rng: key[""]) -> Env:
    return Env(env.position + jax.random.normal(rng, (2,)), env.steps + 1)


def test_open_dimensions_may_be_those_that_have_a_name_elsewhere() -> None:
    def run(envs: Env, keys: key["envs"]) -> Env:
        return jax.vmap(stepped)(envs, keys)

    def wrong(envs: Env, keys: key["envs"]) -> f32["envs 3"]:
        return jax.vmap(stepped)(envs, keys).position

    verdict = trace(run)
    assert verdict.ok is None
    assert "holds only where `...` is envs" in verdict.reason
    assert trace(wrong).ok is not True


@st.pytree_dataclass
class Linear:
    w: f32["inputs outputs"]


def test_several_names_of_a_class_may_be_one_of_the_signature() -> None:
    def residual(layer: Linear, x: f32["rows dim"]) -> f32["rows dim"]:
        return x + jnp.tanh(x @ layer.w)

    verdict = trace(residual)
    assert verdict.ok is None
    assert "inputs = dim and outputs = dim" in verdict.reason


def test_parameters_of_any_names_stand_for_two() -> None:
    def weighted(**parts: f32["rows dim"]) -> f32["rows dim"]:
        return sum(parts.values()) / len(parts)

    def summed(**parts: f32["rows dim"]) -> f32["rows"]:
        return sum(parts.values())

    assert trace(weighted).proved
    assert "rank is 2, expected 1" in trace(summed).reason


class Mlp(TypedDict):
    up: f32["embed hidden"]
    down: f32["hidden embed"]


def mlp(params: Mlp, x: f32["batch embed"]) -> f32["batch embed"]:
    return jax.nn.relu(x @ params["up"]) @ params["down"]


def test_a_stack_may_be_annotated_as_one_of_it() -> None:
    def mlps(params: Mlp, x: f32["batch embed"]) -> f32["batch embed"]:
        return lax.scan(lambda x, one: (x + mlp(one, x), None), x, params)[0]

    def wrong(params: Mlp, x: f32["batch embed"]) -> f32["batch embed"]:
        return lax.scan(lambda x, one: (x + mlp(one, x).T, None), x, params)[0]

    verdict = trace(mlps)
    assert verdict.ok is None
    assert "holds only where params is a stack" in verdict.reason
    assert trace(wrong).ok is False


@st.pytree_dataclass
class Policy:
    w: f32["obs actions"]


@st.typechecked
def scored(policy: Policy, obs: f32["obs"]) -> f32["actions"]:
    return obs @ policy.w


def test_a_size_of_a_class_may_be_a_number_of_the_program() -> None:
    def act(policy: Policy, at: f32["2"]) -> f32["actions"]:
        return scored(policy, jnp.concatenate([at, jnp.sin(at), jnp.cos(at)]))

    verdict = trace(act)
    assert verdict.ok is None
    assert "holds only where obs = 6" in verdict.reason


def test_sizes_are_read_wherever_an_error_names_them() -> None:
    def layers(layers: st.Array["depth", Linear], x: f32["dim"]) -> f32["dim"]:
        return lax.scan(lambda x, one: (jnp.tanh(x @ one.w), None), x, layers)[0]

    verdict = trace(layers)
    assert verdict.ok is None
    assert "inputs = dim and outputs = dim" in verdict.reason
