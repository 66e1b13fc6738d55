"""Gated Transformer-XL layer for agents with memory (Parisotto et al., 2019).

The segment attends to the memory of the previous segments and causally to
itself.  Relative positions enter as one learned bias per head and distance.
"""
import torch
import torch.nn as nn


class GRUGate(nn.Module):
    def __init__(self, dim, bias=2.0):
        super().__init__()
        self.w = nn.Linear(2 * dim, 2 * dim)
        self.h = nn.Linear(2 * dim, dim)
        self.bias = nn.Parameter(torch.full((dim,), bias))

    def forward(self, x, y):
        r, z = torch.sigmoid(self.w(torch.cat([x, y], -1))).chunk(2, -1)
        z = z * torch.sigmoid(-self.bias)
        h = torch.tanh(self.h(torch.cat([y, r * x], -1)))
        return (1 - z) * x + z * h


class MemoryAttention(nn.Module):
    def __init__(self, dim, heads, max_dist):
        super().__init__()
        self.heads, self.max_dist = heads, max_dist
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.distance = nn.Parameter(torch.randn(heads, max_dist + 1) * 0.5)

    def forward(self, x, memory):
        b, t, d = x.shape
        m = memory.shape[1]
        both = torch.cat([memory, x], dim=1)
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(both).view(b, m + t, 2, self.heads, -1).permute(2, 0, 3, 1, 4)

        i = torch.arange(m, m + t, device=x.device)[:, None]
        j = torch.arange(m + t, device=x.device)[None, :]
        bias = self.distance[:, (i - j).clamp(0, self.max_dist)]
        logits = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5 + bias
        logits = logits.masked_fill(j > i, float("-inf"))
        w = logits.softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, d))


class GTrXLLayer(nn.Module):
    """forward(x, memory) -> (y, new memory); memory [B, M, D] or None"""

    def __init__(self, dim=24, heads=3, mem_len=6, max_dist=16):
        super().__init__()
        self.mem_len = mem_len
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MemoryAttention(dim, heads, max_dist)
        self.gate1, self.gate2 = GRUGate(dim), GRUGate(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, memory=None):
        if memory is None:
            memory = x.new_zeros(x.size(0), 0, x.size(2))
        y = self.attn(self.norm1(x), self.norm1(memory))
        h = self.gate1(x, torch.relu(y))
        out = self.gate2(h, torch.relu(self.mlp(self.norm2(h))))
        kept = torch.cat([memory, x], dim=1)[:, -self.mem_len:].detach()
        return out, kept
