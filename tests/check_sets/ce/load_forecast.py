"""Day-ahead forecast of household electricity load with a small Transformer.

Input windows are [batch, 48, features] (half-hour steps: load, temperature,
sine/cosine of the hour); the model returns the next `horizon` loads for every
window. The windows of a batch come from different households and are independent.
"""
import math

import torch
import torch.nn as nn


class EncoderBlock(nn.Module):
    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, n_heads, dropout=dropout)
        self.linear1 = nn.Linear(d_model, 2 * d_model)
        self.linear2 = nn.Linear(2 * d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # x: (batch, steps, d_model)
        a, _ = self.attn(x, x, x, need_weights=False)
        x = self.norm1(x + self.dropout(a))
        f = self.linear2(torch.relu(self.linear1(x)))
        return self.norm2(x + self.dropout(f))


def sinusoids(length: int, d_model: int) -> torch.Tensor:
    pos = torch.arange(length).unsqueeze(1)
    div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.zeros(length, d_model)
    table[:, 0::2] = torch.sin(pos * div)
    table[:, 1::2] = torch.cos(pos * div)
    return table


class LoadForecaster(nn.Module):
    def __init__(self, n_features: int = 4, d_model: int = 32, n_heads: int = 4,
                 n_layers: int = 2, steps: int = 48, horizon: int = 12,
                 dropout: float = 0.1) -> None:
        super().__init__()
        self.inp = nn.Linear(n_features, d_model)
        self.register_buffer("pos", sinusoids(steps, d_model))
        self.blocks = nn.ModuleList(
            [EncoderBlock(d_model, n_heads, dropout) for _ in range(n_layers)])
        self.out = nn.Linear(steps * d_model, horizon)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        h = self.inp(window) + self.pos[: window.size(1)]
        for block in self.blocks:
            h = block(h)
        return self.out(h.flatten(1))


def train_epoch(model, loader, optimiser):
    model.train()
    total = 0.0
    for window, target in loader:
        loss = nn.functional.l1_loss(model(window), target)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        total += loss.item() * len(window)
    return total / len(loader.dataset)
