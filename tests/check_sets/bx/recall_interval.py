"""Recall interval of dental patients from their visit history.

Visits (findings per visit, months since the last one) go through a GRU; the
hidden states are pooled with weights that fade with the age of the visit,
half-life learned, and a head predicts the months to the next needed visit.
"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class FadingPool(nn.Module):
    """Weighted mean over time, weight 2^(-age / half_life)."""

    def __init__(self, half_life=12.0):
        super().__init__()
        self.raw = nn.Parameter(torch.tensor(float(half_life)))

    def forward(self, h, age, real):
        w = torch.exp2(-age / F.softplus(self.raw)) * real
        w = w / w.sum(1, keepdim=True)
        return (h * w.unsqueeze(-1)).sum(1)


class RecallInterval(nn.Module):
    def __init__(self, findings=11, hidden=24):
        super().__init__()
        self.rnn = nn.GRU(findings + 1, hidden, batch_first=True)
        self.pool = FadingPool()
        self.head = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, findings, gap, n_visits):
        # findings [B, N, F], gap [B, N] months since the visit before, n_visits [B]
        n = findings.shape[1]
        x = torch.cat([findings, torch.log1p(gap).unsqueeze(-1)], dim=-1)
        packed = pack_padded_sequence(x, n_visits.cpu(), batch_first=True, enforce_sorted=False)
        h, last = self.rnn(packed)
        h, _ = pad_packed_sequence(h, batch_first=True, total_length=n)
        real = (torch.arange(n, device=gap.device) < n_visits[:, None]).to(h.dtype)
        when = (gap * real).cumsum(1)
        age = when.gather(1, n_visits[:, None] - 1) - when
        pooled = self.pool(h, age, real)
        return F.softplus(self.head(torch.cat([pooled, last[0]], dim=-1))).squeeze(-1)
