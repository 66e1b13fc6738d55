"""Dialogue policy over the turns of a conversation (TED-style transformer)."""
import math
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class TurnAttention(nn.Module):
    """Uni-directional attention: a turn sees itself and the turns before it."""

    def __init__(self, units: int, heads: int, max_turns: int):
        super().__init__()
        self.heads = heads
        self.depth = units // heads
        self.q_layer = nn.Linear(units, units)
        self.k_layer = nn.Linear(units, units)
        self.v_layer = nn.Linear(units, units)
        self.merge = nn.Linear(units, units)
        allowed = torch.tril(torch.ones(max_turns, max_turns))
        self.register_buffer("blocked", allowed == 0, persistent=False)

    def _heads(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.heads, self.depth).transpose(1, 2)

    def forward(self, x):
        t = x.shape[1]
        q = self._heads(self.q_layer(x))
        k = self._heads(self.k_layer(x))
        v = self._heads(self.k_layer(x))
        logits = q @ k.mT / math.sqrt(self.depth)
        logits = logits + self.blocked[:t, :t]
        w = F.softmax(logits, dim=-1)
        y = (w @ v).transpose(1, 2).flatten(2)
        return self.merge(y)


class PolicyLayer(nn.Module):
    def __init__(self, units, heads, max_turns, drop):
        super().__init__()
        self.attn = TurnAttention(units, heads, max_turns)
        self.norm_a = nn.LayerNorm(units)
        self.norm_f = nn.LayerNorm(units)
        self.ffn = nn.Sequential(nn.Linear(units, 4 * units), nn.GELU(), nn.Dropout(drop),
                                 nn.Linear(4 * units, units), nn.Dropout(drop))

    def forward(self, x):
        x = x + self.attn(self.norm_a(x))
        return x + self.ffn(self.norm_f(x))


class DialoguePolicy(nn.Module):
    """features [B, turns, F] -> scores of the actions after every turn [B, turns, A]"""

    def __init__(self, n_features: int = 18, n_actions: int = 7, units: int = 24, heads: int = 2,
                 layers: int = 1, max_turns: int = 12, drop: float = 0.1,
                 temperature: Optional[float] = None):
        super().__init__()
        self.inp = nn.Linear(n_features, units)
        self.turn = nn.Parameter(torch.randn(max_turns, units) * 0.02)
        self.layers = nn.ModuleList(PolicyLayer(units, heads, max_turns, drop) for _ in range(layers))
        self.actions = nn.Parameter(torch.randn(n_actions, units) * units ** -0.5)
        self.temperature = temperature or 1.0

    def forward(self, features):
        x = self.inp(features) + self.turn[: features.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.normalize(x, dim=-1) @ F.normalize(self.actions, dim=-1).t() / self.temperature
