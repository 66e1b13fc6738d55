"""Decoder of a speech recogniser, after OpenAI's whisper/model.py.

`kv_cache` is a plain dict keyed by the projection module. Self-attention grows
its entry token by token; cross-attention computes its entry once per utterance.
"""
from types import SimpleNamespace
from typing import Dict, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sinusoids(length, channels, max_timescale=10000):
    assert channels % 2 == 0
    inc = torch.log(torch.tensor(float(max_timescale))) / (channels // 2 - 1)
    inv = torch.exp(-inc * torch.arange(channels // 2))
    t = torch.arange(length)[:, None] * inv[None, :]
    return torch.cat([torch.sin(t), torch.cos(t)], dim=1)


class MultiHeadAttention(nn.Module):
    def __init__(self, n_state: int, n_head: int, cross: bool = False):
        super().__init__()
        self.n_head = n_head
        self.cross = cross
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def _kv(self, source: Tensor, cache: Optional[Dict[nn.Module, Tensor]]):
        if cache is None:
            return self.key(source), self.value(source)
        if self.cross:
            if self.key not in cache:
                cache[self.key], cache[self.value] = self.key(source), self.value(source)
        else:
            for m in (self.key, self.value):
                new = m(source)
                cache[m] = torch.cat([cache[m], new], dim=1) if m in cache else new
        return cache[self.key], cache[self.value]

    def forward(self, x: Tensor, xa: Optional[Tensor] = None, mask: Optional[Tensor] = None, kv_cache: Optional[dict] = None):
        """mask: additive [n_ctx, n_ctx], -inf above the diagonal."""
        q = self.query(x)
        k, v = self._kv(xa if self.cross else x, kv_cache)
        wv, qk = self.qkv_attention(q, k, v, mask)
        return self.out(wv), qk

    def qkv_attention(self, q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor] = None):
        """Second result: the logits, in float32, which the word aligner normalises by itself."""
        n_batch, n_ctx, n_state = q.shape
        n_past = k.shape[1] - n_ctx
        scale = (n_state // self.n_head) ** -0.25
        q = q.view(*q.shape[:2], self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(*k.shape[:2], self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(*v.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[n_past : n_past + n_ctx, : n_past + n_ctx]
        qk = qk.float()
        w = F.softmax(qk, dim=-1).to(q.dtype)
        return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2), qk.detach()


class ResidualAttentionBlock(nn.Module):
    def __init__(self, n_state: int, n_head: int):
        super().__init__()
        self.attn = MultiHeadAttention(n_state, n_head)
        self.attn_ln = nn.LayerNorm(n_state)
        self.cross_attn = MultiHeadAttention(n_state, n_head, cross=True)
        self.cross_attn_ln = nn.LayerNorm(n_state)
        self.mlp = nn.Sequential(nn.Linear(n_state, n_state * 4), nn.GELU(), nn.Linear(n_state * 4, n_state))
        self.mlp_ln = nn.LayerNorm(n_state)

    def forward(self, x, xa, mask=None, kv_cache=None):
        x = x + self.attn(self.attn_ln(x), mask=mask, kv_cache=kv_cache)[0]
        x = x + self.cross_attn(self.cross_attn_ln(x), xa, kv_cache=kv_cache)[0]
        return x + self.mlp(self.mlp_ln(x))


class TextDecoder(nn.Module):
    def __init__(self, dims: SimpleNamespace):
        super().__init__()
        self.token_embedding = nn.Embedding(dims.n_vocab, dims.n_state)
        self.positional_embedding = nn.Parameter(torch.randn(dims.n_ctx, dims.n_state) * 0.02)
        self.blocks = nn.ModuleList([ResidualAttentionBlock(dims.n_state, dims.n_head) for _ in range(dims.n_layer)])
        self.ln = nn.LayerNorm(dims.n_state)
        self.register_buffer("mask", torch.full((dims.n_ctx, dims.n_ctx), float("-inf")).triu_(1), persistent=False)

    def forward(self, x: Tensor, xa: Tensor, kv_cache: Optional[dict] = None):
        offset = kv_cache[self.blocks[0].attn.key].shape[1] if kv_cache else 0
        x = self.token_embedding(x) + self.positional_embedding[offset : offset + x.shape[-1]]
        for block in self.blocks:
            x = block(x, xa, mask=self.mask, kv_cache=kv_cache)
        return (self.ln(x) @ self.token_embedding.weight.T).float()
