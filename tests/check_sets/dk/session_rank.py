"""Next-click ranking for the web shop, readout as in SR-GNN (Wu et al. 2019).

SessionRanker(n_items, dim) is called with
    clicks  LongTensor [B, T], item ids 1..n_items, right padded with 0,
            every session has at least one click
and gives scores [B, n_items] for the items 1..n_items.

Readout of the session (h_t are GRU states, s_l the state of the last click):
    alpha_t = q^T sigmoid(W1 s_l + W2 h_t + c)          (a plain number)
    s_g     = sum_t alpha_t h_t                          (real clicks only)
    s_h     = W3 [s_l ; s_g]
The paper does NOT normalise alpha, and neither do we: long sessions are
supposed to give a longer s_g.
"""
import torch
from torch import nn


class SessionRanker(nn.Module):
    def __init__(self, n_items, dim=32):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.w1 = nn.Linear(dim, dim, bias=False)
        self.w2 = nn.Linear(dim, dim, bias=True)
        self.q = nn.Linear(dim, 1, bias=False)
        self.w3 = nn.Linear(2 * dim, dim, bias=False)

    def readout(self, h, real):
        """h [B, T, D], real [B, T] bool (True = click) -> [B, D]"""
        last = real.sum(1) - 1
        s_l = h[torch.arange(h.size(0), device=h.device), last]
        alpha = self.q(torch.sigmoid(self.w1(s_l).unsqueeze(1) + self.w2(h)))
        s_g = (alpha * h * real.unsqueeze(-1).to(h.dtype)).sum(1)
        return self.w3(torch.cat([s_l, s_g], dim=-1))

    def forward(self, clicks):
        real = clicks > 0
        h, _ = self.gru(self.items(clicks))
        user = self.readout(h, real)
        return user @ self.items.weight[1:].t()


def hit_rate(scores, target, k=20):
    """share of sessions whose next item (1..n_items) is within the k best"""
    best = scores.topk(min(k, scores.size(1)), dim=1).indices + 1
    return (best == target.unsqueeze(1)).any(1).float().mean().item()
