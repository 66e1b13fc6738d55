"""Memorizing-transformer layer: local causal attention + kNN memory.

The memory is a NumPy store (it lives in host RAM, no gradients); the layer is
torch.  Each query takes its top-k memory items per head.  Local and memory
results are two separate softmaxes mixed by a learnt gate per head:
    out = g * memory + (1 - g) * local,   g = sigmoid(b_h)
"""
import numpy as np
import torch
from torch import nn


class HostMemory:
    """Per-head FIFO store of (key, value) arrays for a single document."""

    def __init__(self, heads, dim, limit=1024):
        self.k = np.zeros((heads, 0, dim), np.float32)
        self.v = np.zeros((heads, 0, dim), np.float32)
        self.limit = limit

    def __len__(self):
        return self.k.shape[1]

    def add(self, k, v):
        self.k = np.concatenate([self.k, k], 1)[:, -self.limit :]
        self.v = np.concatenate([self.v, v], 1)[:, -self.limit :]

    def search(self, q, topk):
        """q [H, T, D] -> keys and values [H, T, topk', D] of largest dot product."""
        topk = min(topk, len(self))
        sim = np.einsum("htd,hmd->htm", q, self.k)
        idx = np.argpartition(-sim, topk - 1, axis=-1)[..., :topk]
        h = np.arange(q.shape[0])[:, None, None]
        return self.k[h, idx], self.v[h, idx]

    def clear(self):
        self.k, self.v = self.k[:, :0], self.v[:, :0]


class KNNAttention(nn.Module):
    """x [T, C], the next segment of the document. The segment's own keys are
    stored AFTER it has been read, so memory holds only earlier segments."""

    def __init__(self, width=32, heads=4, topk=4, limit=1024):
        super().__init__()
        self.heads, self.dim, self.topk = heads, width // heads, topk
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Parameter(torch.zeros(heads))
        self.memory = HostMemory(heads, self.dim, limit)

    def forward(self, x):
        t, c = x.shape
        q, k, v = (z.view(t, self.heads, self.dim).transpose(0, 1) for z in self.qkv(x).chunk(3, -1))
        q = q / self.dim**0.5
        s = q @ k.transpose(1, 2)
        s = s.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        y = s.softmax(-1) @ v
        if len(self.memory):
            mk, mv = self.memory.search(q.detach().numpy(), self.topk)
            mk, mv = torch.from_numpy(mk).to(x), torch.from_numpy(mv).to(x)
            w = torch.einsum("htd,htmd->htm", q, mk).softmax(-1)
            far = torch.einsum("htm,htmd->htd", w, mv)
            g = torch.sigmoid(self.gate)[:, None, None]
            y = g * far + (1 - g) * y
        self.memory.add(k.detach().float().numpy(), v.detach().float().numpy())
        return self.out(y.transpose(0, 1).reshape(t, c))


class DocReader(nn.Module):
    def __init__(self, vocab=64, width=32):
        super().__init__()
        self.emb, self.norm = nn.Embedding(vocab, width), nn.LayerNorm(width)
        self.att = KNNAttention(width)
        self.head = nn.Linear(width, vocab)

    def read(self, ids, segment=8):
        self.att.memory.clear()
        out = []
        for part in ids.split(segment):
            x = self.emb(part)
            out.append(self.head(x + self.att(self.norm(x))))
        return torch.cat(out)
