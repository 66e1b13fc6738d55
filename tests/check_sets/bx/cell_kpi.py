"""KPI mixer for radio cells (long series, so attention linear in length).

Bidirectional kernel attention with feature map phi(x) = elu(x) + 1:

    y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j)

Counters that were not delivered (`up` False) take no part as j.
"""
import torch
import torch.nn.functional as F
from torch import nn


class CellKpiMixer(nn.Module):
    def __init__(self, dim: int = 16, heads: int = 2):
        super().__init__()
        self.heads = heads
        self.to_qk = nn.Linear(dim, 2 * dim)
        self.to_v = nn.Linear(dim, dim)
        self.back = nn.Linear(dim, dim)

    def _h(self, t):
        return t.unflatten(-1, (self.heads, -1))

    def forward(self, x: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        q, k = self.to_qk(x).chunk(2, dim=-1)
        q, k, v = self._h(q), self._h(k), self._h(self.to_v(x))      # b n h d
        fq = F.elu(q) + 1
        fk = F.elu(k) + 1
        on = up[:, :, None, None]
        fk = fk.masked_fill(~on, 0.0)
        memory = torch.einsum("bnhd,bnhe->bhde", fk, v)
        mass = fk.mean(dim=1).clamp(min=1e-6)
        top = torch.einsum("bnhd,bhde->bnhe", fq, memory)
        norm = torch.einsum("bnhd,bhd->bnh", fq, mass)
        return self.back((top / norm.unsqueeze(-1)).flatten(2))


class KpiAnomaly(nn.Module):
    """Reconstruction error per time step; large = look at the cell."""

    def __init__(self, kpis: int = 9, dim: int = 16, heads: int = 2, depth: int = 2):
        super().__init__()
        self.lift = nn.Linear(kpis, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.mixers = nn.ModuleList(CellKpiMixer(dim, heads) for _ in range(depth))
        self.rebuild = nn.Linear(dim, kpis)

    def forward(self, series, up):
        x = self.lift(series)
        for norm, mix in zip(self.norms, self.mixers):
            x = x + mix(norm(x), up)
        return (self.rebuild(x) - series).pow(2).mean(-1).masked_fill(~up, 0.0)
