"""Классификатор токсичных комментариев: маленький BERT без предобучения."""
import math

import torch
from torch import nn


class Vnimanie(nn.Module):
    """Обычное многоголовое внимание: softmax(q k^T / sqrt(размер головы)) v.

    x    : (B, L, dim)
    mask : (B, L), 1 = слово, 0 = заполнение (pad). На заполнение никто не смотрит.
    Возвращает (B, L, dim).
    """

    def __init__(self, dim, golov):
        super().__init__()
        self.dim, self.golov = dim, golov
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask):
        B, L, _ = x.shape
        razdelit = lambda t: t.view(B, L, self.golov, -1).transpose(1, 2)
        q, k, v = razdelit(self.q(x)), razdelit(self.k(x)), razdelit(self.v(x))
        ocenki = q @ k.transpose(2, 3) / math.sqrt(self.dim)
        ocenki = ocenki + mask[:, None, None, :].to(ocenki.dtype)
        vesa = torch.softmax(ocenki, dim=-1)
        return self.o((vesa @ v).transpose(1, 2).reshape(B, L, self.dim))


class ToxicNet(nn.Module):
    """tokens (B, L) long, 0 = pad -> вероятности шести меток (B, 6), по первому токену."""

    def __init__(self, slov=1000, dim=48, golov=4, sloev=2, dlina=128):
        super().__init__()
        self.emb = nn.Embedding(slov, dim, padding_idx=0)
        self.pos = nn.Embedding(dlina, dim)
        self.sloi = nn.ModuleList([Vnimanie(dim, golov) for _ in range(sloev)])
        self.normy = nn.ModuleList([nn.LayerNorm(dim) for _ in range(sloev)])
        self.vyhod = nn.Linear(dim, 6)

    def forward(self, tokens):
        mask = (tokens != 0).long()
        x = self.emb(tokens) + self.pos.weight[: tokens.size(1)]
        for sloy, norma in zip(self.sloi, self.normy):
            x = norma(x + sloy(x, mask))
        return torch.sigmoid(self.vyhod(x[:, 0]))
