"""Day-ahead load forecast of a distribution grid.

Decoder queries, one per quarter hour of tomorrow, attend to the encoded
measurements of the last week.  The attention dropout is for training only; the
forecast that goes to the dispatcher is taken in eval mode and is deterministic.
"""
import torch
import torch.nn as nn
from torch.nn.functional import scaled_dot_product_attention


class HistoryAttention(nn.Module):
    def __init__(self, d_model: int, n_head: int, dropout: float):
        super().__init__()
        self.n_head = n_head
        self.dropout = dropout
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.resid = nn.Dropout(dropout)

    def forward(self, query, history, usable=None):
        # usable: [B, S] True for measurements that passed plausibility checks
        def split(t):
            return t.unflatten(-1, (self.n_head, -1)).transpose(1, 2)

        q, k, v = split(self.wq(query)), split(self.wk(history)), split(self.wv(history))
        mask = None if usable is None else usable[:, None, None, :]
        y = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout)
        return self.resid(self.wo(y.transpose(1, 2).flatten(2)))


class LoadForecaster(nn.Module):
    def __init__(self, features: int = 6, d_model: int = 32, n_head: int = 4, slots: int = 96, dropout: float = 0.2):
        super().__init__()
        self.encode = nn.GRU(features, d_model, batch_first=True)
        self.slots = nn.Parameter(torch.randn(slots, d_model) * d_model ** -0.5)
        self.attend = HistoryAttention(d_model, n_head, dropout)
        self.norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, 1)

    def forward(self, history: torch.Tensor, usable: torch.Tensor | None = None) -> torch.Tensor:
        h, _ = self.encode(history)
        q = self.slots.expand(history.size(0), -1, -1)
        return self.out(self.norm(q + self.attend(q, h, usable))).squeeze(-1)
