"""Choice of targets for a squad (turn-based strategy game).

Pointer decoder: an LSTM cell keeps the squad's state; at each step a *glimpse*
(scaled dot-product attention over the units still legal) refines the state,
then the pointer scores each legal unit with

    u_j = clip * tanh(g . key_j / sqrt(dim))

(the tanh clipping of Bello et al.) and log-probabilities over units are given.
The unit of highest probability is chosen and becomes illegal.
"""
import math

import torch
from torch import nn


class TargetPointer(nn.Module):
    def __init__(self, unit_feats=8, dim=16, clip=10.0):
        super().__init__()
        self.dim, self.clip = dim, clip
        self.unit = nn.Linear(unit_feats, dim)
        self.cell = nn.LSTMCell(dim, dim)
        self.start = nn.Parameter(torch.zeros(dim))
        self.glimpse_q = nn.Linear(dim, dim, bias=False)
        self.glimpse_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.point_q = nn.Linear(dim, dim, bias=False)
        self.point_k = nn.Linear(dim, dim, bias=False)

    def glimpse(self, h, k, v, legal):
        u = torch.einsum("bd,bnd->bn", self.glimpse_q(h), k) / math.sqrt(self.dim)
        u = u.masked_fill(~legal, -math.inf)
        return torch.einsum("bn,bnd->bd", u.softmax(-1), v)

    def forward(self, units, alive, steps=2):
        """units [B, N, F], alive [B, N] bool (at least `steps` alive each)
        -> log-probs [B, steps, N], picks [B, steps]"""
        e = self.unit(units)
        gk, gv = self.glimpse_kv(e).chunk(2, dim=-1)
        pk = self.point_k(e)
        count = alive.sum(1, keepdim=True)
        h = (e * alive.unsqueeze(-1)).sum(1) / count
        c = torch.zeros_like(h)
        legal, inp = alive, self.start.expand_as(h)
        logs, picks = [], []
        for _ in range(steps):
            h, c = self.cell(inp, (h, c))
            g = h + self.glimpse(h, gk, gv, legal)
            u = torch.einsum("bd,bnd->bn", self.point_q(g), pk) / math.sqrt(self.dim)
            u = self.clip * torch.tanh(u)
            logp = u.masked_fill(~legal, -math.inf).log_softmax(-1)
            pick = logp.argmax(-1)
            logs.append(logp)
            picks.append(pick)
            legal = legal.scatter(1, pick.unsqueeze(1), False)
            inp = e[torch.arange(e.size(0)), pick]
        return torch.stack(logs, 1), torch.stack(picks, 1)
