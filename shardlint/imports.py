"""Which modules a file imports, by absolute dotted name."""

from __future__ import annotations

from shardlint import ir


def imported(module: ir.Module) -> tuple[str, ...]:
    """Every module that ``module`` may import, anywhere in it, with the packages around each."""
    found: dict[str, None] = {}
    for node in ir.statements(module.body, inside_definitions=True):
        names: list[str] = []
        if isinstance(node, ir.Import):
            names = [dotted for _, dotted in node.bindings]
        elif isinstance(node, ir.ImportFrom):
            base = absolute(module, node)
            names = [
                base,
                *(f"{base}.{name}" if base else name for name, _ in node.names or ()),
            ]
        for name in names:
            parts = name.split(".")
            found.update(
                dict.fromkeys(
                    ".".join(parts[: i + 1]) for i in range(len(parts)) if name
                )
            )
    return tuple(found)


def absolute(module: ir.Module, node: ir.ImportFrom) -> str:
    """The absolute name of the module that ``from … import`` names in ``module``."""
    if not node.level:
        return node.module
    parts = module.name.split(".")
    package = parts if module.is_package else parts[:-1]
    base = package[: max(0, len(package) - (node.level - 1))]
    return ".".join([*base, *([node.module] if node.module else [])])
