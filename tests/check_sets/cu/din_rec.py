"""DIN interest extractor (Zhou et al. 2018), prod ranker v3.

The local activation unit scores every behaviour against the candidate item with a
small MLP. As in the paper the scores are NOT normalised (no softmax) so that the
intensity of interest is preserved; the result is a weighted *sum* of the history.
`normalize=True` switches to softmax weights.
"""
import torch
import torch.nn as nn


class Dice(nn.Module):
    def __init__(self, n, eps=1e-8):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, eps=eps, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        p = torch.sigmoid(self.bn(x.flatten(0, -2)).view_as(x))
        return p * x + (1 - p) * self.alpha * x


class InterestUnit(nn.Module):
    def __init__(self, n_items=200, dim=16, hidden=24, normalize=False):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.fc1 = nn.Linear(4 * dim, hidden)
        self.act = Dice(hidden)
        self.fc2 = nn.Linear(hidden, 1)
        self.normalize = normalize

    def forward(self, cand, hist):
        """cand: (B,) item ids; hist: (B, L) item ids, 0 = empty slot -> (B, dim)"""
        q = self.item(cand)[:, None]
        k = self.item(hist)
        q = q.expand_as(k)
        s = self.fc2(self.act(self.fc1(torch.cat([q, k, q - k, q * k], -1)))).squeeze(-1)
        keep = hist.ne(0)
        if self.normalize:
            s = s.masked_fill(~keep, torch.finfo(s.dtype).min).softmax(-1)
        s = torch.where(keep, s, torch.zeros_like(s))
        return torch.einsum("bl,bld->bd", s, k)
