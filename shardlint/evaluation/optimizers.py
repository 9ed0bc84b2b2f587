"""``optax`` in guarded code: the transformations that programs use, as its documentation defines them."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide
from shardlint.evaluation.trees import register_fields
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.creation import zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.reductions import sum_
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.trees import flatten, map_leaves

GradientTransformation = namedtuple("GradientTransformation", "init update")
EmptyState = namedtuple("EmptyState", "")
EmaState = namedtuple("EmaState", "count ema")
MaskedNode = namedtuple("MaskedNode", "")
MaskedState = namedtuple("MaskedState", "inner_state")
MultiStepsState = namedtuple(
    "MultiStepsState", "mini_step gradient_step inner_opt_state acc_grads skip_state"
)
PartitionState = namedtuple("PartitionState", "inner_states")
ScaleByAdamState = namedtuple("ScaleByAdamState", "count mu nu")
ScaleByLionState = namedtuple("ScaleByLionState", "count mu")
ScaleByRmsState = namedtuple("ScaleByRmsState", "nu")
ScaleByRssState = namedtuple("ScaleByRssState", "sum_of_squares")
ScaleByScheduleState = namedtuple("ScaleByScheduleState", "count")
TraceState = namedtuple("TraceState", "trace")
for _cls in (
    GradientTransformation,
    EmptyState,
    EmaState,
    MaskedNode,
    MaskedState,
    MultiStepsState,
    PartitionState,
    ScaleByAdamState,
    ScaleByLionState,
    ScaleByRmsState,
    ScaleByRssState,
    ScaleByScheduleState,
    TraceState,
):
    setattr(_cls, MARK, True)
    provide(f"optax.{_cls.__name__}")(_cls)
for _name in (
    "ClipState",
    "ScaleState",
    "AddDecayedWeightsState",
    "ScaleByTrustRatioState",
):
    provide(f"optax.{_name}")(EmptyState)


def _plain(update: Callable[[Any, Any], Any]) -> Any:
    """A transformation without a state."""
    return GradientTransformation(
        lambda params: EmptyState(),
        lambda updates, state, params=None, **rest: (update(updates, params), state),
    )


@provide("optax.identity")
def identity() -> Any:
    return _plain(lambda updates, params: updates)


@provide("optax.scale")
def scale(step_size: Any) -> Any:
    return _plain(lambda updates, params: map_leaves(lambda g: g * step_size, updates))


@provide("optax.chain")
def chain(*parts: Any) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        states = []
        for part, held in zip(parts, state, strict=True):
            updates, after = part.update(updates, held, params)
            states.append(after)
        return updates, tuple(states)

    return GradientTransformation(
        lambda params: tuple(part.init(params) for part in parts), update
    )


@provide("optax.scale_by_learning_rate")
def scale_by_learning_rate(learning_rate: Any, **options: Any) -> Any:
    return (
        scale_by_schedule(learning_rate, -1.0)
        if callable(learning_rate)
        else scale(-1.0 * learning_rate)
    )


def scale_by_schedule(schedule: Any, sign: float = 1.0) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        factor = schedule(state.count) * sign
        return map_leaves(lambda g: g * factor, updates), ScaleByScheduleState(
            state.count + 1
        )

    return GradientTransformation(
        lambda params: ScaleByScheduleState(asarray(0)), update
    )


provide("optax.scale_by_schedule")(scale_by_schedule)


@provide("optax.trace")
def trace(decay: float, nesterov: bool = False, **options: Any) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        kept = map_leaves(lambda g, t: g + decay * t, updates, state.trace)
        out = (
            map_leaves(lambda g, t: g + decay * t, updates, kept) if nesterov else kept
        )
        return out, TraceState(kept)

    return GradientTransformation(
        lambda params: TraceState(map_leaves(zeros_like, params)), update
    )


@provide("optax.sgd")
def sgd(
    learning_rate: Any,
    momentum: float | None = None,
    nesterov: bool = False,
    **options: Any,
) -> Any:
    first = identity() if momentum is None else trace(momentum, nesterov)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.scale_by_adam")
def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        mu = map_leaves(lambda g, m: (1 - b1) * g + b1 * m, updates, state.mu)
        nu = map_leaves(
            lambda g, v: (1 - b2) * e.square(e.abs_(g)) + b2 * v, updates, state.nu
        )
        count = state.count + 1
        steps = cast(asarray(count), "float32")
        first, second = 1 - b1**steps, 1 - b2**steps
        mean = map_leaves(lambda m: m / first, mu)
        if nesterov:
            ahead = 1 - b1 ** (steps + 1)
            mean = map_leaves(
                lambda m, g: b1 * m / ahead + (1 - b1) * g / first, mu, updates
            )
        out = map_leaves(
            lambda m, v: m / (e.sqrt(v / second + eps_root) + eps), mean, nu
        )
        return out, ScaleByAdamState(count, mu, nu)

    def init(params: Any) -> Any:
        return ScaleByAdamState(
            asarray(0), map_leaves(zeros_like, params), map_leaves(zeros_like, params)
        )

    return GradientTransformation(init, update)


@provide("optax.add_decayed_weights")
def add_decayed_weights(weight_decay: Any = 0.0, mask: Any = None) -> Any:
    decayed = _plain(
        lambda updates, params: map_leaves(
            lambda g, p: g + weight_decay * p, updates, params
        )
    )
    return decayed if mask is None else masked(decayed, mask)


@provide("optax.masked")
def masked(inner: Any, mask: Any, **options: Any) -> Any:
    """A transformation of the parameters for which a tree of booleans, or a prefix of one, holds true."""

    def mask_of(tree: Any) -> Any:
        return mask(tree) if callable(mask) else mask

    def init(params: Any) -> Any:
        if _is_parameters(params):
            return MaskedState(inner.init(params))
        chosen = map_leaves(_or_masked, mask_of(params), params)
        return MaskedState(inner.init(chosen))

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        choice = mask_of(updates)
        chosen = map_leaves(_or_masked, choice, updates)
        given = None if params is None else map_leaves(_or_masked, choice, params)
        out, after = inner.update(chosen, state.inner_state, given)
        whole = map_leaves(_either, choice, out, updates)
        return whole, MaskedState(after)

    return GradientTransformation(init, update)


def _or_masked(is_chosen: Any, value: Any) -> Any:
    return value if is_chosen else MaskedNode()


def _either(is_chosen: Any, value: Any, other: Any) -> Any:
    return value if is_chosen else other


@provide("optax.multi_transform")
@provide("optax.partition")
def partition(transforms: Any, param_labels: Any, **options: Any) -> Any:
    """A transformation of its own for the parameters of each label."""

    def with_label(label: Any) -> Callable[[Any], Any]:
        def mask(tree: Any) -> Any:
            labels = param_labels(tree) if callable(param_labels) else param_labels
            return map_leaves(lambda one: one == label, labels)

        return mask

    parts = {label: masked(one, with_label(label)) for label, one in transforms.items()}

    def init(params: Any) -> Any:
        return PartitionState({label: one.init(params) for label, one in parts.items()})

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        states = {}
        for label, one in parts.items():
            held = state.inner_states[label]
            updates, states[label] = one.update(updates, held, params)
        return updates, PartitionState(states)

    return GradientTransformation(init, update)


@provide("optax.adam")
def adam(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.nadam")
def nadam(learning_rate: Any, *args: Any, **options: Any) -> Any:
    return adam(learning_rate, *args, nesterov=True, **options)


@provide("optax.adamw")
def adamw(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    weight_decay: float = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.nadamw")
def nadamw(learning_rate: Any, *args: Any, **options: Any) -> Any:
    return adamw(learning_rate, *args, nesterov=True, **options)


@provide("optax.scale_by_lion")
def scale_by_lion(b1: float = 0.9, b2: float = 0.99, mu_dtype: Any = None) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        out = map_leaves(lambda g, m: e.sign((1 - b1) * g + b1 * m), updates, state.mu)
        mu = map_leaves(lambda g, m: (1 - b2) * g + b2 * m, updates, state.mu)
        return out, ScaleByLionState(state.count + 1, mu)

    def init(params: Any) -> Any:
        return ScaleByLionState(asarray(0), map_leaves(zeros_like, params))

    return GradientTransformation(init, update)


@provide("optax.lion")
def lion(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: Any = None,
    weight_decay: float = 1e-3,
    mask: Any = None,
) -> Any:
    return chain(
        scale_by_lion(b1, b2),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.scale_by_rms")
def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> Any:
    if bias_correction:
        raise NotEvaluable("scale_by_rms with bias_correction")

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        nu = map_leaves(
            lambda g, v: (1 - decay) * e.square(e.abs_(g)) + decay * v,
            updates,
            state.nu,
        )
        return map_leaves(scaled, updates, nu), ScaleByRmsState(nu)

    def scaled(g: Any, v: Any) -> Any:
        return g / e.sqrt(v + eps) if eps_in_sqrt else g / (e.sqrt(v) + eps)

    def init(params: Any) -> Any:
        return ScaleByRmsState(
            map_leaves(lambda p: zeros_like(p) + initial_scale, params)
        )

    return GradientTransformation(init, update)


@provide("optax.rmsprop")
def rmsprop(
    learning_rate: Any,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Any:
    if centered:
        raise NotEvaluable("rmsprop with centered")
    last = identity() if momentum is None else trace(momentum, nesterov)
    return chain(
        scale_by_rms(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        last,
    )


@provide("optax.scale_by_rss")
def scale_by_rss(initial_accumulator_value: float = 0.1, eps: float = 1e-7) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        squares = map_leaves(
            lambda g, t: e.square(e.abs_(g)) + t, updates, state.sum_of_squares
        )
        out = map_leaves(
            lambda t, g: where(t > 0, e.rsqrt(t + eps), 0.0) * g, squares, updates
        )
        return out, ScaleByRssState(squares)

    def init(params: Any) -> Any:
        return ScaleByRssState(
            map_leaves(lambda p: zeros_like(p) + initial_accumulator_value, params)
        )

    return GradientTransformation(init, update)


@provide("optax.adagrad")
def adagrad(
    learning_rate: Any, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> Any:
    return chain(
        scale_by_rss(initial_accumulator_value, eps),
        scale_by_learning_rate(learning_rate),
    )


def _norm(x: Any) -> Array:
    return e.sqrt(sum_(e.square(e.abs_(x))))


@provide("optax.scale_by_trust_ratio")
def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> Any:
    if min_norm:
        raise NotEvaluable("scale_by_trust_ratio with min_norm")

    def scaled(g: Any, p: Any) -> Any:
        of_weights, of_updates = _norm(p), _norm(g)
        ratio = trust_coefficient * of_weights / (of_updates + eps)
        is_zero = (of_weights == 0.0) | (of_updates == 0.0)
        return g * where(is_zero, 1.0, ratio)

    return _plain(lambda updates, params: map_leaves(scaled, updates, params))


@provide("optax.lamb")
def lamb(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
    mask: Any = None,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.ema")
def ema(decay: float, debias: bool = True, accumulator_dtype: Any = None) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        kept = map_leaves(lambda g, m: (1 - decay) * g + decay * m, updates, state.ema)
        count = state.count + 1
        share = 1 - decay ** cast(asarray(count), "float32") if debias else 1.0
        return map_leaves(lambda m: m / share, kept), EmaState(count, kept)

    def init(params: Any) -> Any:
        return EmaState(asarray(0), map_leaves(zeros_like, params))

    return GradientTransformation(init, update)


@provide("optax.set_to_zero")
def set_to_zero() -> Any:
    return _plain(lambda updates, params: map_leaves(zeros_like, updates))


@provide("optax.clip")
def clip(max_delta: Any) -> Any:
    return _plain(
        lambda updates, params: map_leaves(
            lambda g: e.clamp(asarray(-max_delta), g, asarray(max_delta)), updates
        )
    )


@provide("optax.MultiSteps")
class MultiSteps:
    """Gradients of several steps are averaged before the inner transformation sees them."""

    def __init__(
        self, opt: Any, every_k_schedule: Any, use_grad_mean: bool = True
    ) -> None:
        if callable(every_k_schedule):
            raise NotEvaluable("MultiSteps with a schedule")
        self._inner, self._every, self._mean = opt, every_k_schedule, use_grad_mean

    def init(self, params: Any) -> Any:
        zeros = map_leaves(zeros_like, params)
        inner = self._inner.init(params)
        return MultiStepsState(asarray(0), asarray(0), inner, zeros, ())

    def update(self, updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        step = state.mini_step

        def added(g: Any, total: Any) -> Any:
            return total + (g - total) / (step + 1) if self._mean else total + g

        total = map_leaves(added, updates, state.acc_grads)
        is_last = step == self._every - 1
        out, inner = self._inner.update(total, state.inner_opt_state, params)

        def chosen(last: Any, other: Any) -> Array:
            return where(is_last, last, other)

        after = MultiStepsState(
            where(is_last, 0, step + 1),
            state.gradient_step + where(is_last, 1, 0),
            map_leaves(chosen, inner, state.inner_opt_state),
            map_leaves(lambda t: where(is_last, zeros_like(t), t), total),
            (),
        )
        return map_leaves(lambda g: where(is_last, g, zeros_like(g)), out), after

    def gradient_transformation(self) -> Any:
        return GradientTransformation(self.init, self.update)


@provide("optax.global_norm")
def global_norm(updates: Any) -> Array:
    total: Any = 0.0
    for leaf in flatten(updates)[0]:
        total = sum_(e.square(e.abs_(leaf))) + total
    return e.sqrt(asarray(total))


@provide("optax.clip_by_global_norm")
def clip_by_global_norm(max_norm: Any) -> Any:
    def clipped(updates: Any, params: Any) -> Any:
        norm = global_norm(updates)
        return map_leaves(
            lambda g: where(norm < max_norm, g, g / norm * max_norm), updates
        )

    return _plain(clipped)


@provide("optax.apply_updates")
def apply_updates(params: Any, updates: Any) -> Any:
    return map_leaves(
        lambda p, u: (
            None if p is None else cast(asarray(p + u), asarray(p).dtype or "float32")
        ),
        params,
        updates,
    )


class _Parameters:
    """Stands for the parameters of which a state is made: a tree without leaves."""


register_fields(_Parameters, (), ())


def _is_parameters(value: Any) -> bool:
    return isinstance(value, _Parameters)


@provide("optax.tree_map_params")
@provide("optax.tree_utils.tree_map_params")
@provide("optax.tree.map_params")
def map_parameters(
    initable: Any,
    function: Callable[..., Any],
    state: Any,
    /,
    *rest: Any,
    transform_non_params: Callable[[Any], Any] | None = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Call a function for what belongs to parameters in the state of an optimizer, as the moments do."""
    init = initable if callable(initable) else initable.init
    shape = init(_Parameters())

    def mapped(kind: Any, held: Any) -> Any:
        if _is_parameters(kind):
            return map_leaves(function, held, *rest, is_leaf=is_leaf)
        return held if transform_non_params is None else transform_non_params(held)

    return map_leaves(mapped, shape, state, is_leaf=_is_parameters)
