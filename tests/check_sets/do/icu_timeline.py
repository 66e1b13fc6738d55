"""ICU mortality model on irregular observation triplets (time, variable, value).

hours  (B, L) float   hours since admission
var    (B, L) int     variable id
value  (B, L) float   standardised measurement
observed (B, L)       1 = a real observation, 0 = padding; each stay has at least one
static (B, S)         age, sex, ...

Observation embeddings go through self-attention layers in which padding is
never attended to, then a mean over the real observations.  Output: logit (B,).
"""
import torch
import torch.nn as nn


class TripletEncoder(nn.Module):
    def __init__(self, n_var, dim):
        super().__init__()
        self.var = nn.Embedding(n_var, dim)
        self.time = nn.Sequential(nn.Linear(1, dim), nn.Tanh(), nn.Linear(dim, dim))
        self.val = nn.Sequential(nn.Linear(1, dim), nn.Tanh(), nn.Linear(dim, dim))

    def forward(self, hours, var, value):
        return self.var(var) + self.time(hours[..., None] / 24) + self.val(value[..., None])


class ICUNet(nn.Module):
    def __init__(self, n_var, n_static, dim=16, heads=2, depth=2):
        super().__init__()
        self.enc = TripletEncoder(n_var, dim)
        self.att = nn.ModuleList([nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(depth)])
        self.ln = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.static = nn.Linear(n_static, dim)
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, hours, var, value, observed, static):
        x = self.enc(hours, var, value)
        pad = observed.bool()
        for att, ln in zip(self.att, self.ln):
            y, _ = att(x, x, x, key_padding_mask=pad, need_weights=False)
            x = ln(x + y)
        m = observed.to(x.dtype)[..., None]
        pooled = (x * m).sum(1) / m.sum(1)
        return self.out(torch.cat([pooled, torch.relu(self.static(static))], -1)).squeeze(-1)
