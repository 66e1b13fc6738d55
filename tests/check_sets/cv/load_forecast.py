import torch
import torch.nn as nn
import torch.nn.functional as F


class LoadForecaster(nn.Module):
    """Autoregressive electricity load model: one attention layer, value and covariates in, value out.

    forward(series (B, T), cov (B, T, c), cache=None) -> (prediction of the next value (B, T), cache)
    cache holds keys and values of the earlier hours; every hour sees all hours before it and itself.
    forecast() rolls the model forward one hour at a time.
    """

    def __init__(self, c=3, D=16, heads=2):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(1 + c, D)
        self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)
        self.o = nn.Linear(D, D)
        self.head = nn.Sequential(nn.Linear(D, D), nn.SiLU(), nn.Linear(D, 1))

    def forward(self, series, cov, cache=None):
        x = self.inp(torch.cat([series.unsqueeze(-1), cov], -1))
        B, T, D = x.shape
        sp = lambda t: t.view(B, T, self.heads, -1).transpose(1, 2)
        q, k, v = sp(self.q(x)), sp(self.k(x)), sp(self.v(x))
        if cache is not None:
            k = torch.cat([cache[0], k], 2)
            v = torch.cat([cache[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, D))
        return self.head(x).squeeze(-1), (k, v)

    @torch.no_grad()
    def forecast(self, series, cov, future_cov):
        """Mean forecast for the hours of future_cov (B, N, c) -> (B, N)."""
        y, cache = self(series, cov)
        last, out = y[:, -1:], [y[:, -1:]]
        for n in range(future_cov.shape[1] - 1):
            last, cache = self(last, future_cov[:, n:n + 1], cache)
            out.append(last)
        return torch.cat(out, 1)
