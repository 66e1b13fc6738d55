"""Whisper decoder block with a key/value cache, rewritten from the paper for a subtitle tool.

Block.forward(x, audio, cache):
    x      (B, T, n_state)  T new text tokens, which follow those already in the cache
    audio  (B, S, n_state)  encoder output, all of it visible
    cache  dict             empty for a new clip; the block keeps its keys and values there
    ->     (B, T, n_state)

Text self-attention is causal over everything in the cache plus the new tokens, however the
text is cut into calls (prompt first, then one token or several at a time): the results are
the same as in one call. As in OpenAI's code q and k are both multiplied by d_head**-0.25,
and the key projection has no bias. Positions are added outside.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Dims:
    n_state: int = 48
    n_head: int = 4
    n_ctx: int = 32


class MHA(nn.Module):
    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(n_state, n_state)
        self.key = nn.Linear(n_state, n_state, bias=False)
        self.value = nn.Linear(n_state, n_state)
        self.out = nn.Linear(n_state, n_state)

    def project(self, xa):
        return self.key(xa), self.value(xa)

    def forward(self, x, k, v, mask=None):
        B, T, D = x.shape
        S = k.shape[1]
        scale = (D // self.n_head) ** -0.25
        q = self.query(x).view(B, T, self.n_head, -1).permute(0, 2, 1, 3) * scale
        k = k.view(B, S, self.n_head, -1).permute(0, 2, 3, 1) * scale
        v = v.view(B, S, self.n_head, -1).permute(0, 2, 1, 3)
        qk = q @ k
        if mask is not None:
            qk = qk + mask[:T, :S]
        w = F.softmax(qk.float(), dim=-1).to(q.dtype)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))


class Block(nn.Module):
    def __init__(self, dims=Dims()):
        super().__init__()
        n = dims.n_state
        self.attn, self.attn_ln = MHA(n, dims.n_head), nn.LayerNorm(n)
        self.cross_attn, self.cross_attn_ln = MHA(n, dims.n_head), nn.LayerNorm(n)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))
        self.mlp_ln = nn.LayerNorm(n)
        mask = torch.full((dims.n_ctx, dims.n_ctx), float("-inf")).triu_(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x, audio, cache):
        h = self.attn_ln(x)
        k, v = self.attn.project(h)
        if "k" in cache:
            k = torch.cat([cache["k"], k], dim=1)
            v = torch.cat([cache["v"], v], dim=1)
        cache["k"], cache["v"] = k, v
        x = x + self.attn(h, k, v, self.mask)
        if "audio" not in cache:
            cache["audio"] = self.cross_attn.project(audio)
        x = x + self.cross_attn(self.cross_attn_ln(x), *cache["audio"])
        return x + self.mlp(self.mlp_ln(x))
