"""Options and their twins in the configuration file, good and bad."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_shardtypes.axes import BadMesh, MeshAxes
from pytest_shardtypes.options import Options, read_options
from tests.support import quick_xla_flags

from .conftest import ROOT, Run


def test_mesh_axes() -> None:
    axes = MeshAxes.parse(" d=2, t=4 ")
    assert (axes.names, axes.shape, axes.size, axes.kind, str(axes)) == (
        ("d", "t"),
        (2, 4),
        8,
        "auto",
        "d=2,t=4",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' in '' is not an axis; write axes like d=2,t=4"),
        ("d", "'d' in 'd' is not an axis; write axes like d=2,t=4"),
        ("d=2,d=4", "axis 'd' occurs twice in 'd=2,d=4'"),
        ("d=x", "axis 'd' in 'd=x' has no size; write axes like d=2,t=4"),
        ("d=0", "axis 'd' has size 0; a size is a whole number of at least 1"),
        ("2=d", "'2=d' in '2=d' is not an axis; write axes like d=2,t=4"),
    ],
)
def test_bad_mesh_axes(text: str, message: str) -> None:
    with pytest.raises(BadMesh) as caught:
        MeshAxes.parse(text)
    assert str(caught.value) == message


def read(
    pytester: pytest.Pytester,
    option: str,
    ini: str,
    environ: dict[str, str] | None = None,
) -> Options:
    """The options of a run that gives one option on the command line, in the configuration file, or in both."""
    # Not `shardtypes = true`, which would force devices on this very process.
    pytester.makepyprojecttoml(f"[tool.pytest]\n{ini}")
    config = pytester.parseconfig("-p", "pytest_shardtypes.plugin", *option.split(";"))
    return read_options(config, config.option, environ or {})


@pytest.mark.parametrize(
    ("option", "ini", "name", "value"),
    [
        ("--shardtypes-devices=4", "shardtypes_devices = 4", "devices", 4),
        ("--shardtypes-devices=0", "shardtypes_devices = 0", "devices", None),
        (
            "--shardtypes-mesh=d=2,t=4",
            'shardtypes_mesh = "d=2,t=4"',
            "mesh",
            MeshAxes.parse("d=2,t=4"),
        ),
        (
            "--shardtypes-packages=a, b.c",
            'shardtypes_packages = ["a", "b.c"]',
            "packages",
            ("a", "b.c"),
        ),
        ("--shardtypes-processes=2", "shardtypes_processes = 2", "processes", 2),
        (
            "--shardtypes-all-annotations",
            "shardtypes_all_annotations = true",
            "all_annotations",
            True,
        ),
        ("--no-shardtypes-trace", "shardtypes_trace = false", "trace", False),
        (
            "--shardtypes-report=o/r.html",
            'shardtypes_report = "o/r.html"',
            "report",
            Path("o/r.html"),
        ),
        (
            "--shardtypes-fail-under=80",
            "shardtypes_fail_under = 80",
            "fail_under",
            80.0,
        ),
    ],
)
def test_option_and_twin(
    pytester: pytest.Pytester, option: str, ini: str, name: str, value: object
) -> None:
    """Each says the same on the command line and in the configuration, and the command line wins."""
    wanted = pytester.path / value if isinstance(value, Path) else value
    default = getattr(read(pytester, "-q", ""), name)
    assert default != wanted or value is None
    assert getattr(read(pytester, option, ""), name) == wanted
    assert getattr(read(pytester, "-q", ini), name) == wanted
    other = {
        "devices": "16",
        "mesh": '"x=2"',
        "packages": '["other"]',
        "report": '"other.json"',
        "trace": "true",
        "all_annotations": "false",
        "processes": "4",
        "fail_under": "12.5",
    }[name]
    assert (
        getattr(read(pytester, option, f"shardtypes_{name} = {other}"), name) == wanted
    )


def test_devices_by_default(pytester: pytest.Pytester) -> None:
    """Eight, as many as the mesh needs, or the accelerators that were asked for by name."""
    assert read(pytester, "-q", "").devices == 8
    assert read(pytester, "--shardtypes-mesh=d=4,t=4", "").devices == 16
    assert read(pytester, "-q", "", {"JAX_PLATFORMS": "tpu,cpu"}).devices is None
    with pytest.raises(
        pytest.UsageError,
        match="forces CPU devices, but JAX_PLATFORMS=tpu asks for others",
    ):
        read(pytester, "--shardtypes-devices=4", "", {"JAX_PLATFORMS": "tpu"})


@pytest.mark.parametrize(
    ("option", "ini", "message"),
    [
        (
            "--shardtypes-devices=many",
            'shardtypes_devices = "many"',
            "is not a number of devices|expects an? int",
        ),
        (
            "--shardtypes-devices=-1",
            "shardtypes_devices = -1",
            "a number of devices is 0 .* or more",
        ),
        (
            "--shardtypes-devices=2;--shardtypes-mesh=d=4",
            'shardtypes_devices = 2\nshardtypes_mesh = "d=4"',
            "ask for 4",
        ),
        (
            "--shardtypes-mesh=d",
            'shardtypes_mesh = "d"',
            "'d' in 'd' is not an axis; write axes like d=2,t=4",
        ),
        (
            "--shardtypes-packages=a b",
            'shardtypes_packages = ["a b"]',
            "'a b' is not a package's name",
        ),
        (
            "--shardtypes-packages=a b",
            "shardtypes_packages = 3",
            "is not a package's name|expects a list",
        ),
        (
            "--shardtypes-processes=x",
            'shardtypes_processes = "x"',
            "is not a number of processes|expects an? int",
        ),
        (
            "--shardtypes-processes=-2",
            "shardtypes_processes = -2",
            "a number of processes is 0 .* or more",
        ),
        (
            "--shardtypes-processes=3",
            "shardtypes_processes = 3",
            "8 devices cannot be shared evenly by 3 processes",
        ),
        (
            "--shardtypes-report=x.pdf",
            'shardtypes_report = "x.pdf"',
            "a report's name ends in .html or .json",
        ),
        (
            "--shardtypes-fail-under=most",
            'shardtypes_fail_under = "most"',
            "is not a percentage; write a number from 0 to 100|expects a float",
        ),
        (
            "--shardtypes-fail-under=101",
            "shardtypes_fail_under = 101",
            "is not a percentage; write a number from 0 to 100",
        ),
        (
            "--shardtypes-fail-under=nan",
            "shardtypes_fail_under = -1",
            "is not a percentage; write a number from 0 to 100",
        ),
    ],
)
def test_bad_option(
    pytester: pytest.Pytester, option: str, ini: str, message: str
) -> None:
    """A usage error says which option, or which line of which file."""
    with pytest.raises(pytest.UsageError, match=f"^--shardtypes-.*({message})"):
        read(pytester, option, "")
    with pytest.raises(pytest.UsageError, match=f"pyproject.toml: .*({message})"):
        read(pytester, "-q", ini)


@pytest.mark.once
@pytest.mark.parametrize(
    "lines", ["shardtypes = 'perhaps'", "shardtypes = true\nshardtypes_devices = 'x'"]
)
def test_bad_configuration_is_a_usage_error(
    pytester: pytest.Pytester, run: Run, lines: str
) -> None:
    pytester.makepyprojecttoml(f"[tool.pytest]\n{lines}")
    result = run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *pyproject.toml: *shardtypes* expects a*"])
    assert "Traceback" not in str(result.stderr)


@pytest.mark.once
def test_every_option_from_the_configuration(
    pytester: pytest.Pytester, run: Run
) -> None:
    """The twins in native TOML, and a command line that wins over them."""
    pytester.makepyprojecttoml(
        """
        [tool.pytest]
        strict = true
        shardtypes = true
        shardtypes_devices = 4
        shardtypes_mesh = "d=2,t=2"
        shardtypes_packages = ["absent"]
        shardtypes_report = "out/deep/report.json"
        """
    )
    pytester.makepyfile(
        """
        def test_mesh(mesh):
            assert dict(mesh.shape) == {"d": 2, "t": 2}
        """
    )
    result = run()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "shardtypes: 4 CPU devices; mesh d=2,t=2; checks absent",
            "checks run: none: no test imported what is to be checked",
            "package absent: no test imported it, so nothing in it was checked",
            "report: *report.json",
        ]
    )
    assert (pytester.path / "out/deep/report.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("-k", "first"), ["checks run: 1 failed"], id="all raise"),
        pytest.param(("-k", "right"), ["checks run: 3 shape"], id="none raises"),
        pytest.param((), ["checks run: 4 shape, 3 failed"], id="some raise"),
        pytest.param(
            ("-n", "2"), ["checks run: 4 shape, 3 failed"], id="in two workers"
        ),
        pytest.param(
            ("-x",),
            ["checks run: 1 failed", "the run ended early: *"],
            id="stopped",
        ),
        pytest.param(
            ("test_broken.py", "test_model.py"),
            [
                "checks run: none: the run ended before a test called an annotated function",
                "the run ended early: *",
            ],
            id="not collected",
        ),
        pytest.param(
            ("-k", "absent"), ["checks run: none: no test ran"], id="nothing selected"
        ),
    ],
)
@pytest.mark.once
def test_the_numbers_of_a_run_with_failures(
    pytester: pytest.Pytester, run: Run, arguments: tuple[str, ...], said: list[str]
) -> None:
    """Checks that raise are checks; a run that ended early does not say that something lacks a test."""
    pytester.makepyfile(
        model="""
        from shardtypes import f32

        def mlp(x: f32["B M"], w: f32["M F"]) -> f32["B F"]:
            return x @ w
        """,
        test_model="""
        import jax.numpy as jnp
        import pytest
        from model import mlp
        from shardtypes import ShardTypeError

        def test_first():
            mlp(jnp.ones((2, 3, 4)), jnp.ones((3, 4)))

        def test_second():
            mlp(jnp.ones((2, 3)), jnp.ones((5, 4)))

        def test_expected():
            with pytest.raises(ShardTypeError):
                mlp(jnp.ones(2), jnp.ones((3, 4)))

        def test_right():
            mlp(jnp.ones((2, 3)), jnp.ones((3, 4)))
        """,
    )
    pytester.path.joinpath("test_broken.py").write_text("import nothing_of_that_name")
    if "test_broken.py" not in arguments:
        arguments = (*arguments, "test_model.py")
    result = run("--shardtypes", "--no-shardtypes-trace", *arguments)
    result.stdout.fnmatch_lines(said)
    assert result.stdout.str().count("ended early") == (len(said) - 1)


def test_off_costs_nothing_and_changes_nothing(
    pytester: pytest.Pytester, run_anew: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --shardtypes: no module beyond the plugin's own, no fixtures, the markers known, the environment kept."""
    pytester.makepyfile(
        """
        import os, sys, pytest

        @pytest.mark.mesh(d=2)
        @pytest.mark.meshes("d=8")
        def test_nothing(request):
            ours = [m for m in sys.modules if m.split(".")[0] in ("shardtypes", "pytest_shardtypes")]
            assert sorted(ours) == ["pytest_shardtypes", "pytest_shardtypes.plugin"]
            assert not {"jax", "numpy", "libcst", "typeguard"} & set(sys.modules)
            assert os.environ["XLA_FLAGS"] == os.environ["GIVEN"]
            assert "_shardtypes_mesh" not in request.fixturenames
        """
    )
    monkeypatch.setenv("GIVEN", quick_xla_flags())
    # other plugins import typeguard
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    run_anew("--strict-markers").assert_outcomes(passed=1)


@pytest.mark.once
def test_that_the_import_check_can_fail(
    pytester: pytest.Pytester, run_anew: Run
) -> None:
    pytester.makepyfile("import sys\ndef test_it(): assert 'jax' not in sys.modules")
    run_anew("--shardtypes").assert_outcomes(failed=1)


@pytest.mark.once
def test_entry_point_and_p_are_one_plugin(pytester: pytest.Pytester, run: Run) -> None:
    """Installed and named with -p, in a conftest's pytest_plugins too, and switched off by name."""
    info = pytester.mkdir("site") / "fake-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[pytest11]\nshardtypes = pytest_shardtypes.plugin\n"
    )
    pytester.makeconftest("pytest_plugins = ['pytest_shardtypes.plugin']")
    pytester.makepyfile(
        "def test_it(pytestconfig): assert pytestconfig.getoption('shardtypes') is None"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(info.parent)])}

    def start(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", *args]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, check=False
        )

    assert "1 passed" in start("-p", "pytest_shardtypes.plugin").stdout
    assert "1 passed" in start().stdout
    (pytester.path / "conftest.py").unlink()
    assert (
        "unrecognized arguments: --shardtypes"
        in start("-p", "no:shardtypes", "--shardtypes").stderr
    )
