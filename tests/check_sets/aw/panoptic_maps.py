"""Attention maps for the panoptic head (cell nuclei, histology slides).

For each object query every head yields its own distribution over the H x W pixels; the FPN mask
head reads these maps.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MapAttention(nn.Module):
    def __init__(self, query_dim, hidden_dim, num_heads, bias=True):
        super().__init__()
        self.num_heads, self.hidden_dim = num_heads, hidden_dim
        self.q_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.k_linear = nn.Linear(query_dim, hidden_dim, bias=bias)
        self.norm_fact = float(hidden_dim / num_heads) ** -0.5

    def forward(self, q, k, mask=None):
        """q [B, Q, C]; k [B, C, H, W]; mask bool [B, H, W], True outside of the slide.
        Returns [B, Q, heads, H, W]; each head's map of a query sums to one."""
        q = self.q_linear(q)
        k = F.conv2d(k, self.k_linear.weight.unsqueeze(-1).unsqueeze(-1), self.k_linear.bias)
        qh = q.view(q.shape[0], q.shape[1], self.num_heads, self.hidden_dim // self.num_heads)
        kh = k.view(k.shape[0], self.num_heads, self.hidden_dim // self.num_heads, k.shape[-2], k.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.norm_fact, kh)
        if mask is not None:
            weights = weights.masked_fill(mask[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(2), dim=-1).view(weights.size())
        return weights


class MaskHead(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.maps = MapAttention(dim, dim, heads)
        self.c1 = nn.Conv2d(dim + heads, 16, 3, padding=1)
        self.gn = nn.GroupNorm(4, 16)
        self.c2 = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, queries, memory, mask=None):
        b, nq, _ = queries.shape
        maps = self.maps(queries, memory, mask).flatten(0, 1)
        mem = memory.repeat_interleave(nq, 0)
        x = torch.relu(self.gn(self.c1(torch.cat([mem, maps], 1))))
        return self.c2(x).view(b, nq, *memory.shape[-2:])


def dice(pred, target):
    p = pred.sigmoid().flatten(1)
    t = target.flatten(1)
    return 1 - (2 * (p * t).sum(-1) + 1) / (p.sum(-1) + t.sum(-1) + 1)
