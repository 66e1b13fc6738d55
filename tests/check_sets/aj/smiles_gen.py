"""Character-level SMILES generator with rotary positions and a growing cache."""
from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F

CHARS = ["<pad>", "<s>", "</s>"] + list("#%()+-./0123456789=@BCFHINOPS[\\]clnors")


class Rotary(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)), persistent=False)

    def forward(self, positions):
        """positions: absolute index of each token in the molecule string"""
        freqs = torch.outer(positions.float(), self.inv_freq)
        emb = torch.cat([freqs, freqs], dim=-1)
        return emb.cos(), emb.sin()


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary(x, cos, sin):
    return x * cos + rotate_half(x) * sin


class SmilesAttention(nn.Module):
    """Causal self-attention. `past` are the (already rotated) keys and the values of the
    tokens that were fed before; the new tokens follow on them."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.hd = n_heads, dim // n_heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.hd)

    def forward(self, x, past=None):
        b, t, c = x.shape
        q, k, v = self.wqkv(x).chunk(3, dim=-1)
        q, k, v = (u.view(b, t, self.n_heads, self.hd).transpose(1, 2) for u in (q, k, v))

        cos, sin = self.rotary(torch.arange(t, device=x.device))
        q, k = apply_rotary(q, cos, sin), apply_rotary(k, cos, sin)

        n_past = 0
        if past is not None:
            n_past = past[0].size(2)
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        see = torch.ones(t, n_past + t, dtype=torch.bool, device=x.device).tril(n_past)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=see)
        return self.wo(o.transpose(1, 2).reshape(b, t, c)), (k, v)


class Layer(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = SmilesAttention(dim, n_heads)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, past=None):
        a, kv = self.attn(self.ln1(x), past)
        x = x + a
        return x + self.ff(self.ln2(x)), kv


class SmilesGPT(nn.Module):
    def __init__(self, dim=128, n_heads=4, depth=4):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), dim, padding_idx=0)
        self.layers = nn.ModuleList([Layer(dim, n_heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, len(CHARS), bias=False)

    def forward(self, ids, past=None):
        x = self.emb(ids)
        new = []
        for i, layer in enumerate(self.layers):
            x, kv = layer(x, None if past is None else past[i])
            new.append(kv)
        return self.head(self.norm(x)), new

    def loss(self, ids):
        logits, _ = self(ids[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)

    @torch.no_grad()
    def sample(self, n, scaffold="", max_len=100, temperature=1.0):
        self.eval()
        start = [1] + [CHARS.index(c) for c in scaffold]
        ids = torch.tensor([start] * n)
        step, past = ids, None
        done = torch.zeros(n, dtype=torch.bool)
        for _ in range(max_len):
            logits, past = self(step, past)
            p = F.softmax(logits[:, -1] / temperature, dim=-1)
            step = torch.multinomial(p, 1)
            step[done] = 0
            ids = torch.cat([ids, step], 1)
            done |= step.squeeze(1) == 2
            if done.all():
                break
        return ["".join(CHARS[i] for i in row if i > 2) for row in ids.tolist()]
