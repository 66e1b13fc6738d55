"""Encoder for delivery routes. Routes have different numbers of stops, so a batch is one
long tensor (total_stops, dim) with `lengths` saying how many stops each route has."""
import torch
from torch import nn


class PackedRouteAttention(nn.Module):
    """Bidirectional attention inside each route; no stop sees a stop of another route.

    x: (sum(lengths), dim), lengths: (n_routes,) int, all >= 1.
    """

    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        total, dim = x.shape
        route = torch.repeat_interleave(torch.arange(len(lengths), device=x.device), lengths)
        q, k, v = self.in_proj(self.norm(x)).chunk(3, -1)
        q = q.reshape(total, self.heads, -1)
        k = k.reshape(total, self.heads, -1)
        v = v.reshape(total, self.heads, -1)
        logits = torch.einsum("ihd,jhd->hij", q, k).div(q.shape[-1] ** 0.5)
        block = route[:, None].eq(route[None, :])
        logits.masked_fill_(block.logical_not(), float("-inf"))
        mixed = torch.einsum("hij,jhd->ihd", logits.softmax(2), v)
        return x + self.out_proj(mixed.flatten(1))


class RouteTimeModel(nn.Module):
    """Predicts minutes for every route, (n_routes,)."""

    def __init__(self, n_features=7, dim=24, heads=2, layers=2):
        super().__init__()
        self.lift = nn.Linear(n_features, dim)
        self.layers = nn.ModuleList(PackedRouteAttention(dim, heads) for _ in range(layers))
        self.minutes = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 1), nn.Softplus())

    def forward(self, stops, lengths):
        h = self.lift(stops)
        for layer in self.layers:
            h = layer(h, lengths)
        per_stop = self.minutes(h).squeeze(1)
        route = torch.repeat_interleave(torch.arange(len(lengths), device=h.device), lengths)
        return per_stop.new_zeros(len(lengths)).index_add(0, route, per_stop)
