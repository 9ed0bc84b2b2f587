"""The module that pytest loads, in every test run of every project that has shardtypes installed.

It therefore imports pytest and the standard library only, and does nothing but declare options and markers until
``--shardtypes`` (or ``shardtypes = true`` in the configuration) turns the rest on.
"""

from __future__ import annotations

import argparse
import sys

import pytest

ENTRY_POINT = "shardtypes"
MODULE = "pytest_shardtypes.plugin"

MARKERS = (
    "mesh(*, axis_types='auto', **axes): run the test with this mesh in force, as in @pytest.mark.mesh(d=2, t=4)",
    "meshes(*specs, axis_types='auto'): run the test once on each mesh, as in @pytest.mark.meshes('d=8', 'd=2,t=4')",
    "variants(*names): how the fixture `variant` runs functions, by default in each way: eager, jit, vmap, shard_map",
    "processes(*, timeout=120): run the test in each of the processes of --shardtypes-processes, at most for so long",
    "mesh_dependent(why): functions that the test calls may give other numbers on other meshes, for this reason",
    "shardtypes_trace: on the tests that --shardtypes makes of annotated functions, as in -m 'not shardtypes_trace'",
    "shardtypes_laws: on the tests that --shardtypes makes of the roles of dimensions, as in -m 'not shardtypes_laws'",
)


def pytest_addoption(
    parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager
) -> None:
    """Declare the options; each has a twin of the same name, with underscores, in the configuration file."""
    _block_second_name(pluginmanager)
    group = parser.getgroup(
        "shardtypes", "shardtypes: shapes and shardings of JAX arrays"
    )
    group.addoption(
        "--shardtypes",
        action="store_true",
        default=None,
        help="check annotations in the project's packages, on several forced CPU devices",
    )
    group.addoption(
        "--shardtypes-devices",
        metavar="N",
        default=None,
        help="CPU devices to force (default 8); 0 takes the devices that are there",
    )
    group.addoption(
        "--shardtypes-mesh",
        metavar="AXES",
        default=None,
        help="mesh of the fixture `mesh` where a test has no marker, as in d=2,t=4",
    )
    group.addoption(
        "--shardtypes-packages",
        metavar="NAMES",
        default=None,
        help="packages to check, separated by commas (default: the packages in the root directory)",
    )
    group.addoption(
        "--shardtypes-trace",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="make each annotated function of the packages a test: it is traced for all sizes (default: on)",
    )
    group.addoption(
        "--shardtypes-prove",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="compare each function that maps over devices, as the tests call it, with one device (default: off)",
    )
    group.addoption(
        "--shardtypes-all-annotations",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="have typeguard check annotations that hold no array types of shardtypes as well (default: off)",
    )
    group.addoption(
        "--shardtypes-jaxtyping",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="check the dtypes and sizes that jaxtyping's annotations say as well (default: on)",
    )
    group.addoption(
        "--shardtypes-processes",
        metavar="N",
        default=None,
        help="run tests marked `processes` in N processes that compute together; 0 joins those of a launcher",
    )
    group.addoption(
        "--shardtypes-update",
        action="store_true",
        default=False,
        help="write the golden files of assert_collectives(…, golden='name') anew",
    )
    group.addoption(
        "--shardtypes-report",
        metavar="PATH",
        default=None,
        help="write what was checked to PATH, which ends in .html or .json",
    )
    group.addoption(
        "--shardtypes-fail-under",
        metavar="PERCENT",
        default=None,
        help="fail where fewer of the sharded dimensions were verified on a mesh axis larger than 1",
    )
    parser.addini("shardtypes", "turn --shardtypes on", type="bool", default=False)
    parser.addini(
        "shardtypes_devices", "twin of --shardtypes-devices", type="int", default=None
    )
    parser.addini(
        "shardtypes_mesh", "twin of --shardtypes-mesh", type="string", default=None
    )
    parser.addini(
        "shardtypes_packages",
        "twin of --shardtypes-packages",
        type="linelist",
        default=None,
    )
    parser.addini(
        "shardtypes_all_annotations",
        "twin of --shardtypes-all-annotations",
        type="bool",
        default=False,
    )
    parser.addini(
        "shardtypes_jaxtyping",
        "twin of --shardtypes-jaxtyping",
        type="bool",
        default=True,
    )
    parser.addini(
        "shardtypes_processes",
        "twin of --shardtypes-processes",
        type="int",
        default=None,
    )
    parser.addini(
        "shardtypes_trace", "twin of --shardtypes-trace", type="bool", default=True
    )
    parser.addini(
        "shardtypes_prove", "twin of --shardtypes-prove", type="bool", default=False
    )
    parser.addini(
        "shardtypes_report", "twin of --shardtypes-report", type="string", default=None
    )
    parser.addini(
        "shardtypes_fail_under",
        "twin of --shardtypes-fail-under",
        type="float",
        default=None,
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Force the devices before any conftest.py can start JAX."""
    if wanted(early_config, early_config.known_args_namespace):
        from pytest_shardtypes import session

        session.start(early_config, early_config.known_args_namespace)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Take over the options of the run that started this process, if one did."""
    if wanted(config, config.option):
        from pytest_shardtypes import session

        session.start(config, config.option).take_options()


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers always (for ``--strict-markers``), everything else only when wanted."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    if wanted(config, config.option):
        from pytest_shardtypes import session

        session.start(config, config.option).configure()


def wanted(config: pytest.Config, options: argparse.Namespace) -> bool:
    """Whether this run asked for the plugin; a value that is no boolean is a usage error."""
    if getattr(options, "shardtypes", None):
        return True
    try:
        return bool(config.getini("shardtypes"))
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(
            f"shardtypes in {config.inipath}: {error}; write true or false"
        ) from None


def _block_second_name(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let ``-p pytest_shardtypes.plugin`` (or ``pytest_plugins``) and the installed entry point be the same plugin.

    pluggy refuses one module under two names, so the name that did not come first is blocked.
    """
    own = pluginmanager.get_name(sys.modules[__name__])
    for other in (ENTRY_POINT, MODULE):
        if other != own and not pluginmanager.is_blocked(other):
            pluginmanager.set_blocked(other)
