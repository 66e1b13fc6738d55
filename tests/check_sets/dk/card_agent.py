"""Value network for the trick-taking game: the cards of a hand look at each other.

HandEncoder(dim, heads)(cards, is_card)
    cards    [B, L, dim]  embedded cards; hands have different sizes, rest is padding
    is_card  [B, L] bool  True = a card, False = empty place (1 to L cards per hand)
returns [B, L, dim].  An empty place is never read by a card; what comes out at empty
places does not matter.  Scores are divided by sqrt(dim / heads).

value(net, hand): hand [B, L] int, -1 = empty place -> [B]
"""
import torch
from torch import nn


class HandEncoder(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, cards, is_card):
        b, n, dim = cards.shape
        h, d = self.heads, dim // self.heads
        q, k, v = [t.reshape(b, n, h, d).transpose(1, 2) for t in self.to_qkv(cards).chunk(3, dim=-1)]
        dots = torch.einsum("bhid,bhjd->bhij", q, k) / d ** 0.5
        mask = is_card.unsqueeze(1).unsqueeze(3)
        dots = dots.masked_fill(~mask, torch.finfo(dots.dtype).min)
        attn = dots.softmax(dim=-1)
        out = torch.einsum("bhij,bhjd->bhid", attn, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, dim))


class ValueNet(nn.Module):
    def __init__(self, n_cards=52, dim=32, heads=4):
        super().__init__()
        self.emb = nn.Embedding(n_cards + 1, dim)
        self.enc = HandEncoder(dim, heads)
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, hand):
        is_card = hand >= 0
        x = self.emb(hand + 1)
        x = x + self.enc(x, is_card)
        m = is_card.unsqueeze(-1)
        return self.out((x * m).sum(1) / m.sum(1)).squeeze(-1)


@torch.no_grad()
def value(net, hand):
    return net.eval()(hand)
