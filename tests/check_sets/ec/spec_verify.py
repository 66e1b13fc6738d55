"""Verification pass of speculative decoding (linear draft, greedy acceptance).

The target model already holds a cache of P tokens.  The draft model proposes G more; the
target evaluates all of them in one call.  Draft token g (g = 0..G-1) stands at absolute
position P + g and reads the P cached tokens, the drafts before it and itself.  With that,
the call gives exactly what G single-token steps would give.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TargetAttention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None):
        """x (B, G, dim); cache k, v each (B, H, P, d).

        Returns (y (B, G, dim), (k, v)) with the new tokens appended to the cache.
        """
        B, G, C = x.shape
        q, k, v = (
            t.view(B, G, self.heads, C // self.heads).transpose(1, 2)
            for t in self.in_proj(x).chunk(3, dim=-1)
        )
        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=G > 1)
        return self.out_proj(y.transpose(1, 2).reshape(B, G, C)), (k, v)


def accept(draft: Tensor, target_logits: Tensor) -> int:
    """How many of the drafts are kept.

    draft (G,) token ids; target_logits (G, V), row g predicts the token after position
    P + g, so draft[g + 1] must be the argmax of row g.  draft[0] was sampled from the
    target itself and always counts.
    """
    best = target_logits.argmax(-1)
    same = (best[:-1] == draft[1:]).long()
    return 1 + int(same.cumprod(0).sum())


def truncate(cache: tuple[Tensor, Tensor], length: int) -> tuple[Tensor, Tensor]:
    """Forget rejected drafts: keep the first `length` tokens of the cache."""
    return cache[0][:, :, :length], cache[1][:, :, :length]
