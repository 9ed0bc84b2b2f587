"""The plugin's options, from the command line or their twins in the configuration file, checked."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_shardtypes.axes import BadMesh, MeshAxes

DEFAULT_DEVICES = 8
REPORT_SUFFIXES = (".html", ".json")


@dataclass(frozen=True)
class Options:
    """What ``--shardtypes`` was asked to do.

    ``devices`` is None where the devices that are there are to be used; ``packages`` is None where the packages in
    the root directory are meant; ``processes`` is None for this process alone, and 0 for those of a launcher.
    ``fail_under`` is the least percentage of sharded dimensions that are to be verified; None asks for none.
    """

    devices: int | None
    mesh: MeshAxes | None
    packages: tuple[str, ...] | None
    trace: bool
    prove: bool
    all_annotations: bool
    jaxtyping: bool
    processes: int | None
    report: Path | None
    fail_under: float | None


#: The options of the run, for its fixtures.
OPTIONS = pytest.StashKey[Options]()


@dataclass(frozen=True)
class _Given:
    """One option's text or value, and the words that tell the user where it was written."""

    value: object
    where: str


def read_options(
    config: pytest.Config,
    options: argparse.Namespace,
    environ: Mapping[str, str] = os.environ,
) -> Options:
    """Read and check every option. Raises ``pytest.UsageError``, which makes pytest exit with status 4."""
    mesh = _mesh(_given(config, options, "mesh"))
    devices = _devices(_given(config, options, "devices"), mesh, environ)
    return Options(
        devices=devices,
        mesh=mesh,
        packages=_packages(_given(config, options, "packages")),
        processes=_processes(_given(config, options, "processes"), devices),
        all_annotations=bool(_given(config, options, "all_annotations").value),
        jaxtyping=bool(_given(config, options, "jaxtyping").value),
        trace=bool(_given(config, options, "trace").value),
        prove=bool(_given(config, options, "prove").value),
        report=_report(_given(config, options, "report"), config.rootpath),
        fail_under=_percentage(_given(config, options, "fail_under")),
    )


def _given(config: pytest.Config, options: argparse.Namespace, name: str) -> _Given:
    value = getattr(options, f"shardtypes_{name}", None)
    if value is not None:
        return _Given(value, f"--shardtypes-{name.replace('_', '-')}={value}")
    where = f"shardtypes_{name} in {config.inipath}"
    try:
        value = config.getini(f"shardtypes_{name}")
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"{where}: {error}") from None
    return _Given(value, f"{where}: {value!r}")


def _devices(
    given: _Given, mesh: MeshAxes | None, environ: Mapping[str, str]
) -> int | None:
    platforms = environ.get("JAX_PLATFORMS", "")
    real = bool(platforms) and platforms.split(",")[0] != "cpu"
    if given.value is None:
        # an accelerator that was asked for by name is what the tests are to run on
        if real:
            return None
        return DEFAULT_DEVICES if mesh is None else max(DEFAULT_DEVICES, mesh.size)
    try:
        count = int(str(given.value))
    except ValueError:
        raise pytest.UsageError(
            f"{given.where} is not a number of devices; write one like 8"
        ) from None
    if count < 0:
        raise pytest.UsageError(
            f"{given.where}: a number of devices is 0 (those that are there) or more"
        )
    if count == 0:
        return None
    if real:
        raise pytest.UsageError(
            f"{given.where} forces CPU devices, but JAX_PLATFORMS={platforms} asks for others; "
            "use 0 devices to take those that are there, or unset JAX_PLATFORMS"
        )
    if mesh is not None and mesh.size > count:
        raise pytest.UsageError(
            f"{given.where}: the mesh {mesh} needs {mesh.size} devices; ask for {mesh.size} or a smaller mesh"
        )
    return count


def _processes(given: _Given, devices: int | None) -> int | None:
    if given.value is None:
        return None
    try:
        count = int(str(given.value))
    except ValueError:
        raise pytest.UsageError(
            f"{given.where} is not a number of processes; write one like 2"
        ) from None
    if count < 0:
        raise pytest.UsageError(
            f"{given.where}: a number of processes is 0 (those that a launcher started) or more"
        )
    if count > 1 and devices is not None and devices % count:
        raise pytest.UsageError(
            f"{given.where}: {devices} devices cannot be shared evenly by {count} processes"
        )
    if count > 1 and devices is None:
        raise pytest.UsageError(
            f"{given.where} needs forced CPU devices; on real ones start pytest by a launcher, with 0"
        )
    return None if count == 1 else count


def _mesh(given: _Given) -> MeshAxes | None:
    if not given.value:
        return None
    try:
        return MeshAxes.parse(str(given.value))
    except BadMesh as error:
        raise pytest.UsageError(f"{given.where}: {error}") from None


def _packages(given: _Given) -> tuple[str, ...] | None:
    value = given.value
    if not isinstance(value, (str, list)):
        return None
    names = (
        value.split(",") if isinstance(value, str) else [str(name) for name in value]
    )
    names = [name.strip() for name in names if name.strip()]
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise pytest.UsageError(
                f"{given.where}: {name!r} is not a package's name; write one like model.layers"
            )
    return tuple(names) or None


def _report(given: _Given, root: Path) -> Path | None:
    if not given.value:
        return None
    path = root / str(given.value)
    if path.suffix not in REPORT_SUFFIXES:
        raise pytest.UsageError(
            f"{given.where}: a report's name ends in {' or '.join(REPORT_SUFFIXES)}"
        )
    if path.is_dir():
        raise pytest.UsageError(f"{given.where}: is a folder; name a file in it")
    return path


def _percentage(given: _Given) -> float | None:
    if given.value is None:
        return None
    try:
        percentage = float(str(given.value))
    except ValueError:
        percentage = math.nan
    if not 0 <= percentage <= 100:
        raise pytest.UsageError(
            f"{given.where} is not a percentage; write a number from 0 to 100"
        )
    return percentage
