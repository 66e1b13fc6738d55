"""Gated Transformer-XL agent (DeepMind 2019), the attention with memory.

obs    : (T, B, D)  embeddings of the current segment
memory : (M, B, D)  layer inputs of the M steps before the segment (no gradient), M may be 0

Step t of the segment sees the whole memory and the steps 0 .. t of the segment, not later ones.
Learned per-head biases u are added to the queries (content bias); there is no position term
in this version, the observations contain a clock.
GRU style gate after the attention.  Returns (T, B, D).
"""
import torch
import torch.nn as nn


class GRUGate(nn.Module):
    def __init__(self, d, bg=2.0):
        super().__init__()
        self.wx = nn.Linear(d, 3 * d)
        self.ux = nn.Linear(d, 2 * d, bias=False)
        self.ug = nn.Linear(d, d, bias=False)
        self.bg = bg

    def forward(self, x, y):
        r, z, g = self.wx(y).chunk(3, -1)
        ur, uz = self.ux(x).chunk(2, -1)
        r = torch.sigmoid(r + ur)
        z = torch.sigmoid(z + uz - self.bg)
        return (1 - z) * x + z * torch.tanh(g + self.ug(r * x))


class MemoryAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h, self.dh = heads, d // heads
        self.norm = nn.LayerNorm(d)
        self.q = nn.Linear(d, d, bias=False)
        self.kv = nn.Linear(d, 2 * d, bias=False)
        self.u = nn.Parameter(torch.zeros(heads, self.dh))
        self.out = nn.Linear(d, d, bias=False)
        self.gate = GRUGate(d)

    def forward(self, obs, memory):
        T, B, D = obs.shape
        full = self.norm(torch.cat([memory.detach(), obs], dim=0))
        S = full.size(0)
        q = self.q(full[-T:]).view(T, B, self.h, self.dh) + self.u
        k, v = (t.view(S, B, self.h, self.dh) for t in self.kv(full).chunk(2, dim=-1))

        att = torch.einsum('ibhd,jbhd->ijbh', q, k) / self.dh ** 0.5
        mask = torch.triu(torch.ones(T, S, device=obs.device), diagonal=1).bool()
        att = att.masked_fill(mask[:, :, None, None], float('-inf')).softmax(dim=1)
        y = torch.einsum('ijbh,jbhd->ibhd', att, v).reshape(T, B, D)
        return self.gate(obs, torch.relu(self.out(y)))
