"""Temporal Fusion Transformer pieces for load forecasting (Lim et al. 2021)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GLU(nn.Module):
    def __init__(self, n_in, n_out, p=0.0):
        super().__init__()
        self.drop, self.fc = nn.Dropout(p), nn.Linear(n_in, 2 * n_out)

    def forward(self, x):
        return F.glu(self.fc(self.drop(x)), -1)


class GRN(nn.Module):
    """Gated residual network."""

    def __init__(self, dim, ctx=None, p=0.0):
        super().__init__()
        self.a, self.b = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.c = nn.Linear(ctx, dim, bias=False) if ctx else None
        self.gate, self.norm = GLU(dim, dim, p), nn.LayerNorm(dim)

    def forward(self, x, ctx=None):
        h = self.a(x)
        if ctx is not None:
            h = h + self.c(ctx)
        return self.norm(x + self.gate(self.b(F.elu(h))))


class InterpretableMultiHead(nn.Module):
    """Interpretable multi-head attention: heads have own queries and keys but one common value
    projection (eq. 14-16 of the paper), the head outputs are averaged, so that the mean of the
    weights over the heads tells what was used.  Causal; the queries are the last rows of the keys.
    """

    def __init__(self, dim, n_head, p=0.1):
        super().__init__()
        self.n_head, self.d = n_head, dim // n_head
        self.qs = nn.Linear(dim, n_head * self.d)
        self.ks = nn.Linear(dim, n_head * self.d)
        self.v = nn.Linear(dim, self.d)
        self.out = nn.Linear(self.d, dim, bias=False)
        self.drop = nn.Dropout(p)

    def forward(self, q, kv):
        b, m, _ = q.shape
        n = kv.shape[1]
        qh = self.qs(q).view(b, m, self.n_head, self.d)
        kh = self.ks(kv).view(b, n, self.n_head, self.d)
        v = self.v(kv)
        s = torch.einsum("bmhd,bnhd->bhmn", qh, kh) / self.d ** 0.5
        ahead = torch.ones(m, n, dtype=torch.bool, device=q.device).triu(n - m + 1)
        w = s.masked_fill(ahead, float("-inf")).softmax(-1)
        mean_head = torch.matmul(self.drop(w), v.unsqueeze(1)).mean(1)
        return self.out(mean_head), w.mean(1)


class TemporalDecoder(nn.Module):
    def __init__(self, dim, n_head, horizon, quantiles=3):
        super().__init__()
        self.horizon = horizon
        self.enc = nn.LSTM(dim, dim, batch_first=True)
        self.dec = nn.LSTM(dim, dim, batch_first=True)
        self.enrich = GRN(dim, ctx=dim)
        self.att = InterpretableMultiHead(dim, n_head)
        self.gate, self.norm = GLU(dim, dim), nn.LayerNorm(dim)
        self.ff = GRN(dim)
        self.head = nn.Linear(dim, quantiles)

    def forward(self, past, future, static):
        e, st = self.enc(past)
        d, _ = self.dec(future, st)
        x = self.enrich(torch.cat([e, d], 1), static.unsqueeze(1))
        y, w = self.att(x[:, -self.horizon:], x)
        y = self.norm(x[:, -self.horizon:] + self.gate(y))
        return self.head(self.ff(y)), w
