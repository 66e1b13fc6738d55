"""Electric load forecaster: patches of the history, calendar tokens, causal transformer."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ForecastConfig:
    patch: int = 8
    d_model: int = 48
    n_heads: int = 6
    n_layers: int = 2
    horizon: int = 24
    dropout: float = 0.1


def causal_bias(n, outage=None, device=None):
    """Additive mask: 0 = may look, -inf = may not. outage (B, n) bool marks patches without meter
    data; a patch always sees itself. -> (B or 1, 1, n, n)"""
    m = torch.full((n, n), float("-inf"), device=device).triu(1)[None]
    if outage is not None:
        m = m.masked_fill(outage[:, None, :] & ~torch.eye(n, dtype=torch.bool, device=device), float("-inf"))
    return m.unsqueeze(1)


class PatchAttention(nn.Module):
    def __init__(self, cfg: ForecastConfig):
        super().__init__()
        self.cfg = cfg
        self.qkv = nn.Linear(cfg.d_model, 3 * cfg.d_model)
        self.proj = nn.Linear(cfg.d_model, cfg.d_model)

    def forward(self, x, bias):
        """x (B, n, d_model), bias additive as made by causal_bias"""
        B, n, d = x.shape
        q, k, v = self.qkv(x).reshape(B, n, 3, self.cfg.n_heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=bias.bool(),
            dropout_p=self.cfg.dropout if self.training else 0.0,
            scale=d ** -0.5,
        )
        return self.proj(y.transpose(1, 2).reshape(B, n, d))


class LoadForecaster(nn.Module):
    def __init__(self, cfg: ForecastConfig):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Linear(cfg.patch, cfg.d_model)
        self.hour = nn.Embedding(24, cfg.d_model)
        self.day = nn.Embedding(7, cfg.d_model)
        self.attn = nn.ModuleList(PatchAttention(cfg) for _ in range(cfg.n_layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(cfg.d_model), nn.Linear(cfg.d_model, 4 * cfg.d_model),
                                              nn.ReLU(), nn.Linear(4 * cfg.d_model, cfg.d_model))
                                for _ in range(cfg.n_layers))
        self.ln = nn.ModuleList(nn.LayerNorm(cfg.d_model) for _ in range(cfg.n_layers))
        self.head = nn.Linear(cfg.d_model, cfg.horizon)

    def forward(self, load, hour, day, outage=None):
        """load (B, n * patch); hour, day (B, n) of the first value of each patch"""
        mu = load.mean(1, keepdim=True)
        sd = load.std(1, keepdim=True).clamp(min=1e-3)
        x = self.embed(((load - mu) / sd).unflatten(1, (-1, self.cfg.patch)))
        x = x + self.hour(hour) + self.day(day)
        bias = causal_bias(x.size(1), outage, x.device)
        for ln, a, f in zip(self.ln, self.attn, self.ff):
            x = x + a(ln(x), bias)
            x = x + f(x)
        return self.head(x[:, -1]) * sd + mu
