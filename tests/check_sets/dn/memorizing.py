"""Memorizing attention: local causal attention plus a look-up in old segments
(Wu et al. 2022, "Memorizing Transformers").

MemorizingAttention(dim, heads, topk, capacity)
    forward(x, bank=None) -> (y, bank)
        x      (B, L, dim), one segment
        bank   None or (keys, values), both (B, heads, M, d), from older segments
               of the same documents; M <= capacity, oldest first
    local      causal attention inside the segment
    memory     every query of every head takes its topk most similar keys of the
               bank and attends to those only
    y          g_h * memory + (1 - g_h) * local, g_h = sigmoid(gate[h]);
               only local as long as the bank is empty
Queries and keys are L2-normalised, the scores are cosine * exp(log_scale[h])
in both branches.  The bank takes no gradient.
"""
import torch
import torch.nn.functional as F
from torch import nn


class MemorizingAttention(nn.Module):
    def __init__(self, dim, heads=4, topk=8, capacity=512):
        super().__init__()
        self.heads, self.topk, self.capacity = heads, topk, capacity
        self.d = dim // heads
        self.w_q = nn.Linear(dim, dim, bias=False)
        self.w_k = nn.Linear(dim, dim, bias=False)
        self.w_v = nn.Linear(dim, dim, bias=False)
        self.w_o = nn.Linear(dim, dim)
        self.log_scale = nn.Parameter(torch.full((heads, 1, 1), 2.0))
        self.gate = nn.Parameter(torch.zeros(heads, 1, 1))

    def _heads(self, t):
        return t.view(t.size(0), t.size(1), self.heads, self.d).transpose(1, 2)

    def _local(self, q, k, v):
        L = q.size(2)
        s = q @ k.mT * self.log_scale.exp()
        future = torch.ones(L, L, dtype=torch.bool, device=q.device).triu(1)
        return s.masked_fill(future, float("-inf")).softmax(-1) @ v

    def _lookup(self, q, bank):
        mk, mv = bank
        s = q @ mk.mT * self.log_scale.exp()                   # (B, H, L, M)
        best, idx = s.topk(min(self.topk, s.size(-1)), dim=-1)
        B, H, L, K = idx.shape
        rows = idx.reshape(B, H, L * K, 1).expand(-1, -1, -1, self.d)
        picked = mv.gather(2, rows).view(B, H, L, K, self.d)
        return torch.einsum("bhlk,bhlkd->bhld", best.softmax(-1), picked)

    def _remember(self, bank, k, v):
        k, v = k.detach(), v.detach()
        if bank is not None:
            k = torch.cat([bank[0], k], dim=2)
            v = torch.cat([bank[1], v], dim=2)
        return k[:, :, -self.capacity:], v[:, :, -self.capacity:]

    def forward(self, x, bank=None):
        q = F.normalize(self._heads(self.w_q(x)), dim=-1)
        k = F.normalize(self._heads(self.w_k(x)), dim=-1)
        v = self._heads(self.w_v(x))

        y = self._local(q, k, v)
        if bank is not None and bank[0].size(2) > 0:
            g = torch.sigmoid(self.gate)
            y = g * self._lookup(q, bank) + (1 - g) * y
        y = self.w_o(y.transpose(1, 2).reshape(x.shape))
        return y, self._remember(bank, k, v)
