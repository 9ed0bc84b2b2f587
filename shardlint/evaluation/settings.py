"""Settings of JAX that change none of the numbers that a program computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide


class _Block:
    """A block, or a function, in which a setting holds."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


setattr(_Block, MARK, True)


def _setting(*args: Any, **options: Any) -> _Block:
    return _Block()


for _name in """allow_f16_reductions array_garbage_collection_guard check_tracer_leaks checking_leaks debug_infs
                debug_key_reuse debug_nans default_device default_matmul_precision disable_jit enable_checks
                enable_custom_prng enable_x64 ensure_compile_time_eval experimental.disable_x64 experimental.enable_x64
                explain_cache_misses log_compiles no_tracing numpy_dtype_promotion numpy_rank_promotion
                softmax_custom_jvp thread_guard transfer_guard transfer_guard_device_to_device
                transfer_guard_device_to_host transfer_guard_host_to_device numpy.printoptions""".split():
    provide(f"jax.{_name}")(_setting)


def _nothing(*args: Any, **options: Any) -> None:
    """Do nothing."""


for _name in "clear_caches print_environment_info numpy.set_printoptions".split():
    provide(f"jax.{_name}")(_nothing)
