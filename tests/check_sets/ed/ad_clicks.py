"""CTR model with the user's last clicks (always exactly `n_clicks` of them, no padding).

ad       (B,)            long, ad to be shown
clicks   (B, n_clicks)   long, ads clicked last
context  (B, c)          float features of the request
returns  logit (B,) and the interest weights (B, n_clicks)

interest weights = softmax over the clicks of q(ad) . k(click) / sqrt(dim)
interest         = weighted sum of v(click)
"""
import torch
from torch import nn


class Interest(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.act = nn.Softmax(dim=-1)
        self.scale = dim ** -0.5

    def score(self, ad, clicks):
        s = torch.bmm(self.k(clicks), self.q(ad).unsqueeze(-1)).squeeze(-1)
        return self.act(s * self.scale)

    def forward(self, ad, clicks):
        w = self.act(self.score(ad, clicks))
        return torch.bmm(w.unsqueeze(1), self.v(clicks)).squeeze(1), w


class ClickModel(nn.Module):
    def __init__(self, ads, c, dim=32):
        super().__init__()
        self.emb = nn.Embedding(ads, dim)
        self.interest = Interest(dim)
        self.deep = nn.Sequential(
            nn.Linear(2 * dim + c, 64), nn.ReLU(), nn.BatchNorm1d(64), nn.Linear(64, 1)
        )
        self.wide = nn.Linear(c, 1)

    def forward(self, ad, clicks, context):
        a = self.emb(ad)
        i, w = self.interest(a, self.emb(clicks))
        z = self.deep(torch.cat([a, i, context], dim=-1)) + self.wide(context)
        return z.squeeze(-1), w
