"""Mini gpt-oss: grouped-query attention with a learned sink per head and banded layers.

Only the attention block, to see how small models behave with sinks.

Differences from vanilla attention, all intended:
- one learned logit per query head ("sink") joins the softmax and is thrown away, so a
  row of weights sums to less than one;
- if window > 0, query i sees the last `window` keys, itself included;
- query head h reads kv head h // (n_heads // n_kv_heads).
Rotary embeddings live in the caller.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn


def sink_attention(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor, scale: float, window: int = 0) -> Tensor:
    """q [T, G, R, D] (kv group, query heads per group), k/v [S, G, D], sinks [G, R].

    The T queries are the last T of the S positions.
    """
    T, S = q.shape[0], k.shape[0]
    logits = torch.einsum("tgrd,sgd->grts", q, k) * scale
    i = torch.arange(S - T, S, device=q.device)[:, None]
    j = torch.arange(S, device=q.device)[None, :]
    hidden = j > i
    if window > 0:
        hidden = hidden | (j <= i - window)
    logits = logits.masked_fill(hidden, float("-inf"))
    sink = sinks[:, :, None, None].expand(-1, -1, T, 1)
    w = torch.softmax(torch.cat([logits, sink], dim=-1), dim=-1)[..., :-1]
    return torch.einsum("grts,sgd->tgrd", w, v)


class SinkBlock(nn.Module):
    def __init__(self, hidden: int, n_heads: int, n_kv_heads: int, head_dim: int, window: int = 0):
        super().__init__()
        self.G, self.R, self.D = n_kv_heads, n_heads // n_kv_heads, head_dim
        self.window = window
        self.norm = nn.RMSNorm(hidden)
        self.q = nn.Linear(hidden, n_heads * head_dim)
        self.kv = nn.Linear(hidden, 2 * n_kv_heads * head_dim)
        self.out = nn.Linear(n_heads * head_dim, hidden)
        self.sinks = nn.Parameter(torch.zeros(n_heads))

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None = None):
        """x [T, hidden] of one sequence -> [T, hidden], new cache."""
        t = self.norm(x)
        q = self.q(t).view(-1, self.G, self.R, self.D)
        k, v = self.kv(t).view(-1, 2, self.G, self.D).unbind(1)
        if cache is not None:
            k, v = torch.cat((cache[0], k)), torch.cat((cache[1], v))
        y = sink_attention(q, k, v, self.sinks.view(self.G, self.R), self.D ** -0.5, self.window)
        return x + self.out(y.flatten(1)), (k, v)
