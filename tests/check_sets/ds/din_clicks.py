"""Deep Interest Network (Zhou et al., KDD 2018) on the Taobao display-ad logs.

We use the normalised variant: the activation weights go through a softmax
over the clicks that really happened.
"""
import torch
from torch import nn


class Dice(nn.Module):
    """p(s) * s + (1 - p(s)) * alpha * s with p = sigmoid(layer-norm(s))."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.alpha = nn.Parameter(torch.zeros(width))

    def forward(self, s):
        p = torch.sigmoid(self.norm(s))
        return p * s + (1 - p) * self.alpha * s


class LocalActivation(nn.Module):
    """How much does every past click matter for the ad we may show now?

    candidate  (B, D)      embedding of the ad
    clicks     (B, T, D)   embeddings of past clicks, oldest first, right-padded
    n_clicks   (B,) int64  number of real clicks, 0 .. T

    returns (B, D): sum_t w_t * clicks_t, where
    w = softmax over the n_clicks real clicks of MLP([c, x_t, c - x_t, c * x_t]).
    A user without any click gets the zero vector.
    """

    def __init__(self, dim, hidden=36):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * dim, hidden), Dice(hidden), nn.Linear(hidden, 1))

    def forward(self, candidate, clicks, n_clicks):
        T = clicks.size(1)
        c = candidate.unsqueeze(1).expand(-1, T, -1)
        a = self.mlp(torch.cat([c, clicks, c - clicks, c * clicks], dim=-1)).squeeze(-1)
        alive = torch.arange(T, device=clicks.device) < n_clicks[:, None]
        a = a.masked_fill(~alive, torch.finfo(a.dtype).min)
        w = a.softmax(dim=-1) * alive        # the product only matters for n_clicks == 0
        return (w.unsqueeze(1) @ clicks).squeeze(1)


class DIN(nn.Module):
    """Click probability from the ad id, the click history and its length."""

    def __init__(self, n_items, dim=16):
        super().__init__()
        self.emb = nn.Embedding(n_items, dim, padding_idx=0)
        self.unit = LocalActivation(dim)
        self.out = nn.Sequential(nn.Linear(2 * dim, 80), Dice(80), nn.Linear(80, 1))

    def forward(self, ad, history, n_clicks):
        a = self.emb(ad)
        user = self.unit(a, self.emb(history), n_clicks)
        return torch.sigmoid(self.out(torch.cat([a, user], -1))).squeeze(-1)
