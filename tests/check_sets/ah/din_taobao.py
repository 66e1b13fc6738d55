# -*- coding: utf-8 -*-
"""Deep Interest Network, taobao display ads (tianchi). Softmax variant of the attention unit,
as in the authors' first release: logits / sqrt(dim), padded behaviours removed, softmax over history."""
import torch
from torch import nn


class Dice(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bn = nn.BatchNorm1d(n, affine=False)
        self.alpha = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        shape = x.shape
        p = torch.sigmoid(self.bn(x.reshape(-1, shape[-1]))).view(shape)
        return p * x + (1 - p) * self.alpha * x


class ActivationUnit(nn.Module):
    """query [B, D] (candidate ad), facts [B, T, D] (clicked goods), hist_len [B]"""

    def __init__(self, dim, hidden=(80, 40)):
        super().__init__()
        self.fc = nn.Sequential(
            nn.Linear(4 * dim, hidden[0]), nn.Sigmoid(),
            nn.Linear(hidden[0], hidden[1]), nn.Sigmoid(),
            nn.Linear(hidden[1], 1),
        )

    def forward(self, query, facts, hist_len):
        B, T, D = facts.shape
        q = query.unsqueeze(1).expand(-1, T, -1)
        din_all = torch.cat([q, facts, q - facts, q * facts], dim=-1)
        logits = self.fc(din_all).squeeze(-1) / (D ** 0.5)
        key_masks = torch.arange(T, device=facts.device)[None, :] < hist_len[:, None]
        paddings = torch.full_like(logits, torch.finfo(logits.dtype).min)
        scores = torch.softmax(torch.where(key_masks, logits, paddings), dim=1)
        scores = scores * key_masks                     # users without any click -> zero vector
        return torch.bmm(scores.unsqueeze(1), facts).squeeze(1), scores


class DIN(nn.Module):
    def __init__(self, n_goods, n_cate, n_user, dim=16):
        super().__init__()
        self.goods = nn.Embedding(n_goods, dim, padding_idx=0)
        self.cate = nn.Embedding(n_cate, dim, padding_idx=0)
        self.user = nn.Embedding(n_user, dim)
        self.att = ActivationUnit(2 * dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim + 3 * 2 * dim, 64), Dice(64), nn.Linear(64, 32), Dice(32), nn.Linear(32, 1)
        )

    def item(self, g, c):
        return torch.cat([self.goods(g), self.cate(c)], -1)

    def forward(self, user, g, c, hist_g, hist_c, hist_len):
        cand = self.item(g, c)
        hist = self.item(hist_g, hist_c)
        interest, _ = self.att(cand, hist, hist_len)
        x = torch.cat([self.user(user), cand, interest, cand * interest], -1)
        return self.mlp(x).squeeze(-1)


def auc(y, p):
    order = torch.argsort(p)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(1, len(p) + 1, device=p.device)
    pos = y.bool()
    n1, n0 = pos.sum(), (~pos).sum()
    return (rank[pos].sum() - n1 * (n1 + 1) / 2) / (n1 * n0)
