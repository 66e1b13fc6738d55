"""Names of modules: which are chosen, and which lies in which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from overt.errors import DtypeError
from overt.grid import shown

Layers = str | Sequence[str] | Callable[[str], bool] | None


def within(name: str, outer: str) -> bool:
    """Whether a module is another, or lies in it."""
    return not outer or f"{name}.".startswith(f"{outer}.")


def entry(name: str, outer: str) -> str:
    """In which entry of a list a module lies, empty for none."""
    return name[len(outer) :].lstrip(".").partition(".")[0] if within(name, outer) else ""


def chooser(layers: Layers) -> Callable[[str], bool]:
    """Whether a module is among those that ``layers=`` names."""
    if layers is None:
        return lambda name: True
    if callable(layers) and not isinstance(layers, type | nn.Module):
        return layers
    globs: list[Any] = (
        [layers] if isinstance(layers, str) else list(layers) if isinstance(layers, Iterable) else [layers]
    )
    if isinstance(layers, nn.Module) or not all(isinstance(glob, str) for glob in globs):
        raise DtypeError(
            "layers must be a glob of names such as '*.self_attn', several, a function of the name, or None, not "
            f"{shown(layers)}"
        )
    return lambda name: any(fnmatchcase(name, glob) for glob in globs)
