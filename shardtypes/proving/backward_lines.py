"""The lines of a user's own rule for a gradient: those of the rule, as those of any other function.

JAX gives all operations of a backward pass the lines of the forward pass, which is right for those that it derives
itself. What a rule of ``custom_vjp`` does is written in the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# none of these has a public place to be asked
from jax._src import custom_derivatives as _custom
from jax._src import linear_util as _functions
from jax._src import source_info_util as _lines

from shardtypes.user_lines import is_of_user


@contextmanager
def own_lines() -> Iterator[None]:
    """In the block the operations of users' backward rules have their own lines."""
    home = vars(_custom)
    plain = home["_flatten_bwd"]
    home["_flatten_bwd"] = lambda rule, *about: plain(_with_lines(rule), *about)
    try:
        yield
    finally:
        home["_flatten_bwd"] = plain


def _with_lines(rule: Any) -> Any:
    about = str(getattr(getattr(rule, "debug_info", None), "func_src_info", "") or "")
    file = about.partition(" at ")[2].rpartition(":")[0]
    if file and is_of_user(file):
        return _on_own_lines(rule)
    return rule


@_functions.transformation2  # type: ignore[untyped-decorator] # JAX leaves its types out
def _on_own_lines(rule: Callable[..., Any], *args: Any) -> Any:
    kept = _lines._source_info_context
    before = kept.context
    kept.context = _lines.SourceInfo(None, _lines.current_name_stack())
    try:
        return rule(*args)
    finally:
        kept.context = before
