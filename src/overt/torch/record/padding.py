"""Padding on the fast path of ``nn.TransformerEncoder``, which torch leaves when anybody watches.

That path takes padded positions out before the layers, and gives zeros for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from overt.torch.record.kernel import SILENT


class _None:
    """The layers of an encoder, to be asked, and none of them to be run."""

    def __init__(self, layers: nn.ModuleList) -> None:
        self._layers = layers

    def __getitem__(self, index: int) -> nn.Module:
        return self._layers[index]

    def __iter__(self) -> Iterator[nn.Module]:
        return iter(())


def padded(stack: list[nn.Module], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """Positions (B, T) that the last module, which begins, would take out if nobody watched; None for no encoder."""
    module = stack[-1]
    if type(module).forward is not nn.TransformerEncoder.forward:
        return None
    # What compiles it never takes them out, if it checks where they are.
    compiled = any(x._compiled_call_impl is not None or hasattr(x, "_orig_mod") for x in stack[:-1])
    if compiled and getattr(module, "mask_check", True):
        return None
    given = dict(zip(("src", "mask", "src_key_padding_mask"), args, strict=False)) | kwargs
    padding = given.get("src_key_padding_mask")
    if padding is None or not len(module.layers):  # type: ignore[arg-type]
        return None
    # torch itself decides: without layers and norm it gives what it was given, or that without padding.
    bare = object.__new__(nn.TransformerEncoder)
    bare.__dict__ = {**vars(module), "layers": _None(module.layers), "norm": None}  # type: ignore[arg-type]
    with SILENT():
        took = nn.TransformerEncoder.forward(bare, *args, **kwargs) is not given["src"]
        return padding.bool() if took else None


def emptied(module: nn.Module, output: Tensor, positions: Tensor) -> Tensor:
    """The output of an encoder, with what the fast path gives at padded positions."""
    norm: Any = module.norm
    with SILENT(), torch.no_grad():
        nothing = output.new_zeros((1, 1, output.shape[-1]))
        # Hooks of the norm have run already.
        return torch.where(positions[..., None], nothing if norm is None else norm.forward(nothing), output)
