"""RTS agent: entity encoder over the units in sight (AlphaStar-flavoured)."""
import math
import torch
import torch.nn as nn

MAX_UNITS = 64
UNIT_FEATURES = 12


class EntityTransformerLayer(nn.Module):
    def __init__(self, dim, heads, logit_cap=20.0):
        super().__init__()
        self.attn = EntityAttention(dim, heads, logit_cap)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.ReLU(), nn.Linear(dim * 2, dim))
        self.ln1 = nn.LayerNorm(dim)
        self.ln2 = nn.LayerNorm(dim)

    def forward(self, x, present):
        x = self.ln1(x + self.attn(x, present))
        return self.ln2(x + self.mlp(x))


class EntityAttention(nn.Module):
    """Self attention between units.

    Self-play made the logits explode, therefore they are squashed softly into
    (-logit_cap, logit_cap). Units that are not present (dead, or an unused row of the
    observation) contribute nothing to the others.

    x: [batch, units, dim], present: [batch, units] bool
    """

    def __init__(self, dim, heads, logit_cap=20.0):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.logit_cap = logit_cap
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.final = nn.Linear(dim, dim)

    def split(self, t):
        return t.unflatten(-1, (self.heads, self.head_dim)).transpose(-2, -3)

    def forward(self, x, present=None):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        logits = torch.einsum("...id,...jd->...ij", q, k) / math.sqrt(self.head_dim)
        if present is not None:
            bias = torch.zeros_like(present, dtype=logits.dtype)
            bias.masked_fill_(~present, float("-inf"))
            logits = logits + bias[..., None, None, :]
        logits = self.logit_cap * torch.tanh(logits / self.logit_cap)
        weights = logits.softmax(-1)
        out = torch.einsum("...ij,...jd->...id", weights, v)
        return self.final(out.transpose(-2, -3).flatten(-2))


class EntityEncoder(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        self.embed = nn.Linear(UNIT_FEATURES, dim)
        self.layers = nn.ModuleList([EntityTransformerLayer(dim, heads) for _ in range(depth)])

    def forward(self, units, present):
        x = self.embed(units)
        for layer in self.layers:
            x = layer(x, present)
        n = present.sum(-1, keepdim=True).clamp(min=1)
        pooled = (x * present.unsqueeze(-1)).sum(-2) / n
        return x, pooled


class TargetSelector(nn.Module):
    """Pointer: which unit does the action refer to?"""

    def __init__(self, dim=32):
        super().__init__()
        self.key = nn.Linear(dim, 16)
        self.query = nn.Linear(dim, 16)

    def forward(self, state, entities, present):
        logits = torch.einsum("bd,bnd->bn", self.query(state), self.key(entities))
        return logits.masked_fill(~present, -1e9)
