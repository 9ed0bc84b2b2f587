"""``optax``'s losses that go through a sequence, or compare examples with each other."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.lowered import jnp, lax, nn
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast, sizes_of
from shardtypes.semantics.lowerings.creation import zeros

_INFINITY = float("inf")
_EPSILON = 2.0**-23
"""What a float32 differs from 1 at least."""


@provide("optax.ctc_loss_with_forward_probs")
@provide("optax.losses.ctc_loss_with_forward_probs")
def ctc_loss_with_forward_probs(
    logits: Any,
    logit_paddings: Any,
    labels: Any,
    label_paddings: Any,
    *,
    blank_id: int = 0,
    log_epsilon: Any = -1e5,
) -> Any:
    """The loss of each sequence, and the logarithms of the forward probabilities at blanks and at labels."""
    logits, labels = asarray(logits), asarray(labels)
    batch, steps, classes = sizes_of(logits)
    most = sizes_of(labels)[1]
    logs = nn.log_softmax(logits)
    lengths = most - cast(jnp.sum(label_paddings, axis=1), "int32")
    repeated = cast(labels[:, :-1] == labels[:, 1:], "float32")
    repeated = jnp.pad(repeated, ((0, 0), (0, 1)))
    of_labels = jnp.einsum("btk,bnk->btn", logs, nn.one_hot(labels, classes))
    phi = jnp.full((batch, most + 1), log_epsilon, "float32")
    phi = jnp.concatenate([zeros((batch, 1)), phi[:, 1:]], axis=1)
    emit = jnp.full((batch, most), log_epsilon, "float32")
    every_phi, every_emit = [], []

    def also(score: Array, added: Array) -> Any:
        rest = jnp.logaddexp(score[:, 1:], added)
        return jnp.concatenate([score[:, :1], rest], axis=-1)

    for step in range(steps):
        of_label = of_labels[:, step]
        of_blank = logs[:, step, blank_id : blank_id + 1]
        padded = jnp.reshape(asarray(logit_paddings)[:, step], (batch, 1))
        before = also(phi, emit + log_epsilon * repeated)
        next_emit = jnp.logaddexp(before[:, :-1] + of_label, emit + of_label)
        ended = emit + of_blank + log_epsilon * (1.0 - repeated)
        next_phi = also(before + of_blank, ended)
        emit = padded * emit + (1.0 - padded) * next_emit
        phi = padded * phi + (1.0 - padded) * next_phi
        every_phi.append(phi)
        every_emit.append(emit)
    every_phi[-1] = also(phi, emit)
    at_end = nn.one_hot(lengths, most + 1)
    losses = -jnp.einsum("bn,bn->b", every_phi[-1], at_end)
    return losses, jnp.stack(every_phi), jnp.stack(every_emit)


@provide("optax.ctc_loss")
@provide("optax.losses.ctc_loss")
def ctc_loss(
    logits: Any,
    logit_paddings: Any,
    labels: Any,
    label_paddings: Any,
    *,
    blank_id: int = 0,
    log_epsilon: Any = -1e5,
) -> Any:
    given = logits, logit_paddings, labels, label_paddings
    options = {"blank_id": blank_id, "log_epsilon": log_epsilon}
    return ctc_loss_with_forward_probs(*given, **options)[0]


@provide("optax.ntxent")
@provide("optax.losses.ntxent")
def ntxent(embeddings: Any, labels: Any, temperature: Any = 0.07) -> Any:
    """The normalized, temperature scaled cross entropy of examples of one label against those of others."""
    embeddings, labels = asarray(embeddings), asarray(labels)
    if embeddings.dims[0] != labels.dims[0]:
        raise ValueError("Labels and embeddings must have the same leading dimension")
    count = sizes_of(labels)[0]
    squares = jnp.sum(jnp.square(embeddings), axis=-1, keepdims=True)
    norms = jnp.sqrt(jnp.clip(squares, _EPSILON))
    units = embeddings / norms
    alike = units @ jnp.transpose(units) / temperature
    is_same = jnp.expand_dims(labels, 1) == jnp.expand_dims(labels, 0)
    is_other = ~is_same
    is_match = is_same & ~cast(jnp.eye(count), "bool")
    others = jnp.where(is_other, alike, -_INFINITY)
    matches = jnp.where(is_match, alike, -_INFINITY)
    both = jnp.concatenate([others, matches], axis=-1)
    largest = lax.stop_gradient(jnp.max(both, axis=1, keepdims=True))
    shifted = matches - largest
    below = jnp.sum(jnp.exp(others - largest), axis=1, keepdims=True)
    logs = shifted - jnp.log(below + jnp.exp(shifted))
    count_of_matches = jnp.sum(cast(is_match, "int32"))
    return -jnp.sum(jnp.where(is_match, logs, 0.0)) / count_of_matches
