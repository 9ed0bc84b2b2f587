"""Forced devices, whoever starts JAX first."""

from __future__ import annotations

import os
import sys

import pytest

from pytest_shardtypes.devices import ForcedDevices, merged_xla_flags

from .conftest import Run

COUNTS = """
    import jax, os
    import jax.numpy as jnp

    def test_devices():
        assert len(jax.devices()) == {count}

    def test_sharded_array():
        mesh = jax.make_mesh(({count},), ("d",))
        x = jax.device_put(jnp.ones({count}), jax.NamedSharding(mesh, jax.P("d")))
        assert len(x.addressable_shards) == {count}
"""


def test_flags_of_the_user_stay() -> None:
    flags = "--xla_dump_to=/tmp/x --xla_force_host_platform_device_count=2 --xla_cpu_enable_fast_math=false"
    assert merged_xla_flags(flags, 8) == (
        "--xla_dump_to=/tmp/x --xla_cpu_enable_fast_math=false --xla_force_host_platform_device_count=8"
    )
    assert merged_xla_flags("", 4) == "--xla_force_host_platform_device_count=4"


def test_environment_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    environ = {"XLA_FLAGS": "--xla_a=1", "HOME": os.sep}
    forced = ForcedDevices(4, environ)
    forced.force()
    assert environ["JAX_NUM_CPU_DEVICES"] == "4"
    assert environ["JAX_PLATFORMS"] == "cpu"
    forced.force()
    forced.restore()
    assert environ == {"XLA_FLAGS": "--xla_a=1", "HOME": os.sep}


def test_nothing_starts_jax_first(pytester: pytest.Pytester, run_anew: Run) -> None:
    pytester.makepyfile(COUNTS.format(count=8))
    result = run_anew("--shardtypes")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["shardtypes: 8 CPU devices; checks no packages found*"]
    )


def test_conftest_and_module_level_arrays_start_jax_first(
    pytester: pytest.Pytester, run_anew: Run
) -> None:
    """Both at once: the conftest starts the backend with one device, a module keeps an array of it."""
    pytester.makeini("[pytest]\nshardtypes = true\nshardtypes_devices = 4")
    pytester.makeconftest(
        """
        import os
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
        import jax
        from jax.extend.backend import clear_backends
        clear_backends()
        jax.config.update("jax_num_cpu_devices", 1)
        STARTED_WITH = len(jax.devices())
        """
    )
    pytester.makepyfile(
        test_early="""
        import jax, jax.numpy as jnp
        from conftest import STARTED_WITH
        from jax.extend.backend import clear_backends
        clear_backends()
        jax.config.update("jax_num_cpu_devices", 2)
        KEPT = jnp.arange(4.0)

        def test_started_with_fewer():
            assert STARTED_WITH == 1

        def test_kept_array_is_usable():
            assert float(KEPT.sum()) == 6.0
            mesh = jax.make_mesh((4,), ("d",))
            placed = jax.device_put(KEPT, jax.NamedSharding(mesh, jax.P("d")))
            assert len(placed.addressable_shards) == 4
        """,
        test_counts=COUNTS.format(count=4),
    )
    result = run_anew()
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "shardtypes: JAX was already running with 1 cpu device and was restarted with 4"
        ]
    )


def test_early_plugin_starts_jax_first(
    pytester: pytest.Pytester, run_anew: Run
) -> None:
    """With an array alive, which stays usable and can be moved to the new devices."""
    pytester.makepyfile(
        early="import jax, jax.numpy as jnp\nassert len(jax.devices()) == 1\nKEPT = jnp.arange(8.0)",
        test_counts=COUNTS.format(count=8),
        test_kept="""
        import jax, numpy as np
        from early import KEPT

        def test_kept():
            assert float(KEPT.sum()) == 28.0
            mesh = jax.make_mesh((8,), ("d",))
            placed = jax.device_put(KEPT, jax.NamedSharding(mesh, jax.P("d")))
            assert float(jax.jit(lambda x: x.sum())(placed)) == 28.0
        """,
    )
    result = run_anew(
        "-p", "early", "--shardtypes", "-c", os.devnull, "--rootdir", str(pytester.path)
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        ["*restarted with 8; arrays made before (*) stay usable, on the devices they*"]
    )


@pytest.mark.once
def test_real_devices_are_left_alone(pytester: pytest.Pytester, run_anew: Run) -> None:
    pytester.makepyfile(COUNTS.format(count=1))
    run_anew("--shardtypes", "--shardtypes-devices=0").assert_outcomes(passed=2)
