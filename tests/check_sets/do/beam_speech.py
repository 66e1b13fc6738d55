"""Beam search decoder layer for dictation, with cached self-attention.

Beams are rows: x (B*W, dim) holds the newest token of each of W beams of B
utterances.  step(x) appends to the cache and attends over everything which the
*same hypothesis* has produced so far (all cached tokens and the new one).
After each step the search calls reorder(parent), parent (B*W,) int: row r of the
next step continues the hypothesis that was in row parent[r].  So the result of
step() for a row equals running its whole history through a fresh layer.
"""
import torch
import torch.nn as nn


class BeamSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)
        self.clear()

    def clear(self):
        self.past_k = self.past_v = None

    def reorder(self, parent):
        self.past_k = self.past_k.index_select(0, parent)

    def step(self, x):
        R = x.size(0)
        q = self.q(x).view(R, self.heads, 1, self.hd)
        k, v = self.kv(x).view(R, 2, self.heads, 1, self.hd).unbind(1)
        if self.past_k is not None:
            k = torch.cat([self.past_k, k], dim=2)
            v = torch.cat([self.past_v, v], dim=2)
        self.past_k, self.past_v = k, v
        s = torch.matmul(q, k.transpose(-1, -2)) * self.hd ** -0.5
        y = torch.matmul(torch.softmax(s, dim=-1), v)          # R, H, 1, hd
        return self.o(y.reshape(R, -1))


def choose(logp, scores, W):
    """logp (B*W, V), scores (B*W,) -> parent rows, tokens, new scores, each (B*W,)"""
    V = logp.size(1)
    total = (scores[:, None] + logp).view(-1, W * V)
    best, flat = total.topk(W, dim=1)
    base = torch.arange(total.size(0)).unsqueeze(1) * W
    return (base + flat // V).flatten(), (flat % V).flatten(), best.flatten()
