"""Keys, typed (``jax.random.key``) and not (``PRNGKey``): arrays of them have the shapes that they have in JAX, and
draw the same numbers, whatever a program does with them on the way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.running import NUMBERS, evaluated, in_jax

pytestmark = pytest.mark.once  # how keys are laid out does not change with JAX

#: What is done with four keys, and how many there are then; those of ``PRNGKey`` have one dimension more.
OF_TYPED = {
    "tile": "jnp.tile(keys, 2)",
    "tile in two": "jnp.tile(keys, (2, 3)).reshape(-1)",
    "reshape": "keys.reshape(2, 2).T.reshape(-1)",
    "reshape by -1": "keys.reshape(2, -1)[:, ::-1].ravel()",
    "stack": "jnp.stack([keys, keys[::-1]], axis=-1).reshape(-1)",
    "concatenate": "jnp.concatenate([keys, keys[1:]])",
    "repeat": "jnp.repeat(keys, 2)",
    "expand": "keys[:, None][..., 0]",
    "broadcast": "jnp.broadcast_to(keys[:, None], (4, 2)).ravel()",
    "roll": "jnp.roll(keys, 1)",
    "where": "jnp.where(jnp.arange(4) > 1, keys, keys[0])",
    "take": "jnp.take(keys, jnp.array([3, 1]), axis=0)",
    "set": "keys.at[1].set(keys[3])",
    "swap": "jnp.swapaxes(jax.random.split(key, (2, 3)), 0, 1).ravel()",
    "scan": "jax.lax.scan(lambda k, _: (jax.random.fold_in(k, 1), k), key, None, 3)[1]",
    "wrapped": "jax.random.wrap_key_data(jax.random.key_data(keys))",
    "cond": "jax.lax.cond(keys.ndim == 1, lambda: keys, lambda: keys[::-1])",
}
OF_ANY = {
    "split": "keys",
    "rows": "jnp.stack([one for one in keys])",
    "fold_in": "jax.vmap(jax.random.fold_in)(keys, jnp.arange(4))",
    "folded for each": "jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(4))",
    "slice": "jax.lax.dynamic_slice_in_dim(keys, 1, 2)",
    "gathered": (
        "jax.shard_map(lambda k: jax.lax.all_gather(k, 'd', tiled=True),"
        " mesh=jax.sharding.Mesh(jax.devices()[:4], ('d',)), in_specs=jax.P('d'),"
        " out_specs=jax.P(), check_vma=False)(keys)"
    ),
    "on each device": (
        "jax.shard_map(lambda k: jax.random.split(k[0], 2), mesh=jax.sharding.Mesh(jax.devices()[:4], ('d',)),"
        " in_specs=jax.P('d'), out_specs=jax.P('d'), check_vma=False)(keys)"
    ),
}
PROGRAMS = {
    f"{made}: {name}": (
        "import jax\nimport jax.numpy as jnp\n\n\ndef main():\n"
        f"    key = jax.random.{made}(3)\n    keys = jax.random.split(key, 4)\n    found = {text}\n"
        "    return [jnp.array([*found.shape, *key.shape]), jax.vmap(jax.random.uniform)(found)]\n"
    )
    for made, texts in (
        ("key", OF_TYPED | OF_ANY),
        ("PRNGKey", OF_ANY),
    )
    for name, text in texts.items()
}


def test_they_are_those_of_jax(tmp_path: Path) -> None:
    wanted = in_jax(tmp_path, PROGRAMS, NUMBERS)
    for name, text in PROGRAMS.items():
        shapes, drawn = evaluated(text)
        assert shapes.tolist() == wanted[name][0], name
        assert np.allclose(drawn, wanted[name][1]), name
