"""tinychat: a ~1M parameter chat model that runs on my Raspberry Pi.

Pre-norm decoder, RMSNorm, rotary embeddings (GPT-NeoX pairing: i with i + d/2),
QK-norm, a key/value cache, and a sampling loop with temperature + top-k.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 256
    dim: int = 64
    heads: int = 4
    layers: int = 2
    max_len: int = 128
    theta: float = 10000.0


def rope_tables(cfg):
    d = cfg.dim // cfg.heads
    inv = cfg.theta ** (-torch.arange(0, d, 2).float() / d)
    ang = torch.outer(torch.arange(cfg.max_len).float(), inv)
    return torch.cat([ang.cos(), ang.cos()], -1), torch.cat([ang.sin(), ang.sin()], -1)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h, self.d = cfg.heads, cfg.dim // cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.qn, self.kn = nn.RMSNorm(self.d), nn.RMSNorm(self.d)

    def forward(self, x, cos, sin, past=None):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.h, self.d).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        q, k = self.qn(q), self.kn(k)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        S = k.size(2)
        # query t sits at absolute position S - T + t
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.out(y.transpose(1, 2).reshape(B, T, C)), (k, v)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(cfg.dim), nn.RMSNorm(cfg.dim)
        self.attn = Attention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x, cos, sin, past=None):
        a, kv = self.attn(self.n1(x), cos, sin, past)
        x = x + a
        return x + self.mlp(self.n2(x)), kv


class TinyChat(nn.Module):
    def __init__(self, cfg=None):
        super().__init__()
        self.cfg = cfg = cfg or Config()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.RMSNorm(cfg.dim)
        cos, sin = rope_tables(cfg)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, ids, cache=None):
        start = 0 if cache is None else cache[0][0].size(2)
        cos, sin = (t[start:start + ids.size(1)] for t in (self.cos, self.sin))
        x, new = self.tok(ids), []
        for i, blk in enumerate(self.blocks):
            x, kv = blk(x, cos, sin, None if cache is None else cache[i])
            new.append(kv)
        return self.norm(x) @ self.tok.weight.T, new

    @torch.no_grad()
    def generate(self, ids, n, temperature=0.8, top_k=20):
        logits, cache = self(ids)
        for _ in range(n):
            z = logits[:, -1]
            if temperature == 0:
                nxt = z.argmax(-1, keepdim=True)
            else:
                kth = z.topk(top_k, -1).values[:, -1:]
                z = (z / temperature).masked_fill(z < kth, float("-inf"))
                nxt = torch.multinomial(z.softmax(-1), 1)
            ids = torch.cat([ids, nxt], 1)
            logits, cache = self(nxt, cache)
        return ids
