"""Language model over audio codec tokens: K codebooks with the delay pattern, rotary decoder."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class CodecLMConfig:
    codebooks: int = 4
    cardinality: int = 64
    dim: int = 64
    num_heads: int = 4
    num_layers: int = 2
    max_period: float = 10000.0
    cross_dim: int = 32


class RotaryTable(nn.Module):
    """cos/sin for the half-split convention: number i turns together with number i + d/2."""

    def __init__(self, head_dim, max_period):
        super().__init__()
        inv_freq = 1.0 / (max_period ** (torch.arange(0, head_dim, 2).float() / head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, start, length):
        t = torch.arange(start, start + length, device=self.inv_freq.device).float()
        freqs = torch.outer(t, self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)
        return emb.cos(), emb.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class StreamingAttention(nn.Module):
    """Causal; `state` is a dict that carries keys and values from one call to the next."""

    def __init__(self, cfg: CodecLMConfig):
        super().__init__()
        self.h = cfg.num_heads
        self.in_proj = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out_proj = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.rotary = RotaryTable(cfg.dim // cfg.num_heads, cfg.max_period)

    def forward(self, x, state=None):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2)
                   for t in self.in_proj(x).split(C, dim=-1))
        past = state["k"].shape[2] if state else 0
        cos, sin = self.rotary(past, T)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if state is not None:
            if past:
                k = torch.cat([state["k"], k], 2)
                v = torch.cat([state["v"], v], 2)
            state["k"], state["v"] = k, v
        rows = torch.arange(past, past + T, device=x.device)[:, None]
        mask = torch.arange(past + T, device=x.device)[None, :] <= rows
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(y.transpose(1, 2).reshape(B, T, C))


class CodecLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = StreamingAttention(cfg)
        self.norm1, self.norm2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.linear1 = nn.Linear(cfg.dim, 4 * cfg.dim, bias=False)
        self.linear2 = nn.Linear(4 * cfg.dim, cfg.dim, bias=False)

    def forward(self, x, state=None):
        x = x + self.attn(self.norm1(x), state)
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class CodecLM(nn.Module):
    def __init__(self, cfg=CodecLMConfig()):
        super().__init__()
        self.cfg = cfg
        self.special = cfg.cardinality
        self.emb = nn.ModuleList(nn.Embedding(cfg.cardinality + 1, cfg.dim) for _ in range(cfg.codebooks))
        self.condition = nn.Linear(cfg.cross_dim, cfg.dim)
        self.layers = nn.ModuleList(CodecLayer(cfg) for _ in range(cfg.num_layers))
        self.norm = nn.LayerNorm(cfg.dim)
        self.heads = nn.ModuleList(nn.Linear(cfg.dim, cfg.cardinality) for _ in range(cfg.codebooks))

    def delay(self, codes):
        """[B, K, T] -> [B, K, T + K]: codebook k comes k + 1 steps later."""
        B, K, T = codes.shape
        out = codes.new_full((B, K, T + K), self.special)
        for k in range(K):
            out[:, k, k + 1:k + 1 + T] = codes[:, k]
        return out

    def forward(self, delayed, cond=None, states=None):
        x = sum(e(delayed[:, k]) for k, e in enumerate(self.emb))
        if cond is not None:
            x = x + self.condition(cond)[:, None]
        for i, layer in enumerate(self.layers):
            x = layer(x, None if states is None else states[i])
        x = self.norm(x)
        return torch.stack([h(x) for h in self.heads], dim=1)      # [B, K, T, card]

    @torch.no_grad()
    def generate(self, cond, steps):
        B, K = cond.shape[0], self.cfg.codebooks
        states = [{} for _ in self.layers]
        seq = torch.full((B, K, steps + K), self.special)
        for t in range(steps + K - 1):
            logits = self(seq[:, :, t:t + 1], cond, states)[:, :, 0]
            tok = torch.distributions.Categorical(logits=logits).sample()
            for k in range(K):
                if 0 <= t - k < steps:
                    seq[:, k, t + 1] = tok[:, k]
        return torch.stack([seq[:, k, k + 1:k + 1 + steps] for k in range(K)], dim=1)
