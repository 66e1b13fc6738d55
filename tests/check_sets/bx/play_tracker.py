"""Player tracking: who influences whom in a play (handball league, 25 Hz).

`InfluenceLayer` is ordinary multi-head self-attention over the players on the
court in one frame.  Players on the bench (`on_court` False) influence nobody.
Returns the new player vectors and, for the overlay, the influence of every
player on every other in each head, shape (frames, players, heads, players).
"""
import torch
import torch.nn as nn


class InfluenceLayer(nn.Module):
    def __init__(self, size=30, heads=3):
        super().__init__()
        self.heads = heads
        self.head_size = size // heads
        self.to_q = nn.Linear(size, size, bias=False)
        self.to_k = nn.Linear(size, size, bias=False)
        self.to_v = nn.Linear(size, size, bias=False)
        self.merge = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)

    def forward(self, players, on_court):
        f, n, size = players.shape
        x = self.norm(players)
        q = self.to_q(x).view(f, n, self.heads, self.head_size)
        k = self.to_k(x).view(f, n, self.heads, self.head_size)
        v = self.to_v(x).view(f, n, self.heads, self.head_size)

        sim = torch.einsum("fihd,fjhd->fihj", q, k) / self.head_size ** 0.5
        sim = sim.masked_fill(~on_court[:, None, None, :], float("-inf"))
        influence = sim.flatten(2).softmax(dim=-1).view_as(sim)

        y = torch.einsum("fihj,fjhd->fihd", influence, v).reshape(f, n, size)
        return players + self.merge(y), influence


class PlayTracker(nn.Module):
    """Position + velocity per player -> expected displacement in half a second."""

    def __init__(self, feats=4, size=30, heads=3, depth=2):
        super().__init__()
        self.inp = nn.Linear(feats, size)
        self.layers = nn.ModuleList([InfluenceLayer(size, heads) for _ in range(depth)])
        self.out = nn.Linear(size, 2)

    def forward(self, tracks, on_court):
        x = self.inp(tracks)
        for layer in self.layers:
            x, influence = layer(x, on_court)
        return self.out(x), influence
