"""Readmission risk from the coded visit history of a patient.

Codes (diagnoses, drugs, procedures) carry a day number.  For a prediction made
on day ``cutoff`` only codes recorded *before* that day may be used.  Histories are
padded to a common length: padded slots have code 0 and day 99999.
New patients are common; with nothing to look at their history vector is zero and the
score comes from the demographics alone.
"""
from dataclasses import dataclass

import torch
from torch import nn

PAD_CODE = 0
PAD_DAY = 99999


@dataclass
class RiskConfig:
    n_codes: int = 300
    n_demo: int = 6
    dim: int = 32
    heads: int = 4
    queries: int = 3


class HistoryReader(nn.Module):
    """A few learned questions are put to the history of each patient."""

    def __init__(self, cfg: RiskConfig):
        super().__init__()
        self.cfg = cfg
        self.code = nn.Embedding(cfg.n_codes, cfg.dim, padding_idx=PAD_CODE)
        self.age = nn.Linear(1, cfg.dim)
        self.question = nn.Parameter(torch.randn(cfg.queries, cfg.dim) * 0.3)
        self.wq = nn.Linear(cfg.dim, cfg.dim)
        self.wk = nn.Linear(cfg.dim, cfg.dim)
        self.wv = nn.Linear(cfg.dim, cfg.dim)
        self.wo = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def _heads(self, x):
        return x.unflatten(-1, (self.cfg.heads, -1)).transpose(-3, -2)

    def forward(self, codes, days, cutoff):
        lag = (cutoff[:, None] - days).clamp(0, 3650).to(self.age.weight.dtype) / 365.0
        x = self.code(codes) + self.age(lag.unsqueeze(-1))
        q = self._heads(self.wq(self.question))          # [H, Q, d]
        k, v = self._heads(self.wk(x)), self._heads(self.wv(x))  # [B, H, T, d]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5

        low = torch.finfo(scores.dtype).min
        pad_bias = torch.zeros_like(days, dtype=scores.dtype).masked_fill(codes == PAD_CODE, low)
        time_bias = torch.zeros_like(pad_bias).masked_fill(days >= cutoff[:, None], low)
        bias = pad_bias + time_bias
        weights = torch.softmax(scores + bias[:, None, None, :], dim=-1)

        usable = (codes != PAD_CODE) & (days < cutoff[:, None])
        ctx = (weights @ v).transpose(1, 2).flatten(2)
        return self.wo(ctx).mean(1) * usable.any(1, keepdim=True)


class ReadmissionModel(nn.Module):
    def __init__(self, cfg: RiskConfig = RiskConfig()):
        super().__init__()
        self.reader = HistoryReader(cfg)
        self.score = nn.Sequential(
            nn.Linear(cfg.dim + cfg.n_demo, cfg.dim), nn.ReLU(), nn.Linear(cfg.dim, 1)
        )

    def forward(self, codes, days, cutoff, demographics):
        history = self.reader(codes, days, cutoff)
        return self.score(torch.cat([history, demographics], dim=-1)).squeeze(-1)
