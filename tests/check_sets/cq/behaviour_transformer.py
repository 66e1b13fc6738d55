"""Behavior Sequence Transformer for CTR (Chen et al., Alibaba 2019) - attention part."""
import math

import torch
import torch.nn as nn


class BasketAttention(nn.Module):
    """Self-attention over the last clicks of a user plus the target item.

    clicks: (B, L, emb) embedded click sequence (the target item is the last position)
    n_real: (B, L) bool, True where there is a real click, False for filler. Fillers must not
        contribute to anybody's representation; what comes out at a filler is thrown away later.
    """

    def __init__(self, emb=32, guilds=4):
        super().__init__()
        self.guilds = guilds
        self.g = emb // guilds
        self.need = nn.Linear(emb, emb)
        self.offer = nn.Linear(emb, emb)
        self.goods = nn.Linear(emb, emb)
        self.till = nn.Linear(emb, emb)

    def stalls(self, t):
        return t.view(t.size(0), -1, self.guilds, self.g).transpose(1, 2)

    def forward(self, clicks, n_real):
        need = self.stalls(self.need(clicks))
        offer = self.stalls(self.offer(clicks))
        goods = self.stalls(self.goods(clicks))
        deal = need @ offer.transpose(-1, -2) / math.sqrt(self.g)
        deal = deal.masked_fill(~n_real[:, None, :, None], torch.finfo(deal.dtype).min)
        deal = deal.softmax(dim=-1)
        haul = (deal @ goods).transpose(1, 2).flatten(2)
        return self.till(haul)


class BST(nn.Module):
    """click_ids: (B, L) with 0 as filler, target_id: (B,) -> click logit (B,)"""

    def __init__(self, n_items=60, max_len=16, emb=32, guilds=4):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, emb)
        self.place = nn.Embedding(max_len + 1, emb)
        self.attention = BasketAttention(emb, guilds)
        self.norm1, self.norm2 = nn.LayerNorm(emb), nn.LayerNorm(emb)
        self.ffn = nn.Sequential(nn.Linear(emb, emb), nn.LeakyReLU(), nn.Linear(emb, emb))
        self.score = nn.Sequential(nn.Linear(2 * emb, 32), nn.LeakyReLU(), nn.Linear(32, 1))

    def forward(self, click_ids, target_id):
        ids = torch.cat([click_ids, target_id[:, None]], dim=1)
        real = ids != 0
        x = self.items(ids) + self.place.weight[: ids.size(1)]
        x = self.norm1(x + self.attention(x, real))
        x = self.norm2(x + self.ffn(x))
        seq = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        return self.score(torch.cat([seq, x[:, -1]], dim=-1)).squeeze(-1)
