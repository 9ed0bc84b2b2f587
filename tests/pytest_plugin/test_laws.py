"""Laws under ``pytest --shardtypes``: the fixture, and items for the roles of dimensions."""

from __future__ import annotations

import pytest

from .conftest import Run

LAYERS = """
    from __future__ import annotations
    import jax, jax.numpy as jnp
    from shardtypes import bool_, f32, i32, laws

    def shifted(x: f32['B L D']) -> f32['B L D']:
        after = jnp.pad(x, ((0, 0), (0, 1), (0, 0)))[:, 1:]
        return x + after

    def summed(x: f32['B D']) -> f32['B D']:
        return x - x.mean(0)

    @laws.exempt(L='sees both sides')
    def smoothed(x: f32['B L D']) -> f32['B L D']:
        return x - x.mean(1, keepdims=True)

    @laws.roles(L='features')
    def mixed(x: f32['B L D']) -> f32['B L D']:
        return x - x.mean(1, keepdims=True)

    def masked(x: f32['L D'], mask: bool_['L L']) -> f32['L D']:
        return jnp.where(mask, x @ x.T, 0) @ x

    def pooled(x: f32['B L D']) -> f32['B D']:
        return x.mean(1)

    def normed(x: f32['B D']) -> f32['B D']:
        return x - x.mean(0)
"""
TESTS = """
    import jax, jax.numpy as jnp
    import layers

    def test_calls():
        x = jnp.arange(12.0).reshape(4, 3)
        layers.masked(x, jnp.tril(jnp.ones((4, 4), bool)))
"""
SETTINGS = """
    [tool.pytest]
    shardtypes = true
    shardtypes_packages = ["layers"]
    [tool.shardtypes]
    roles = {B = "independent", L = "causal"}
    exempt = {"layers.normed" = "looks at the batch"}
"""


def test_roles_are_tests_of_their_own(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(layers=LAYERS, test_layers=TESTS)
    pytester.makepyprojecttoml(SETTINGS)
    result = run("-v", "-m", "not shardtypes_trace")
    result.assert_outcomes(passed=6, failed=2)
    result.stdout.fnmatch_lines(
        [
            "test_layers.py::test_calls PASSED*",
            "layers.py::masked?causal L? PASSED*",
            "layers.py::mixed?independent B? PASSED*",
            "layers.py::pooled?independent B? PASSED*",
            "layers.py::shifted?independent B? PASSED*",
            "layers.py::shifted?causal L? FAILED*",
            "layers.py::smoothed?independent B? PASSED*",
            "layers.py::summed?independent B? FAILED*",
            "E   shifted: not causal in 'L': position 0 of result depends on position 1, *layers.py:7 in shifted",
            "E   summed: not independent in 'B': position 1 of result depends on position 0, *layers.py:10 in summed",
            "laws of dimensions: 5 of 7 hold",
            "  exempt: layers.normed, independent in B: looks at the batch",
            "  exempt: layers.smoothed, causal in L: sees both sides",
        ]
    )
    assert "layers.py::mixed[causal" not in result.stdout.str()


def test_without_a_call_what_cannot_be_made_cannot_be_told(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(layers=LAYERS, test_layers="def test_nothing(): pass\n")
    pytester.makepyprojecttoml(SETTINGS)
    result = run("-q", "-k", "masked and causal")
    assert "1 could not tell" in result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*could not tell layers.py::masked?causal L?: masked: give an example of 'mask'*"
        ]
    )


def test_the_fixture_fails_the_test(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        layers=LAYERS,
        test_layers="""
        import layers

        def test_right(laws):
            assert laws.causal(layers.mixed, "B").proved

        def test_wrong(laws):
            laws.causal(layers.shifted, "L")

        def test_unknown(laws):
            laws.causal(layers.masked, "L")
        """,
    )
    pytester.makepyprojecttoml(
        '[tool.pytest]\nshardtypes = true\nshardtypes_packages = ["layers"]\n'
    )
    result = run("-q", "test_layers.py")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "shifted: not causal in 'L': *",
            "could not tell: masked: give an example of 'mask', which is between positions of 'L'",
        ]
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            'roles = {B = "alone"}',
            "B = 'alone': a role is one of independent, causal, equivariant, padding, features",
        ),
        ('role = {B = "causal"}', "unknown setting 'role': there are roles and exempt"),
        (
            'exempt = {"layers.shifted" = ""}',
            "exempt: say why 'layers.shifted' is exempt",
        ),
        ('roles = "causal"', "roles is a table"),
    ],
)
def test_wrong_settings_are_usage_errors(
    pytester: pytest.Pytester, run: Run, settings: str, words: str
) -> None:
    pytester.makepyfile(layers=LAYERS, test_layers=TESTS)
    pytester.makepyprojecttoml(
        f"[tool.pytest]\nshardtypes = true\n[tool.shardtypes]\n{settings}\n"
    )
    result = run("-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()
