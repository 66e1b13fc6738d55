"""Tiny chat model: a decoder with a growing key/value cache.

    cache = KVCache()
    logits = model(prompt, cache)       # prefill
    logits = model(next_token, cache)   # one or more further tokens

A token sees itself and everything before it, cached or not.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class KVCache:
    def __init__(self):
        self.store = {}

    def __len__(self):
        return self.store[0][0].size(2) if self.store else 0

    def update(self, layer, k, v):
        if layer in self.store:
            pk, pv = self.store[layer]
            k, v = torch.cat([pk, k], 2), torch.cat([pv, v], 2)
        self.store[layer] = (k, v)
        return k, v


class CachedAttention(nn.Module):
    def __init__(self, layer, dim, heads):
        super().__init__()
        self.layer, self.heads = layer, heads
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in self.in_proj(x).chunk(3, dim=-1)
        )
        if cache is not None:
            k, v = cache.update(self.layer, k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, i, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = CachedAttention(i, dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, cache):
        x = x + self.attn(self.ln1(x), cache)
        return x + self.mlp(self.ln2(x))


class TinyChat(nn.Module):
    def __init__(self, vocab=64, dim=32, heads=4, layers=2, ctx=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(ctx, dim)
        self.layers = nn.ModuleList(Layer(i, dim, heads) for i in range(layers))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids, cache=None):
        start = len(cache) if cache is not None else 0
        x = self.tok(ids) + self.pos(torch.arange(start, start + ids.size(1), device=ids.device))
        for layer in self.layers:
            x = layer(x, cache)
        return self.norm(x) @ self.tok.weight.T
