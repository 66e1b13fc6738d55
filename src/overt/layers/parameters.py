"""Parameters: names to arrays, or to further parameters, or to lists of these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overt.grid import Array

Parameters = Mapping[str, Any]
"""Names to arrays, or to further parameters, or to lists of these."""


def nested(flat: Mapping[str, Array]) -> dict[str, Any]:
    """Parameters by parts: {"a.0.b": x} becomes {"a": [{"b": x}]}."""
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        *path, leaf = name.split(".")
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = array
    return _listed(tree)


def _listed(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(name.isdigit() for name in node):
        return [_listed(node[name]) for name in sorted(node, key=int)]
    return {name: _listed(part) for name, part in node.items()}
