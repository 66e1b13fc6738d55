# -*- coding: utf-8 -*-
"""DIN ranking model: the candidate item attends over the user's click history."""
import torch
from torch import nn


class LocalActivationUnit(nn.Module):
    def __init__(self, emb_dim, hidden=(32, 16)):
        super().__init__()
        dims = [4 * emb_dim] + list(hidden)
        mlp = []
        for i, o in zip(dims[:-1], dims[1:]):
            mlp += [nn.Linear(i, o), nn.PReLU()]
        mlp.append(nn.Linear(dims[-1], 1))
        self.mlp = nn.Sequential(*mlp)

    def forward(self, cand, hist, hist_len):
        """
        cand: B x E, hist: B x T x E, hist_len: B (number of real clicks, they come first)
        returns the user interest vector, B x E
        """
        B, T, E = hist.shape
        c = cand.unsqueeze(1).expand(-1, T, -1)
        score = self.mlp(torch.cat([c, hist, c - hist, c * hist], dim=-1)).squeeze(-1)
        score = score / (E ** 0.5)

        # softmax over the real clicks only
        steps = torch.arange(T, device=hist.device).unsqueeze(0)
        mask = steps < hist_len.unsqueeze(1)
        score = score.masked_fill(mask, -2 ** 32 + 1)
        weight = torch.softmax(score, dim=1)
        return (weight.unsqueeze(-1) * hist).sum(1)


class DIN(nn.Module):
    def __init__(self, n_items, n_cates, emb=16):
        super().__init__()
        self.item = nn.Embedding(n_items, emb, padding_idx=0)
        self.cate = nn.Embedding(n_cates, emb, padding_idx=0)
        self.att = LocalActivationUnit(2 * emb)
        self.tower = nn.Sequential(
            nn.Linear(6 * emb, 64), nn.PReLU(),
            nn.Linear(64, 32), nn.PReLU(),
            nn.Linear(32, 1),
        )

    def embed(self, i, c):
        return torch.cat([self.item(i), self.cate(c)], dim=-1)

    def forward(self, item, cate, hist_item, hist_cate, hist_len):
        q = self.embed(item, cate)
        seq = self.embed(hist_item, hist_cate)
        interest = self.att(q, seq, hist_len)
        return self.tower(torch.cat([q, interest, q * interest], dim=-1)).squeeze(-1)
