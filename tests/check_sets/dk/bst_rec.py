"""Behaviour Sequence Transformer for the recipe app (click probability).

predict(batch) with batch = {"hist": [B, T] int, "target": [B] int, "user": [B, U] float}
hist holds ids 1..n of recipes looked at, right padded with 0 (0 up to T clicks).  The
target recipe is appended behind the history as one more token; history and target
attend to each other, empty places are not read by anybody.

Output: logit [B].
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Conf:
    n_items: int = 500
    n_user: int = 4
    T: int = 10
    dim: int = 32
    heads: int = 4


class BST(nn.Module):
    def __init__(self, c: Conf):
        super().__init__()
        self.c = c
        self.item = nn.Embedding(c.n_items + 1, c.dim)
        self.place = nn.Embedding(c.T + 1, c.dim)
        self.attn = nn.MultiheadAttention(c.dim, c.heads, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.ffn = nn.Sequential(nn.Linear(c.dim, c.dim * 2), nn.LeakyReLU(), nn.Linear(c.dim * 2, c.dim))
        self.mlp = nn.Sequential(nn.Linear(c.dim + c.n_user, 32), nn.LeakyReLU(), nn.Linear(32, 1))

    def tokens(self, hist, target):
        ids = torch.cat([hist, target[:, None]], dim=1)
        pos = torch.arange(ids.size(1), device=ids.device)
        return self.item(ids) + self.place(pos), ids > 0

    def encode(self, x, valid):
        y, _ = self.attn(x, x, x, key_padding_mask=valid, need_weights=False)
        x = self.ln1(x + y)
        return self.ln2(x + self.ffn(x))

    def forward(self, batch):
        x, valid = self.tokens(batch["hist"], batch["target"])
        z = self.encode(x, valid)
        return self.mlp(torch.cat([z[:, -1], batch["user"]], dim=-1)).squeeze(-1)


def make(**kw):
    return BST(Conf(**kw))


def auc(score, label):
    pos, neg = score[label == 1], score[label == 0]
    return (pos[:, None] > neg[None]).float().mean().item()
