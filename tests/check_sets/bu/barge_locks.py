"""Barges waiting at a chain of locks: expected waiting time per barge.

`berth_bias` (B, 1, N, N) comes from the harbour master: it's added to the
scores of every layer (0 = free to interact, negative = rather not, -inf =
never).  Each layer has its own river-kilometre term besides.
"""
import torch
import torch.nn as nn

KM_SCALE = 10.0


def river_km(pos):
    """pos (B, N) in km -> (B, 1, N, N), distance along the river, in tens of km"""
    return ((pos[:, :, None] - pos[:, None, :]).abs() / KM_SCALE).unsqueeze(1)


class LockLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.decay = 0.7

    def scores(self, q, k, bias, km):
        bias -= self.decay * km
        return q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias

    def forward(self, x, bias, km):
        B, N, D = x.shape
        qkv = self.qkv(self.ln1(x)).reshape(B, N, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        w = self.scores(q, k, bias, km).softmax(dim=-1)
        x = x + self.out((w @ v).transpose(1, 2).reshape(B, N, D))
        return x + self.mlp(self.ln2(x))


class LockChain(nn.Module):
    """forward(barges (B, N, F), pos (B, N), berth_bias) -> hours (B, N)"""

    def __init__(self, features=4, dim=16, heads=2, layers=3):
        super().__init__()
        self.enter = nn.Linear(features, dim)
        self.layers = nn.ModuleList(LockLayer(dim, heads) for _ in range(layers))
        self.hours = nn.Linear(dim, 1)

    def forward(self, barges, pos, berth_bias=None):
        if berth_bias is None:
            n = barges.shape[1]
            berth_bias = barges.new_zeros(barges.shape[0], 1, n, n)
        km = river_km(pos)
        h = self.enter(barges)
        for layer in self.layers:
            h = layer(h, berth_bias, km)
        return nn.functional.softplus(self.hours(h)).squeeze(-1)


def convoy_bias(convoy):
    """Barges of one convoy don't wait for each other. convoy (B, N) ints, -1 = alone"""
    same = (convoy[:, :, None] == convoy[:, None, :]) & (convoy[:, :, None] >= 0)
    same = same & ~torch.eye(convoy.shape[1], dtype=torch.bool)
    return torch.zeros(same.shape).masked_fill(same, -4.0).unsqueeze(1)


if __name__ == "__main__":
    net = LockChain()
    print(net(torch.randn(1, 5, 4), torch.rand(1, 5) * 60, convoy_bias(torch.tensor([[0, 0, -1, 1, 1]]))))
