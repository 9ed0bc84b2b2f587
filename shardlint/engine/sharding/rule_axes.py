"""Rules that lay a logical name on a mesh axis which no mesh of the project has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from shardlint.engine.sharding import rules_in_force
from shardlint.engine.sharding.meshes import sizes
from shardlint.engine.sharding.site import Site
from shardlint.logical_rules import RuleList
from shardlint.values import SpecValue
from shardtypes.lang import messages


def check(site: Site, spec: SpecValue, lists: Sequence[RuleList]) -> None:
    """Report the axes of the rules for these names that are like an axis of a mesh, and none.

    Rules for other people's meshes name axes that no mesh here has: only what is nearly one of ours is a mistake.
    """
    axes = _axes(site)
    names = {name for entry in spec.entries or () for name in entry or ()}
    for rules in lists:
        for name, laid_on in rules.rules:
            if name not in names:
                continue
            for axis in laid_on or ():
                if axis not in axes and get_close_matches(axis, axes, 1):
                    message = messages.unknown_axis(axis, axes)
                    _report(site, rules, axis, f"the rule for {name!r}: {message}")


def _axes(site: Site) -> Collection[str]:
    """The axes of the mesh in force, else those of the settings, else of all meshes that the project makes."""
    in_force = None if site.frame.mesh is None else sizes(site.frame.mesh)
    return in_force or site.it.mesh or site.it.made_axes.only


def _report(site: Site, rules: RuleList, axis: str, message: str) -> None:
    """At the rule, where it is written in this module, else where a name with this rule is used."""
    if rules.place is None:
        known = rules_in_force.in_project(site.it)
        rules = next((one for one in known if one == rules), rules)
    module = "" if rules.place is None else rules.place[0]
    written = [node for text, node in rules.axes_at if text == axis]
    if module == site.frame.module:
        used = ((module, site.at, "a name with this rule is used here"),)
        for node in written:
            site.it.report(site.frame, "ST103", node, message, None, used)
    else:
        related = tuple((module, node, "the rule is here") for node in written)
        site.report("ST103", site.at, message, related)
