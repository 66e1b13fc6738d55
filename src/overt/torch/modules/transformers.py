"""The layers of a Transformer: each part adds to what came in and is normalised, as in ``overt.layers``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from overt import layers
from overt.attended import Attended
from overt.masks import Mask, causal
from overt.torch.modules.attentions import CrossAttention, SelfAttention
from overt.torch.modules.layer import Device, Layer, Linear, run

_CAUSAL = causal()


class FeedForward(Layer):
    """Two linear maps with relu between, position by position: x (…, T, width) → (…, T, width)."""

    def __init__(
        self,
        width: int,
        inner: int,
        *,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dropout)
        self.inner = Linear(width, inner, device=device, dtype=dtype)
        self.outer = Linear(inner, width, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return layers.feed_forward(x, self._modules, drop=self.drop)


class EncoderLayer(Layer):
    """Self-attention and feed-forward: x (…, T, width) → (…, T, width).  Algorithm 8, lines 4–8.

    With ``attended=True`` it gives the output and a list of its one ``Attended``.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dropout)
        self.attention = SelfAttention(width, heads, dropout=dropout, device=device, dtype=dtype)
        self.attention_norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.feed_forward = FeedForward(width, inner, dropout=dropout, device=device, dtype=dtype)
        self.feed_forward_norm = nn.LayerNorm(width, device=device, dtype=dtype)

    def forward(
        self, x: Tensor, *, mask: Mask | Tensor | None = None, attended: bool = False
    ) -> Tensor | tuple[Tensor, list[Attended]]:
        attn_out, seen = run(self.attention, x, mask=mask, attended=attended)
        x = self.attention_norm(x + self.drop(attn_out))
        x = self.feed_forward_norm(x + self.drop(self.feed_forward(x)))
        return (x, seen) if attended else x


class DecoderLayer(Layer):
    """Causal self-attention, attention to a context (…, S, width), feed-forward.  Algorithm 8, lines 12–18.

    x (…, T, width) → (…, T, width).  With ``attended=True`` it gives the output and a list of the ``Attended`` of
    self-attention and of cross-attention.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        dropout: float = 0.0,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(dropout)
        self.attention = SelfAttention(width, heads, dropout=dropout, device=device, dtype=dtype)
        self.attention_norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.cross = CrossAttention(width, heads, dropout=dropout, device=device, dtype=dtype)
        self.cross_norm = nn.LayerNorm(width, device=device, dtype=dtype)
        self.feed_forward = FeedForward(width, inner, dropout=dropout, device=device, dtype=dtype)
        self.feed_forward_norm = nn.LayerNorm(width, device=device, dtype=dtype)

    def forward(
        self, x: Tensor, context: Tensor, *, context_mask: Mask | Tensor | None = None, attended: bool = False
    ) -> Tensor | tuple[Tensor, list[Attended]]:
        attn_out, seen = run(self.attention, x, mask=_CAUSAL, attended=attended)
        x = self.attention_norm(x + self.drop(attn_out))
        cross_out, cross_seen = run(self.cross, x, context, mask=context_mask, attended=attended)
        x = self.cross_norm(x + self.drop(cross_out))
        x = self.feed_forward_norm(x + self.drop(self.feed_forward(x)))
        return (x, seen + cross_seen) if attended else x
