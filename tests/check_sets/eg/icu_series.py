"""Mortality prediction from irregular ICU time series."""
import torch
import torch.nn as nn


class ICUEncoder(nn.Module):
    """
    values  (B, T, n_var)  vital signs, zeros where the stay has already ended
    times   (B, T)         hours since admission
    lengths (B,)           number of measured steps of every stay, 1..T
    Returns the risk (B,), a sigmoid. Steps behind the end of a stay must have no influence.
    """

    def __init__(self, n_var=6, d_model=32, nhead=4, dropout=0.1):
        super().__init__()
        self.inp = nn.Linear(n_var, d_model)
        self.time = nn.Sequential(nn.Linear(1, d_model), nn.Tanh(), nn.Linear(d_model, d_model))
        self.attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.norm1 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.ReLU(), nn.Linear(2 * d_model, d_model))
        self.norm2 = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, 1)

    def forward(self, values, times, lengths):
        h = self.inp(values) + self.time(times.unsqueeze(-1))
        steps = torch.arange(values.size(1), device=values.device)
        measured = steps.unsqueeze(0) < lengths.unsqueeze(1)
        a, _ = self.attn(h, h, h, key_padding_mask=measured, need_weights=False)
        h = self.norm1(h + a)
        h = self.norm2(h + self.ff(h))
        w = measured.unsqueeze(-1).to(h.dtype)
        pooled = (h * w).sum(1) / w.sum(1)
        return torch.sigmoid(self.out(pooled)).squeeze(-1)
