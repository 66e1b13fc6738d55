"""int8 KV cache for the edge runtime.

Keys and values are stored as int8 with one float scale per (batch, head,
token): x ~= x_int8 * scale, scale = max|x| / 127.  Attention reads the cache
through `dequant` and is otherwise ordinary causal attention.
"""
import torch
from torch import nn


def quant(x):
    scale = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-8) / 127.0
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


def dequant(x8, scale):
    return x8.to(scale.dtype) * scale


class QuantKV:
    """Preallocated ring-free cache; capacity is fixed when it is made."""

    def __init__(self, batch, heads, capacity, dim, dtype=torch.float32):
        shape = (batch, heads, capacity)
        self.k8 = torch.zeros(*shape, dim, dtype=torch.int8)
        self.v8 = torch.zeros(*shape, dim, dtype=torch.int8)
        self.k_scale = torch.zeros(*shape, 1, dtype=dtype)
        self.v_scale = torch.zeros(*shape, 1, dtype=dtype)
        self.n = 0

    def put(self, k, v):
        end = self.n + k.shape[2]
        if end > self.k8.shape[2]:
            raise RuntimeError("KV cache is full")
        at = slice(self.n, end)
        self.k8[:, :, at], self.k_scale[:, :, at] = quant(k)
        self.v8[:, :, at], self.v_scale[:, :, at] = quant(v)
        self.n = end

    def read(self):
        n = self.n
        k = dequant(self.k8[:, :, :n], self.k_scale[:, :, :n])
        v = dequant(self.v8[:, :, :n], self.k_scale[:, :, :n])
        return k, v

    def bytes(self):
        per = self.k8[:, :, : self.n].numel()
        return 2 * per + 2 * self.k_scale[:, :, : self.n].numel() * 4


class EdgeAttention(nn.Module):
    """x [B, T, C]; with a cache, rows are appended and attend to all before."""

    def __init__(self, width=32, heads=2):
        super().__init__()
        self.heads, self.dim = heads, width // heads
        self.wqkv = nn.Linear(width, 3 * width, bias=False)
        self.wo = nn.Linear(width, width, bias=False)

    def new_cache(self, batch, capacity=64):
        return QuantKV(batch, self.heads, capacity, self.dim)

    @torch.inference_mode()
    def forward(self, x, cache=None):
        b, t, c = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, self.heads, self.dim).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache.put(k, v)
            k, v = cache.read()
        s = k.shape[2]
        score = (q * self.dim**-0.5) @ k.transpose(-2, -1)
        future = torch.ones(t, s, dtype=torch.bool).triu(s - t + 1)
        score.masked_fill_(future, float("-inf"))
        y = score.softmax(-1) @ v
        return self.wo(y.transpose(1, 2).reshape(b, t, c))


class EdgeLM(nn.Module):
    def __init__(self, vocab=100, width=32, heads=2, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.att = nn.ModuleList(EdgeAttention(width, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))

    @torch.inference_mode()
    def generate(self, ids, steps):
        caches = [a.new_cache(ids.shape[0]) for a in self.att]
        feed = ids
        for _ in range(steps):
            h = self.emb(feed)
            for a, n, c in zip(self.att, self.norm, caches):
                h = h + a(n(h), c)
            feed = (h[:, -1] @ self.emb.weight.T).argmax(-1, keepdim=True)
            ids = torch.cat([ids, feed], 1)
        return ids
