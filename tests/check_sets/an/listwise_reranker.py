"""Listwise re-ranking head: candidates of one query look at each other before scoring.

Requests have different numbers of candidates, so the input is a list of tensors.
"""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence


@dataclass
class RankRequest:
    query: torch.Tensor          # (d,)
    docs: torch.Tensor           # (n_docs, d)
    ids: list = field(default_factory=list)


class CrossDocLayer(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, heads, dropout=p, batch_first=True)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, is_pad):
        y = self.n1(x)
        y, _ = self.attn(y, y, y, key_padding_mask=is_pad, need_weights=False)
        x = x + y
        return x + self.mlp(self.n2(x))


class ListwiseReranker(nn.Module):
    def __init__(self, d=32, heads=4, layers=2, p=0.1):
        super().__init__()
        self.mix = nn.Linear(2 * d, d)
        self.layers = nn.ModuleList([CrossDocLayer(d, heads, p) for _ in range(layers)])
        self.out = nn.Linear(d, 1)

    def forward(self, requests):
        """list[RankRequest] -> list of score tensors, one per request"""
        feats = []
        for r in requests:
            q = r.query.expand(r.docs.size(0), -1)
            feats.append(self.mix(torch.cat([q, r.docs], -1)))
        n = torch.tensor([f.size(0) for f in feats])
        x = pad_sequence(feats, batch_first=True)
        is_pad = torch.arange(x.size(1))[None, :] >= n[:, None]
        for lay in self.layers:
            x = lay(x, is_pad)
        s = self.out(x).squeeze(-1)
        return [row[:k] for row, k in zip(s, n.tolist())]

    @torch.no_grad()
    def rank(self, requests):
        was = self.training
        self.eval()
        res = []
        for r, s in zip(requests, self(requests)):
            order = s.argsort(descending=True).tolist()
            res.append([r.ids[i] for i in order] if r.ids else order)
        self.train(was)
        return res


def lambda_loss(scores, gains):
    """pairwise logistic loss over one list"""
    d = scores[:, None] - scores[None, :]
    better = (gains[:, None] > gains[None, :]).float()
    return (better * nn.functional.softplus(-d)).sum() / better.sum().clamp(min=1)
