"""Interpretable multi-head attention of the Temporal Fusion Transformer (Lim et al. 2021, eq. 13-16)."""
import torch
import torch.nn.functional as F
from torch import nn


class InterpretableMultiHead(nn.Module):
    """Decoder steps look back at the encoder window and at earlier decoder steps.

    One value projection serves all heads, every head has its own query and key
    projection.  H~ = (1/m) * sum_h softmax(Q_h K_h^T / sqrt(d)) V, then W_H.

    query   (B, n, D)        the n forecast steps
    memory  (B, k + n, D)    k past steps followed by the n forecast steps
    gone    (B, k) bool      True: the past step was not recorded
    return  (B, n, D), (B, n, k + n): output, and the weights averaged over heads
            (before dropout; rows sum to one)

    Forecast step t may use every recorded past step and the forecast steps 0..t.
    """

    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.m, self.d = heads, dim // heads
        self.wq = nn.ModuleList(nn.Linear(dim, self.d, bias=False) for _ in range(heads))
        self.wk = nn.ModuleList(nn.Linear(dim, self.d, bias=False) for _ in range(heads))
        self.wv = nn.Linear(dim, self.d, bias=False)
        self.wh = nn.Linear(self.d, dim, bias=False)
        self.p = dropout

    def blocked(self, gone, n):
        B, k = gone.shape
        ahead = torch.triu(torch.ones(n, n, dtype=torch.bool, device=gone.device), diagonal=1)
        return torch.cat([gone[:, None, :].expand(B, n, k), ahead.expand(B, n, n)], dim=2)

    def forward(self, query, memory, gone):
        stop = self.blocked(gone, query.size(1))
        v = self.wv(memory)
        shown, mixed = 0.0, 0.0
        for fq, fk in zip(self.wq, self.wk):
            s = torch.bmm(fq(query), fk(memory).transpose(1, 2)) / self.d ** 0.5
            a = F.softmax(s.masked_fill(stop, -1e9), dim=2)
            shown = shown + a / self.m
            mixed = mixed + torch.bmm(F.dropout(a, self.p, self.training), v) / self.m
        return self.wh(mixed), shown
