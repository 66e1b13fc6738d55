"""Anomaly Transformer for server metrics (association discrepancy)."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class AnomalyAttention(nn.Module):
    """Series association: softmax(q k^T / sqrt(d)).
    Prior association: Gaussian kernel over |i - j| with a learned width per query
    position and head, each row divided by its sum.

    The reconstruction uses the series association alone; both are returned.
    """

    def __init__(self, d_model, n_heads, win):
        super().__init__()
        self.n_heads = n_heads
        self.q = nn.Linear(d_model, d_model)
        self.k = nn.Linear(d_model, d_model)
        self.v = nn.Linear(d_model, d_model)
        self.sigma = nn.Linear(d_model, n_heads)
        self.out = nn.Linear(d_model, d_model)
        idx = torch.arange(win)
        self.register_buffer("dist", (idx[:, None] - idx[None, :]).abs().float())

    def forward(self, x):
        B, L, D = x.shape
        H = self.n_heads
        q = self.q(x).view(B, L, H, -1)
        k = self.k(x).view(B, L, H, -1)
        v = self.v(x).view(B, L, H, -1)
        scale = 1.0 / math.sqrt(q.shape[-1])
        series = torch.softmax(scale * torch.einsum("blhe,bshe->bhls", q, k), dim=-1)

        sig = torch.sigmoid(self.sigma(x) * 5) + 1e-5
        sig = (3.0 ** sig - 1).transpose(1, 2).unsqueeze(-1)      # B, H, L, 1
        d = self.dist[:L, :L]
        prior = torch.exp(-d ** 2 / (2 * sig ** 2)) / (math.sqrt(2 * math.pi) * sig)
        prior = prior / prior.sum(dim=-1, keepdim=True)

        y = torch.einsum("bhls,bshd->blhd", series, v).reshape(B, L, D)
        return self.out(y), series, prior


class Layer(nn.Module):
    def __init__(self, d, h, win, ff=None, p=0.0):
        super().__init__()
        ff = ff or 4 * d
        self.att = AnomalyAttention(d, h, win)
        self.c1, self.c2 = nn.Conv1d(d, ff, 1), nn.Conv1d(ff, d, 1)
        self.n1, self.n2, self.drop = nn.LayerNorm(d), nn.LayerNorm(d), nn.Dropout(p)

    def forward(self, x):
        y, s, p = self.att(x)
        x = self.n1(x + self.drop(y))
        y = self.drop(F.gelu(self.c1(x.transpose(1, 2))))
        return self.n2(x + self.drop(self.c2(y)).transpose(1, 2)), s, p


class AnomalyTransformer(nn.Module):
    def __init__(self, n_in, win=100, d=64, heads=4, layers=3):
        super().__init__()
        self.emb = nn.Conv1d(n_in, d, 3, padding=1, padding_mode="circular", bias=False)
        self.layers = nn.ModuleList(Layer(d, heads, win) for _ in range(layers))
        self.norm, self.proj = nn.LayerNorm(d), nn.Linear(d, n_in)

    def forward(self, x):
        h = self.emb(x.transpose(1, 2)).transpose(1, 2)
        ss, ps = [], []
        for l in self.layers:
            h, s, p = l(h)
            ss.append(s)
            ps.append(p)
        return self.proj(self.norm(h)), ss, ps


def kl(p, q, eps=1e-4):
    return (p * (torch.log(p + eps) - torch.log(q + eps))).sum(-1).mean(1)


def anomaly_score(x, out, series, prior, temperature=50.0):
    rec = ((x - out) ** 2).mean(-1)
    dis = sum(kl(p, s) + kl(s, p) for s, p in zip(series, prior))
    return torch.softmax(-dis * temperature, dim=-1) * rec
