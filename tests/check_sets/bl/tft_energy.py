"""Temporal fusion transformer for the day-ahead load of a region (decoder part)."""
import logging
from typing import Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

LOGGER = logging.getLogger(__name__)


class GatedResidual(nn.Module):
    def __init__(self, dim: int, dropout: float):
        super().__init__()
        self.glu = nn.Linear(dim, 2 * dim)
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, skip):
        return self.norm(skip + F.glu(self.glu(self.dropout(x)), dim=-1))


class InterpretableMultiHead(nn.Module):
    """
    Interpretable multi-head attention (Lim et al. 2019): each head has its own queries
    and keys, the values are shared, and the heads are averaged so that one attention
    matrix tells which hours of the past mattered.

    Dropout acts on the weights while training; the weights returned are those before
    dropout, averaged over the heads.

    Args:
        n_head: number of heads
        d_model: width
        dropout: probability in training mode
    """

    def __init__(self, n_head: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        self.n_head, self.d_k = n_head, d_model // n_head
        self.dropout = dropout
        self.q_proj = nn.Linear(d_model, n_head * self.d_k)
        self.k_proj = nn.Linear(d_model, n_head * self.d_k)
        self.v_proj = nn.Linear(d_model, self.d_k)
        self.out = nn.Linear(self.d_k, d_model, bias=False)

    def train(self, mode: bool = True):
        super().train(mode)
        if not mode:
            # forecasts have to be reproducible
            self.dropout = 0.0
        return self

    def forward(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """x [B, T, d_model], an hour sees itself and the hours before it."""
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.n_head, self.d_k).transpose(1, 2)
        v = self.v_proj(x).unsqueeze(1)

        logits = q @ k.transpose(-1, -2) / self.d_k ** 0.5
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        prob = logits.masked_fill(future, float("-inf")).softmax(-1)

        heads = F.dropout(prob, self.dropout, self.training) @ v
        return self.out(heads.mean(1)), prob.mean(1)


class LoadForecaster(nn.Module):
    def __init__(self, n_features: int, d_model: int = 32, n_head: int = 4, quantiles=(0.1, 0.5, 0.9), dropout=0.1):
        super().__init__()
        self.inp = nn.Linear(n_features, d_model)
        self.lstm = nn.LSTM(d_model, d_model, batch_first=True)
        self.attn = InterpretableMultiHead(n_head, d_model, dropout)
        self.gate = GatedResidual(d_model, dropout)
        self.head = nn.Linear(d_model, len(quantiles))
        self.register_buffer("tau", torch.tensor(quantiles))

    def forward(self, x):
        h, _ = self.lstm(self.inp(x))
        a, _ = self.attn(h)
        return self.head(self.gate(a, h))

    def loss(self, pred, y):
        d = y.unsqueeze(-1) - pred
        return torch.maximum(self.tau * d, (self.tau - 1) * d).mean()


def fit(model: LoadForecaster, batches, epochs: int = 1):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        model.train()
        for x, y in batches:
            opt.zero_grad()
            model.loss(model(x), y).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            LOGGER.info("epoch %d val %.4f", epoch, sum(model.loss(model(x), y).item() for x, y in batches))
