"""Linear-time transformer for electricity demand forecasting (hourly, 2 weeks of history).

Uses the feature map phi(x) = elu(x) + 1 of "Transformers are RNNs":

    out_i = phi(q_i) . sum_j phi(k_j) v_j^T  /  phi(q_i) . sum_j phi(k_j)

with j <= i in the causal case. No softmax and no scale in this kind of attention.
"""
from typing import Optional
import torch
from torch import Tensor, nn
import torch.nn.functional as F


def phi(x: Tensor) -> Tensor:
    return F.elu(x) + 1.0


class KernelAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, causal: bool, eps: float = 1e-6):
        super().__init__()
        self.n_heads, self.causal, self.eps = n_heads, causal, eps
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, present: Optional[Tensor] = None) -> Tensor:
        """present: bool [B, T], False for missing hours (meter offline)"""
        B, T, D = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(B, T, self.n_heads, -1).transpose(1, 2) for t in (q, k, v))
        q, k = phi(q), phi(k)
        if present is not None:
            k = k * present[:, None, :, None].to(k)
        if self.causal:
            kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(dim=2)
            z = k.cumsum(dim=2)
            num = torch.einsum("bhtd,bhtde->bhte", q, kv)
            den = (q * z).sum(-1, keepdim=True)
        else:
            kv = torch.einsum("bhtd,bhte->bhde", k, v)
            num = q @ kv
            den = q @ k.sum(dim=2).unsqueeze(-1)
        out = num / (den + self.eps)
        return self.out_proj(out.transpose(1, 2).reshape(B, T, D))


class ForecastBlock(nn.Module):
    def __init__(self, d_model, n_heads, causal, p=0.1):
        super().__init__()
        self.attn = KernelAttention(d_model, n_heads, causal)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Dropout(p), nn.Linear(2 * d_model, d_model))

    def forward(self, x, present=None):
        x = x + self.attn(self.norm1(x), present)
        return x + self.ff(self.norm2(x))


class DemandNet(nn.Module):
    def __init__(self, n_inputs=6, d_model=32, n_heads=4, layers=2, horizon=24, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.embed = nn.Linear(n_inputs, d_model)
        self.hour = nn.Embedding(24, d_model)
        self.blocks = nn.ModuleList([ForecastBlock(d_model, n_heads, True) for _ in range(layers)])
        self.head = nn.Linear(d_model, horizon * len(quantiles))
        self.horizon, self.quantiles = horizon, quantiles

    def forward(self, x, hour, present=None):
        h = self.embed(x) + self.hour(hour)
        for b in self.blocks:
            h = b(h, present)
        return self.head(h[:, -1]).view(-1, self.horizon, len(self.quantiles))


def pinball(pred, y, quantiles):
    q = torch.tensor(quantiles, device=y.device)
    e = y[..., None] - pred
    return torch.maximum(q * e, (q - 1) * e).mean()
