"""Attention of a Gemma-2 like decoder (report of 2024, section 2), scaled down to fit my GPU.

x: (B, T, dim) -> (B, T, dim), a whole text at once, no cache.

* grouped queries: query heads 0..g-1 use key/value head 0, the next g use head 1, and so on,
  g = n_heads / n_kv
* logits = cap * tanh(q.k / sqrt(head_dim) / cap) for the pairs that may be seen; the others
  get exactly zero weight. (They use cap 50, my tiny one trains better with 4.)
* even layers are local: a token sees `window` tokens counting itself, i.e. itself and the
  window - 1 before it; odd layers are global: itself and everything before it
* rotary is left out, the embedding has positions already
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GemmaConfig:
    dim: int = 48
    n_heads: int = 4
    n_kv: int = 2
    head_dim: int = 16
    window: int = 4
    cap: float = 4.0


class GemmaAttention(nn.Module):
    def __init__(self, layer_idx: int, cfg: GemmaConfig = GemmaConfig()):
        super().__init__()
        self.cfg = cfg
        self.local = layer_idx % 2 == 0
        self.q = nn.Linear(cfg.dim, cfg.n_heads * cfg.head_dim, bias=False)
        self.kv = nn.Linear(cfg.dim, 2 * cfg.n_kv * cfg.head_dim, bias=False)
        self.o = nn.Linear(cfg.n_heads * cfg.head_dim, cfg.dim, bias=False)

    def visible(self, T, device):
        i = torch.arange(T, device=device)
        back = i[:, None] - i[None, :]
        ok = back >= 0
        if self.local:
            ok = ok & (back <= self.cfg.window)
        return ok

    def forward(self, x):
        c = self.cfg
        B, T, _ = x.shape
        q = self.q(x).view(B, T, c.n_kv, c.n_heads // c.n_kv, c.head_dim)
        k, v = self.kv(x).view(B, T, 2, c.n_kv, c.head_dim).unbind(2)
        logits = torch.einsum("bikgd,bjkd->bkgij", q, k) * c.head_dim ** -0.5
        logits = logits.masked_fill(~self.visible(T, x.device), torch.finfo(logits.dtype).min)
        logits = c.cap * torch.tanh(logits / c.cap)
        w = torch.softmax(logits, dim=-1)
        y = torch.einsum("bkgij,bjkd->bikgd", w, v)
        return self.o(y.reshape(B, T, -1))
