"""Pedestrian trajectory prediction: every agent attends to its neighbours.

`neighbour_bias` builds an additive matrix: 0.0 where agent j is within the
radius of agent i (an agent is always its own neighbour), -inf where it is not.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def neighbour_bias(xy: torch.Tensor, radius: float) -> torch.Tensor:
    """xy (A, 2) -> (A, A)"""
    dist = torch.cdist(xy, xy)
    bias = torch.zeros_like(dist)
    bias[dist > radius] = -math.inf
    return bias


class SocialAttention(nn.Module):
    """h (A, D) hidden states of A agents, bias (A, A) as from `neighbour_bias`."""

    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim)

    def forward(self, h, bias=None):
        a, d = h.shape
        hd = d // self.heads
        q = self.q(h).reshape(a, self.heads, hd).transpose(0, 1)
        k = self.k(h).reshape(a, self.heads, hd).transpose(0, 1)
        v = self.v(h).reshape(a, self.heads, hd).transpose(0, 1)
        mask = None if bias is None else bias.to(torch.bool)
        ctx = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(ctx.transpose(0, 1).reshape(a, d))


class TrajectoryNet(nn.Module):
    def __init__(self, dim=32, radius=3.0, horizon=12):
        super().__init__()
        self.radius, self.horizon = radius, horizon
        self.embed = nn.Linear(2, dim)
        self.rnn = nn.GRUCell(dim, dim)
        self.social = SocialAttention(dim)
        self.out = nn.Linear(dim, 2)

    def forward(self, track):
        """track (T, A, 2) observed positions -> (horizon, A, 2)"""
        h = track.new_zeros(track.shape[1], self.rnn.hidden_size)
        prev = track[0]
        for xy in track[1:]:
            h = self.rnn(self.embed(xy - prev), h)
            prev = xy
        preds = []
        step = track[-1] - track[-2]
        for _ in range(self.horizon):
            h = h + self.social(h, neighbour_bias(prev, self.radius))
            h = self.rnn(self.embed(step), h)
            step = self.out(h)
            prev = prev + step
            preds.append(prev)
        return torch.stack(preds)


def ade(pred, truth):
    return (pred - truth).norm(dim=-1).mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    print(TrajectoryNet()(torch.randn(8, 5, 2).cumsum(0)).shape)
