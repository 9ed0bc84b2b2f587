"""Random keys whose form depends on settings of the program."""

from __future__ import annotations

from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.values import ArrayValue, Value


@knows(("jax.random.PRNGKey",))
def untyped_key(site: Site) -> Value | None:
    """``PRNGKey(seed)``: as many numbers as the generator of the program needs, or a typed key."""
    if site.it.project.some_outline("sets_keys"):
        return ArrayValue(None)
    return None
