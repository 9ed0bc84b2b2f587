"""Which lists of rules are taken to be in force."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import pytest

from shardlint.config import Config
from shardlint.engine import analyze
from shardlint.logical_rules import RuleList
from shardlint.project import Project
from tests.projects import lowered

MODEL = """
import flax.linen as nn
from shardtypes import f32
def f(x: f32['B M']):
    return nn.with_logical_constraint(x, ('batch', 'odd'))
"""
HEAD = "import flax.linen as nn\nfrom lists import ONE, OTHER\n"
LISTS = (
    "ONE = (('batch', 'd'), ('mlp', 't'))\nOTHER = (('batch', None), ('odd', 'd'))\n"
)


def found(main: str, *lists: RuleList) -> list[str]:
    """The findings of a model in a project whose other module is ``main``."""
    texts = {"model": MODEL, "main": HEAD + main, "lists": LISTS}
    modules = lowered(texts)
    settings = Config(logical_rules=lists)
    return [
        event.message for event in analyze(Project(modules), modules["model"], settings)
    ]


UNKNOWN = [
    "no rule mentions the logical axis 'odd': the dimension is replicated; add a rule"
]


@pytest.mark.parametrize(
    ("main", "messages"),
    [
        ("", []),
        ("with nn.logical_axis_rules(ONE): pass", UNKNOWN),
        ("def run():\n    with nn.partitioning.axis_rules(rules=ONE): pass", UNKNOWN),
        (
            "def run(specs, mesh):\n    return nn.logical_to_mesh_sharding(specs, mesh, ONE)",
            UNKNOWN,
        ),
        ("nn.set_logical_axis_rules(ONE)\nnn.logical_to_mesh(None)", UNKNOWN),
        ("with nn.logical_axis_rules(ONE + (('odd', 't'),)): pass", []),
        (
            "with nn.logical_axis_rules(ONE): pass\nwith nn.logical_axis_rules(OTHER): pass",
            [],
        ),
        (
            "with nn.logical_axis_rules(ONE): pass\ndef run(rules):\n    nn.set_logical_axis_rules(rules)",
            [],
        ),
        ("with nn.logical_axis_rules(make()): pass", []),
    ],
)
def test_lists_of_the_project(main: str, messages: list[str]) -> None:
    assert found(main) == messages


def test_the_settings_say_more_than_the_project() -> None:
    listed = RuleList((("batch", ("d",)),), "base.yml")
    assert found("with nn.logical_axis_rules(OTHER): pass", listed) == [
        "no rule of base.yml mentions the logical axis 'odd': the dimension is replicated; add a rule"
    ]
    assert (
        found(
            "with nn.logical_axis_rules(ONE): pass",
            listed,
            RuleList((("odd", ()),), "other.yml"),
        )
        == []
    )


def test_the_rules_are_a_related_place() -> None:
    texts = {
        "model": MODEL,
        "main": HEAD + "with nn.logical_axis_rules(ONE): pass",
        "lists": LISTS,
    }
    modules = lowered(texts)
    (event,) = analyze(Project(modules), modules["model"])
    ((module, _, text),) = event.related
    assert (module, text) == ("lists", "the rules are here")


REPEATED = """
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.linen import partitioning

class Square(nn.Module):
    @nn.compact
    def __call__(self, x):
        a = partitioning.param_with_axes('a', nn.initializers.ones, (4, 4), axes=('embed', 'embed'))
        b = self.param('b', nn.with_logical_partitioning(nn.initializers.ones, ('embed', 'embed')), (4, 4))
        return nn.with_logical_constraint(x @ a @ b, ('embed', 'embed'))

def main():
    return Square().init(jax.random.key(0), jnp.ones((2, 4)))
"""


@pytest.mark.parametrize(
    "rules",
    [
        None,
        "(('embed', None),)",
        "(('embed', 'd'),)",
        "(('batch', 'd'), ('embed', None))",
    ],
)
def test_a_name_that_occurs_twice_is_refused_where_rules_are_in_force(
    rules: str | None,
) -> None:
    """flax is the oracle: without rules it does nothing with names."""
    run = "" if rules is None else f"nn.set_logical_axis_rules({rules})"
    modules = lowered({"model": REPEATED, "main": f"import flax.linen as nn\n{run}\n"})
    messages = [event.message for event in analyze(Project(modules), modules["model"])]
    namespace: dict[str, Any] = {}
    exec(REPEATED, namespace)
    refused = ""
    try:
        with nn.logical_axis_rules(() if rules is None else eval(rules)):
            namespace["main"]()
    except ValueError as error:
        refused = str(error)
    assert ("more than once" in refused) == any(
        "two dimensions" in one for one in messages
    )
    assert bool(messages) == bool(refused)
