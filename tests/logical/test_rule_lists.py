"""Lists of logical rules: what they mean is what flax says, and files give what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flax.linen as nn
import pytest
from hypothesis import given
from hypothesis import strategies as some

from shardlint.config import ConfigError, load, parse
from shardlint.logical_rules import RuleList, rules_from

names = some.lists(
    some.sampled_from(["a", "b", "c", "e", None]), max_size=4, unique=True
)
axes = some.one_of(
    some.none(),
    some.sampled_from(["x", "y", "z"]),
    some.lists(some.sampled_from("xyz"), max_size=3, unique=True).map(tuple),
)
rules = some.lists(some.tuples(some.sampled_from("abce"), axes), max_size=6)


@given(names, rules)
def test_flax_is_the_oracle(
    names: list[str | None], rules: list[tuple[str, Any]]
) -> None:
    wanted = nn.logical_to_mesh_axes(tuple(names), rules)
    entries = [(e,) if isinstance(e, str) else tuple(e or ()) for e in wanted]
    assert RuleList(rules_from(rules)).resolve(
        [() if n is None else (n,) for n in names]
    ) == tuple(entries)


def test_what_is_not_known_decides_nothing() -> None:
    assert RuleList((("a", ("x",)), ("b", None))).resolve([("a",), ("b",)]) is None
    assert RuleList((("a", ("x",)), ("b", None))).resolve([("a",), ("c",)]) == (
        ("x",),
        (),
    )
    assert RuleList((("a", ("x",)),)).resolve([None, ("a",)]) is None


WANTED = (("batch", ("d",)), ("embed", ()), ("mlp", ("d", "t")))


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        (
            "rules.py",
            "RULES: tuple = (('batch', 'd'), ('embed', None), ('mlp', ('d', 't')))\n",
            "RULES",
        ),
        (
            "rules.json",
            '{"axes": {"rules": [["batch", "d"], ["embed", null], ["mlp", ["d", "t"]]]}}',
            "axes.rules",
        ),
        (
            "rules.toml",
            "rules = [['batch', 'd'], ['embed', []], ['mlp', ['d', 't']]]\n",
            "rules",
        ),
        (
            "base.yml",
            "rules:\n- [batch, d]\n- [embed, null]\n- ['mlp', ['d', 't']]\n",
            "rules",
        ),
        ("map.yaml", "rules: {batch: d, embed: [], mlp: [d, t]}\n", "rules"),
    ],
)
def test_files(tmp_path: Path, name: str, text: str, key: str) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / name).write_text(text)
    settings = tmp_path / "shardlint.toml"
    settings.write_text(f'logical-rules = "configs/{name}:{key}"\n')
    assert load(settings).logical_rules == (RuleList(WANTED, f"configs/{name}"),)


def test_a_table_in_the_settings() -> None:
    document = {"logical-rules": {"batch": "d", "embed": [], "mlp": ["d", "t"]}}
    assert parse(document, "f.toml", Path()).logical_rules == (
        RuleList(WANTED, "the settings"),
    )


def test_the_rules_are_part_of_what_results_depend_on() -> None:
    one, other = (
        parse({"logical-rules": {"batch": axes}}, "f.toml", Path())
        for axes in ("d", "t")
    )
    assert one.analysis_key != other.analysis_key


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "rules.yml",
            "'rules.yml' does not name a list of rules; write 'configs/base.yml:logical_axis_rules'",
        ),
        ("gone.yml:rules", "gone.yml cannot be read: "),
        ("bad.py:RULES", "bad.py:RULES: RULES is not written out as a list of pairs"),
        ("bad.py:OTHER", "bad.py:OTHER: has no variable 'OTHER'"),
        ("bad.json:rules", "bad.json:rules: ['batch'] is not a [name, axes] pair"),
        ("bad.json:axes.rules", "bad.json:axes.rules: has no 'axes.rules'"),
        ("bad.json:number", "bad.json:number: int is not a list of [name, axes] pairs"),
        (
            "bad.json:axis",
            "bad.json:axis: 3 is not a mesh axis, a list of them, or null",
        ),
        (
            "bad.ini:rules",
            "bad.ini:rules: rules are read from .py, .toml, .json, .yml and .yaml files",
        ),
        (
            3,
            "'logical-rules' must be 'path:key', a list of them, or a table of name = axes, got 3",
        ),
    ],
)
def test_mistakes_are_told(tmp_path: Path, value: object, message: str) -> None:
    (tmp_path / "bad.py").write_text("RULES = make_rules()\n")
    (tmp_path / "bad.json").write_text(
        '{"rules": [["batch"]], "number": 3, "axis": [["batch", 3]]}'
    )
    (tmp_path / "bad.ini").write_text("")
    with pytest.raises(ConfigError) as caught:
        parse({"logical-rules": value}, "f.toml", tmp_path)
    assert str(caught.value).startswith(f"f.toml: {message}")


def test_yaml_needs_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    (tmp_path / "base.yml").write_text("rules: []\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(
        ConfigError, match="reading YAML needs PyYAML; install it beside shardlint"
    ):
        parse({"logical-rules": "base.yml:rules"}, "f.toml", tmp_path)
