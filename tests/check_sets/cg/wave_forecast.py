"""Altura significativa das ondas nas próximas horas, para um conjunto de boias.

Codificador: vetores meteorológicos horários dos últimos dois dias.  Decodificador: uma
consulta por antecedência (1 h ... n_leads h).  Cada antecedência olha para as horas
passadas com atenção multi-cabeças usual; consultas e chaves levam um código senoidal da
sua hora, de modo que o modelo sabe a idade de cada observação.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def hour_code(hours: torch.Tensor, dim: int) -> torch.Tensor:
    freq = torch.exp(-math.log(10000.0) * torch.arange(0, dim, 2) / dim)
    ang = hours[:, None].float() * freq
    return torch.cat([ang.sin(), ang.cos()], dim=-1)


class LeadTimeAttention(nn.Module):
    def __init__(self, dim: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, leads, past):
        def heads(t):
            return t.reshape(t.size(0), t.size(1), self.heads, -1)

        q, k, v = heads(self.to_q(leads)), heads(self.to_k(past)), heads(self.to_v(past))
        sim = torch.einsum("bihd,bjhd->bhij", q * self.scale, k)
        attn = self.drop(F.softmax(sim, dim=1))
        out = torch.einsum("bhij,bjhd->bihd", attn, v)
        return self.to_out(out.flatten(2))


class WaveForecaster(nn.Module):
    def __init__(self, n_vars: int = 7, n_leads: int = 12, dim: int = 40, heads: int = 5,
                 dropout: float = 0.1):
        super().__init__()
        self.n_leads, self.dim = n_leads, dim
        self.inp = nn.Linear(n_vars, dim)
        self.lead = nn.Parameter(torch.randn(dim) * 0.1)
        self.attn = LeadTimeAttention(dim, heads, dropout)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.height = nn.Linear(dim, 1)

    def forward(self, weather: torch.Tensor) -> torch.Tensor:
        """weather [B, T, n_vars], a última linha é agora -> metros [B, n_leads]"""
        t = weather.size(1)
        past = self.inp(weather) + hour_code(torch.arange(t) - t + 1, self.dim).to(weather)
        ask = self.lead + hour_code(torch.arange(self.n_leads) + 1, self.dim).to(weather)
        ask = ask.expand(weather.size(0), -1, -1)
        x = self.n1(ask + self.attn(ask, past))
        x = self.n2(x + self.ff(x))
        return F.softplus(self.height(x)).squeeze(-1)


if __name__ == "__main__":
    model = WaveForecaster().eval()
    print(model(torch.randn(3, 48, 7)).shape)
