"""Attention with its projections."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from overt import layers
from overt.attended import Attended
from overt.errors import ArgumentError
from overt.masks import Mask
from overt.torch.modules.layer import Device, Layer, Linear

# Of the maps in a torch.nn.MultiheadAttention, and here.
_TORCH_NAMES = {"q_proj_": "query", "k_proj_": "key", "v_proj_": "value", "out_proj.": "output"}


class MultiHeadAttention(Layer):
    """Queries x (…, T, width) attend to a context (…, S, context_width) → (…, T, width).  Algorithm 5.

    groups: key heads that the query heads share, by default one each.
    With ``attended=True`` it gives the output and its ``Attended``.

    The state dict of a ``torch.nn.MultiheadAttention`` without ``add_bias_kv`` loads.  That module differs in this: its
    batch comes second unless ``batch_first``, and its boolean masks say what is hidden; here the batch is first, and
    masks say what is seen.  ``overt.torch.nn.MultiheadAttention`` stands in for it as it is.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        groups: int | None = None,
        context_width: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        groups = heads if groups is None else groups
        if heads < 1 or width % heads:
            raise ArgumentError(f"a width of {width} does not split into {heads} heads")
        if groups < 1 or heads % groups:
            raise ArgumentError(f"{heads} query heads do not share {groups} key heads")
        super().__init__(dropout)
        self.heads, self.groups = heads, groups
        rows, context = width // heads * groups, context_width or width
        linear = partial(Linear, bias=bias, device=device, dtype=dtype)
        self.query, self.key, self.value = linear(width, width), linear(context, rows), linear(context, rows)
        self.output = linear(width, width)

    def forward(
        self, x: Tensor, context: Tensor, *, mask: Mask | Tensor | None = None, attended: bool = False
    ) -> Tensor | tuple[Tensor, Attended]:
        # All names: named_children() would leave out the second name of a shared map.
        parts, heads = self._modules, self.heads
        return self.attend(layers.multi_head_attention, x, context, parts, heads=heads, mask=mask, attended=attended)

    def extra_repr(self) -> str:
        groups = [] if self.groups == self.heads else [f"groups={self.groups}"]
        return ", ".join([f"heads={self.heads}", *groups, *filter(None, [super().extra_repr()])])

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *options: Any) -> None:
        for kind in ("weight", "bias"):
            joined = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if joined is not None:
                for name, part in zip(("query", "key", "value"), joined.chunk(3), strict=True):
                    state_dict[f"{prefix}{name}.{kind}"] = part
            for theirs, name in _TORCH_NAMES.items():
                if (given := f"{prefix}{theirs}{kind}") in state_dict:
                    state_dict[f"{prefix}{name}.{kind}"] = state_dict.pop(given)
        super()._load_from_state_dict(state_dict, prefix, *options)


class SelfAttention(MultiHeadAttention):
    """Every position of x (…, T, width) attends to all of x."""

    def forward(  # type: ignore[override]  # one input
        self, x: Tensor, *, mask: Mask | Tensor | None = None, attended: bool = False
    ) -> Tensor | tuple[Tensor, Attended]:
        return super().forward(x, x, mask=mask, attended=attended)


class CrossAttention(MultiHeadAttention):
    """Every position of x (…, T, width) attends to another sequence (…, S, context_width)."""


class AdditiveAttention(Layer):
    """Bahdanau's attention: queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E)."""

    def __init__(
        self,
        query_width: int,
        key_width: int,
        inner: int,
        *,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        shapes = {
            "query_weight": (inner, query_width),
            "key_weight": (inner, key_width),
            "score_weight": (inner,),
            "bias": (inner,),
        }
        super().__init__(dropout, shapes, device=device, dtype=dtype)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        attended: bool = False,
    ) -> Tensor | tuple[Tensor, Attended]:
        inputs = queries, keys, values, self.tensors
        return self.attend(layers.additive_attention, *inputs, mask=mask, attended=attended)


class BilinearAttention(Layer):
    """Luong's "general" attention: queries (…, T, Dq), keys (…, S, Dk), values (…, S, E) → (…, T, E)."""

    def __init__(
        self,
        query_width: int,
        key_width: int,
        *,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dropout, {"product_weight": (query_width, key_width)}, device=device, dtype=dtype)

    def forward(
        self,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        attended: bool = False,
    ) -> Tensor | tuple[Tensor, Attended]:
        inputs = queries, keys, values, self.tensors
        return self.attend(layers.bilinear_attention, *inputs, mask=mask, attended=attended)
