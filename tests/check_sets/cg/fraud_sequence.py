"""Card-level fraud score from the last N transactions of each card.

Input is ``[cards, transactions, features]`` (all windows have the same length, taken
from the feature store).  Transactions of one card are compared with one another,
then the window is averaged and scored.
"""
import json
from pathlib import Path

import torch
from torch import nn

DEFAULTS = {"features": 10, "hidden": 32, "heads": 4, "blocks": 2, "dropout": 0.1}


class TransactionBlock(nn.Module):
    def __init__(self, hidden, heads, dropout):
        super().__init__()
        self.attn = nn.MultiheadAttention(hidden, heads, dropout=dropout)
        self.drop = nn.Dropout(dropout)
        self.ln_attn = nn.LayerNorm(hidden)
        self.ln_ff = nn.LayerNorm(hidden)
        self.ff = nn.Sequential(
            nn.Linear(hidden, 2 * hidden),
            nn.GELU(),
            nn.Linear(2 * hidden, hidden),
        )

    def forward(self, x):
        y = self.ln_attn(x)
        y, _ = self.attn(y, y, y, need_weights=False)
        x = x + self.drop(y)
        return x + self.drop(self.ff(self.ln_ff(x)))


class CardFraudModel(nn.Module):
    def __init__(self, **overrides):
        super().__init__()
        cfg = {**DEFAULTS, **overrides}
        self.cfg = cfg
        self.embed = nn.Linear(cfg["features"], cfg["hidden"])
        self.blocks = nn.ModuleList(
            TransactionBlock(cfg["hidden"], cfg["heads"], cfg["dropout"])
            for _ in range(cfg["blocks"])
        )
        self.norm = nn.LayerNorm(cfg["hidden"])
        self.score = nn.Linear(cfg["hidden"], 1)

    @classmethod
    def from_config(cls, path):
        return cls(**json.loads(Path(path).read_text()))

    def forward(self, transactions):
        x = self.embed(transactions)
        for block in self.blocks:
            x = block(x)
        return self.score(self.norm(x).mean(dim=1)).squeeze(-1)

    @torch.no_grad()
    def flag(self, transactions, threshold=0.9):
        self.eval()
        return self(transactions).sigmoid() > threshold
