"""Hybrid-head block for tide-gauge series: in every block a sliding-window attention
branch and a small selective state-space branch read the same input in parallel, and
their normalised outputs are averaged (the recipe of the "hybrid head" small LMs).

A few learned *datum* tokens stand before the series. They act as attention sinks:
every sample may look at them, whatever the window.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rms(x, g):
    return F.rms_norm(x, (x.shape[-1],), g)


class DatumWindowAttention(nn.Module):
    """x [B, T, C] -> [B, T, C].

    Sample t sees the `n_datum` learned key/value pairs and the samples
    t - window + 1 ... t (window of them, itself included).
    """

    def __init__(self, dim, heads, window, n_datum=4):
        super().__init__()
        self.h, self.w, self.m = heads, window, n_datum
        self.hd = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.datum_k = nn.Parameter(torch.randn(heads, n_datum, self.hd) * 0.5)
        self.datum_v = nn.Parameter(torch.randn(heads, n_datum, self.hd) * 0.5)
        self.q_gain = nn.Parameter(torch.ones(self.hd))
        self.k_gain = nn.Parameter(torch.ones(self.hd))

    def visible(self, T, device):
        t = torch.arange(T, device=device)
        lag = t[:, None] - t[None, :]
        near = (lag >= 0) & (lag < self.w)
        return torch.cat([near.new_ones(T, self.m), near], dim=1)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (z.view(B, T, self.h, self.hd).transpose(1, 2) for z in (q, k, v))
        q, k = rms(q, self.q_gain), rms(k, self.k_gain)
        k = torch.cat([self.datum_k.expand(B, -1, -1, -1), k], dim=2)
        v = torch.cat([self.datum_v.expand(B, -1, -1, -1), v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.visible(T, x.device))
        return y.transpose(1, 2).reshape(B, T, C)


class DiagonalScan(nn.Module):
    """h_t = a_t * h_{t-1} + (1 - a_t) * u_t, gate a_t from the input."""

    def __init__(self, dim):
        super().__init__()
        self.inp = nn.Linear(dim, 2 * dim)
        self.gate = nn.Linear(dim, dim)

    def forward(self, x):
        u, a = self.inp(x).chunk(2, -1)
        a = torch.sigmoid(a + 2.0)
        h, ys = torch.zeros_like(u[:, 0]), []
        for t in range(x.shape[1]):
            h = a[:, t] * h + (1 - a[:, t]) * u[:, t]
            ys.append(h)
        return torch.stack(ys, 1) * F.silu(self.gate(x))


class HybridTideBlock(nn.Module):
    def __init__(self, dim=48, heads=4, window=12):
        super().__init__()
        self.pre = nn.LayerNorm(dim)
        self.attn, self.ssm = DatumWindowAttention(dim, heads, window), DiagonalScan(dim)
        self.ga, self.gs = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.ones(dim))
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        n = self.pre(x)
        return x + self.out(0.5 * (rms(self.attn(n), self.ga) + rms(self.ssm(n), self.gs)))


class TideModel(nn.Module):
    def __init__(self, gauges=3, dim=48, depth=2, horizon=6):
        super().__init__()
        self.emb = nn.Linear(gauges, dim)
        self.blocks = nn.Sequential(*[HybridTideBlock(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, gauges * horizon)
        self.horizon = horizon

    def forward(self, series):
        y = self.head(self.blocks(self.emb(series)))
        return y.unflatten(-1, (self.horizon, -1))
