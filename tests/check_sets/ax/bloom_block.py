"""BLOOM style block for the conversion tests.

* the fused projection is laid out as [heads, 3, head_dim] (q, k, v of head 0, then head 1, ...)
* ALiBi: slope_h * key position is added to the scores.  It differs from
  -slope_h * (query position - key position) by a constant in each row, so the softmax is the same.
* attention_mask: 1 = token, 0 = padding (left padding), covers the past too
"""
import math
from typing import Optional, Tuple

import torch
from torch import nn


def alibi_slopes(n_heads: int) -> torch.Tensor:
    closest = 2 ** math.floor(math.log2(n_heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(closest) - 3)))
    slopes = [base ** i for i in range(1, closest + 1)]
    if closest != n_heads:
        extra = 2.0 ** (-(2.0 ** -(math.log2(2 * closest) - 3)))
        slopes += [extra ** i for i in range(1, 2 * (n_heads - closest) + 1, 2)]
    return torch.tensor(slopes)


def build_alibi(attention_mask: torch.Tensor, n_heads: int, dtype: torch.dtype) -> torch.Tensor:
    """-> [batch * heads, 1, kv length], positions count real tokens only"""
    pos = ((attention_mask.cumsum(-1) - 1) * attention_mask)[:, None, :]
    slopes = alibi_slopes(n_heads).to(attention_mask.device)
    return (slopes[None, :, None] * pos).flatten(0, 1)[:, None, :].to(dtype)


class BloomAttention(nn.Module):
    def __init__(self, hidden: int, n_heads: int, dropout: float = 0.0):
        super().__init__()
        self.hidden, self.n_heads, self.head_dim = hidden, n_heads, hidden // n_heads
        self.inv_norm_factor = 1.0 / math.sqrt(self.head_dim)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.attention_dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, alibi: torch.Tensor, attention_mask: torch.Tensor,
                past: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        b, q_len, _ = x.shape
        fused = self.query_key_value(x).view(b, q_len, self.n_heads, 3, self.head_dim)
        q, k, v = (t.transpose(1, 2).reshape(b * self.n_heads, q_len, self.head_dim) for t in fused.unbind(3))
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        kv_len = k.size(1)

        scores = torch.baddbmm(alibi, q, k.transpose(1, 2), beta=1.0, alpha=self.inv_norm_factor)
        scores = scores.view(b, self.n_heads, q_len, kv_len)

        row = torch.arange(kv_len - q_len, kv_len, device=x.device)
        hidden_key = torch.arange(kv_len, device=x.device)[None, :] > row[:, None]
        hidden_key = hidden_key[None] | (attention_mask[:, None, :] == 0)
        scores = scores.float().masked_fill(hidden_key[:, None], torch.finfo(torch.float32).min)

        probs = self.attention_dropout(scores.softmax(dim=-1).to(x.dtype))
        ctx = torch.bmm(probs.view(b * self.n_heads, q_len, kv_len), v)
        ctx = ctx.view(b, self.n_heads, q_len, self.head_dim).transpose(1, 2).reshape(b, q_len, self.hidden)
        return self.dense(ctx), (k, v)


class BloomBlock(nn.Module):
    def __init__(self, hidden: int = 96, n_heads: int = 6, dropout: float = 0.0):
        super().__init__()
        self.n_heads = n_heads
        self.input_layernorm = nn.LayerNorm(hidden)
        self.self_attention = BloomAttention(hidden, n_heads, dropout)
        self.post_attention_layernorm = nn.LayerNorm(hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, 4 * hidden), nn.GELU(approximate="tanh"), nn.Linear(4 * hidden, hidden))

    def forward(self, x, attention_mask, past=None):
        alibi = build_alibi(attention_mask, self.n_heads, x.dtype)
        h, present = self.self_attention(self.input_layernorm(x), alibi, attention_mask, past)
        x = x + h
        return x + self.mlp(self.post_attention_layernorm(x)), present


def beam_reorder(past: Tuple[torch.Tensor, torch.Tensor], beam_idx: torch.Tensor, n_heads: int):
    """past tensors are [rows * heads, length, head_dim]; beam_idx [rows] picks rows"""
    def pick(t):
        rows = t.unflatten(0, (-1, n_heads))
        return rows.index_select(0, beam_idx).flatten(0, 1)
    return tuple(pick(t) for t in past)
