"""Mixture of attention heads: every token picks its top-k query heads.

Keys and values have one head (as in multi-query attention) and are shared; each expert e
owns a query and an output projection.  For a token, the router keeps the k best experts,
renormalises their probabilities, and the token's output is the weighted sum of those
experts' attention outputs.  Encoder: no causality, but padding must stay unread.

x    (B, T, D)
pad  (B, T) bool, True = padding (every sequence has at least one real token)
"""
import torch
import torch.nn as nn


class MoHAttention(nn.Module):
    def __init__(self, D, experts=6, k=2, hd=32):
        super().__init__()
        self.k, self.hd, self.experts = k, hd, experts
        self.router = nn.Linear(D, experts, bias=False)
        self.wq = nn.Parameter(torch.randn(experts, D, hd) * D ** -0.5)
        self.wo = nn.Parameter(torch.randn(experts, hd, D) * hd ** -0.5)
        self.wkv = nn.Linear(D, 2 * hd, bias=False)

    def route(self, x):
        """(B, T, E) gates: zero for experts that were not chosen, rows sum to 1."""
        prob = self.router(x).softmax(dim=-1)
        top, idx = prob.topk(self.k, dim=-1)
        top = top / top.sum(dim=-1, keepdim=True)
        return torch.zeros_like(prob).scatter(-1, idx, top)

    def forward(self, x, pad):
        gates = self.route(x)
        k, v = self.wkv(x).chunk(2, dim=-1)
        q = torch.einsum("btm,emd->bted", x, self.wq)
        s = torch.einsum("bted,bsd->bets", q, k) * self.hd ** -0.5
        s.masked_fill(pad[:, None, None, :], torch.finfo(s.dtype).min)
        a = s.softmax(dim=-1)
        o = torch.einsum("bets,bsd->bted", a, v)
        return torch.einsum("bted,edm,bte->btm", o, self.wo, gates)
