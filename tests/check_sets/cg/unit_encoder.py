"""Entity encoder of the strategy-game agent.

All units on the map attend to each other with multi-head scaled dot-product attention.
The observation has a fixed number of unit slots; a slot whose unit is dead or not yet
built is False in ``alive`` and takes no part: weights are a distribution over the
living units.  Output: one vector per slot and the mean over the living units.
"""
import torch
import torch.nn as nn


class UnitSelfAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.to_o = nn.Linear(dim, dim)

    def per_head(self, x):
        b, n, _ = x.shape
        return x.reshape(b, self.heads, n, self.dim // self.heads)

    def forward(self, x, alive):
        q = self.per_head(self.to_q(x))
        k = self.per_head(self.to_k(x))
        v = self.per_head(self.to_v(x))
        logits = q @ k.transpose(-1, -2) * (self.dim // self.heads) ** -0.5
        weights = logits.softmax(dim=-1)
        weights = weights * alive[:, None, None, :].to(weights.dtype)
        y = (weights @ v).transpose(1, 2).flatten(2)
        return self.to_o(y)


class UnitBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_a = nn.LayerNorm(dim)
        self.att = UnitSelfAttention(dim, heads)
        self.ln_b = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, alive):
        x = x + self.att(self.ln_a(x), alive)
        return x + self.mlp(self.ln_b(x))


class UnitEncoder(nn.Module):
    def __init__(self, unit_features: int = 14, dim: int = 32, heads: int = 4, depth: int = 2):
        super().__init__()
        self.inp = nn.Linear(unit_features, dim)
        self.blocks = nn.ModuleList([UnitBlock(dim, heads) for _ in range(depth)])

    def forward(self, units, alive):
        x = self.inp(units)
        for block in self.blocks:
            x = block(x, alive)
        m = alive.unsqueeze(-1).to(x.dtype)
        summary = (x * m).sum(1) / m.sum(1).clamp(min=1.0)
        return x, summary
