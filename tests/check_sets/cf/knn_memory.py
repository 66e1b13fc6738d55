"""Attention layer with an external kNN memory (Memorizing Transformer).

Each call handles one segment of a long document: (1) ordinary causal attention
inside the segment, (2) for each query and head the ``topk`` closest keys of all
earlier segments are looked up and attended with their own softmax.  The two
results are mixed with a learned sigmoid gate per head,

    out = g * memory + (1 - g) * local

and the keys and values of the segment go into the memory afterwards (without
gradient).  While the memory is empty only the local part is used.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class KNNMemory:
    def __init__(self, capacity: int):
        self.capacity = capacity
        self.k = self.v = None

    def clear(self):
        self.k = self.v = None

    def add(self, k, v):
        k, v = k.detach(), v.detach()
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k[:, :, -self.capacity:], v[:, :, -self.capacity:]


class MemorizingAttention(nn.Module):
    def __init__(self, dim=64, heads=4, topk=6, capacity=512):
        super().__init__()
        self.heads, self.topk = heads, topk
        self.dh = dim // heads
        self.q, self.kv = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Parameter(torch.zeros(heads, 1, 1))
        self.memory = KNNMemory(capacity)

    def recall(self, q):
        mk, mv = self.memory.k, self.memory.v
        n = min(self.topk, mk.size(2))
        sim = torch.einsum("bhtd,bhsd->bhts", q, mk)
        top, idx = sim.topk(n, dim=-1)                             # b h t n
        w = F.softmax(top / self.dh ** 0.5, dim=-1)
        flat = idx.flatten(2).unsqueeze(-1).expand(-1, -1, -1, self.dh)
        picked = mv.gather(2, flat).view(*idx.shape, self.dh)      # b h t n d
        return (w.unsqueeze(-1) * picked).sum(dim=-2)

    def forward(self, x):
        b, t, _ = x.shape
        sep = lambda y: y.view(b, t, self.heads, self.dh).transpose(1, 2)
        q = sep(self.q(x))
        k, v = map(sep, self.kv(x).chunk(2, dim=-1))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.memory.k is not None:
            g = torch.sigmoid(self.gate)
            out = g * self.recall(q) + (1 - g) * out
        self.memory.add(k, v)
        return self.o(out.transpose(1, 2).reshape(b, t, -1))
