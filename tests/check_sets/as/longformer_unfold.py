"""Local attention of Longformer (Beltagy et al., 2020) by unfolding the keys, with optional global tokens.

`one_sided_window = w`: a token sees itself, the w tokens to its left and the w tokens to
its right, 2w + 1 positions in all. Tokens marked global see all and are seen by all.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class LongConfig:
    hidden: int = 48
    heads: int = 4
    one_sided_window: int = 4
    dropout: float = 0.1


def sliding(x, w):
    """[B, H, L, d] -> [B, H, L, 2w + 1, d]; positions outside of the sequence are zero."""
    return F.pad(x, (0, 0, w, w)).unfold(2, 2 * w + 1, 1).movedim(-1, -2)


def local_positions(L, w, device=None):
    offs = torch.arange(-w, w + 1, device=device)
    pos = torch.arange(L, device=device)[:, None] + offs[None, :]
    inside = (pos >= 0) & (pos < L) & (offs.abs() < w)[None, :]
    return pos.clamp(0, L - 1), inside


class LongformerSelfAttention(nn.Module):
    def __init__(self, config: LongConfig):
        super().__init__()
        self.cfg = config
        self.head_dim = config.hidden // config.heads
        self.query, self.key, self.value = (nn.Linear(config.hidden, config.hidden) for _ in range(3))
        self.query_global, self.key_global, self.value_global = (nn.Linear(config.hidden, config.hidden) for _ in range(3))
        self.drop = nn.Dropout(config.dropout)

    def _heads(self, t):
        return t.view(*t.shape[:2], self.cfg.heads, self.head_dim).transpose(1, 2)

    def forward(self, x, attention_mask=None, n_global=0):
        """attention_mask [B, L]: 1 = token, 0 = padding. The first `n_global` tokens are global."""
        B, L, C = x.shape
        w = self.cfg.one_sided_window
        real = torch.ones(B, L, dtype=torch.bool, device=x.device) if attention_mask is None else attention_mask.bool()
        q = self._heads(self.query(x)) / math.sqrt(self.head_dim)
        k, v = self._heads(self.key(x)), self._heads(self.value(x))
        low = torch.finfo(x.dtype).min

        pos, inside = local_positions(L, w, x.device)
        local = torch.einsum("bhld,bhlwd->bhlw", q, sliding(k, w))
        ok = inside & real[:, pos]                                       # [B, L, 2w + 1]
        if n_global:
            ok = ok & (pos >= n_global)                                  # these come from the other part
        local = local.masked_fill(~ok[:, None], low)
        if n_global:
            far = torch.einsum("bhld,bhgd->bhlg", q, k[:, :, :n_global])
            far = far.masked_fill(~real[:, None, None, :n_global], low)
            p = self.drop(torch.softmax(torch.cat([far, local], -1), -1))
            out = p[..., :n_global] @ v[:, :, :n_global]
            p = p[..., n_global:]
        else:
            p, out = self.drop(torch.softmax(local, -1)), 0.0
        out = out + torch.einsum("bhlw,bhlwd->bhld", p, sliding(v, w))

        if n_global:
            qg = self._heads(self.query_global(x[:, :n_global])) / math.sqrt(self.head_dim)
            sg = qg @ self._heads(self.key_global(x)).mT
            sg = sg.masked_fill(~real[:, None, None, :], low)
            g = self.drop(torch.softmax(sg, -1)) @ self._heads(self.value_global(x))
            out = torch.cat([g, out[:, :, n_global:]], dim=2)
        return out.transpose(1, 2).reshape(B, L, C)


class LongformerLayer(nn.Module):
    def __init__(self, config: LongConfig):
        super().__init__()
        self.attn = LongformerSelfAttention(config)
        self.out = nn.Linear(config.hidden, config.hidden)
        self.ln1, self.ln2 = nn.LayerNorm(config.hidden), nn.LayerNorm(config.hidden)
        self.ff = nn.Sequential(nn.Linear(config.hidden, 4 * config.hidden), nn.GELU(), nn.Linear(4 * config.hidden, config.hidden))

    def forward(self, x, attention_mask=None, n_global=0):
        x = self.ln1(x + self.out(self.attn(x, attention_mask, n_global)))
        return self.ln2(x + self.ff(x))
