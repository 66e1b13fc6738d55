"""Temporal neighbourhood aggregation for transaction graphs."""
import numpy as np
import torch
import torch.nn as nn


class Clock(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.freq = nn.Parameter(torch.from_numpy(1.0 / 10 ** np.linspace(0, 6, size)).float())
        self.phase = nn.Parameter(torch.zeros(size))

    def forward(self, dt):
        return torch.cos(dt.unsqueeze(-1) * self.freq + self.phase)


class TNei(nn.Module):
    """
    node   [B, Dn]        state of the account at time t
    neigh  [B, N, Dn]     state of its last N counterparties
    edge   [B, N, De]     features of these transactions
    dt     [B, N]         t minus the time of each transaction
    n_ids  [B, N]         id of the counterparty, 0 = slot not used

    Gives [B, Dn]. For an account with no past transaction the aggregated part is a zero vector.
    """

    def __init__(self, Dn, De, Dt, heads):
        super().__init__()
        self.clock = Clock(Dt)
        inner = heads * 8
        self.heads = heads
        self.wq = nn.Linear(Dn + Dt, inner, bias=False)
        self.wk = nn.Linear(Dn + De + Dt, inner, bias=False)
        self.wv = nn.Linear(Dn + De + Dt, inner, bias=False)
        self.merge = nn.Sequential(nn.Linear(inner + Dn, Dn), nn.ReLU(), nn.Linear(Dn, Dn))

    def forward(self, node, neigh, edge, dt, n_ids):
        B, N = n_ids.shape
        now = self.clock(torch.zeros(B, device=node.device))
        q = self.wq(torch.cat([node, now], -1)).view(B, self.heads, 8)
        z = torch.cat([neigh, edge, self.clock(dt)], -1)
        k = self.wk(z).view(B, N, self.heads, 8)
        v = self.wv(z).view(B, N, self.heads, 8)
        s = (q.unsqueeze(1) * k).sum(-1) / 8 ** 0.5            # [B, N, heads]
        empty = (n_ids == 0).unsqueeze(-1)
        s = s.masked_fill(empty, -torch.inf)
        top = s.amax(1, keepdim=True)
        top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
        e = torch.exp(s - top)
        p = e / e.sum(1, keepdim=True).clamp(min=1e-12)
        agg = (p.unsqueeze(-1) * v).sum(1).reshape(B, -1)
        return self.merge(torch.cat([agg, node], -1))
