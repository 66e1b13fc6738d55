"""Drum pattern transformer: predicts the next 16th-note step of a groove.

One token = one step, a 9-bit hit vector (kick, snare, hats, toms, cymbals).
"""
import torch
from torch import nn

KIT = ["kick", "snare", "hh_closed", "hh_open", "tom_lo", "tom_mid", "tom_hi", "crash", "ride"]
STEPS_PER_BAR = 16


def to_steps(events, n_steps):
    """[(step, instrument name)] -> (n_steps, 9)"""
    roll = torch.zeros(n_steps, len(KIT))
    for step, name in events:
        roll[step, KIT.index(name)] = 1.0
    return roll


class GrooveAttention(nn.Module):
    """Causal attention with capped logits.

    logits are scaled by the inverse root of the head size and squashed to (-cap, cap),
    because the training on short loops diverged without it. Future steps get no weight.
    """

    def __init__(self, width=36, heads=3, cap=20.0):
        super().__init__()
        self.heads, self.cap = heads, cap
        self.scale = width ** -0.5
        self.lin_q = nn.Linear(width, width)
        self.lin_k = nn.Linear(width, width)
        self.lin_v = nn.Linear(width, width)
        self.lin_o = nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        split = lambda z: z.reshape(b, t, self.heads, w // self.heads).transpose(1, 2)
        q, k, v = split(self.lin_q(x)), split(self.lin_k(x)), split(self.lin_v(x))
        logits = torch.matmul(q, k.mT) * self.scale
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        logits = logits.masked_fill(future, float("-inf"))
        logits = self.cap * torch.tanh(logits / self.cap)
        out = torch.matmul(logits.softmax(-1), v)
        return self.lin_o(out.transpose(1, 2).reshape(b, t, w))


class DrumNet(nn.Module):
    def __init__(self, width=36, depth=2, max_bars=4):
        super().__init__()
        self.inp = nn.Linear(len(KIT), width)
        self.pos = nn.Parameter(torch.randn(max_bars * STEPS_PER_BAR, width) * 0.02)
        self.att = nn.ModuleList([GrooveAttention(width) for _ in range(depth)])
        self.nrm = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.out = nn.Linear(width, len(KIT))

    def forward(self, roll):
        x = self.inp(roll) + self.pos[: roll.shape[1]]
        for a, n in zip(self.att, self.nrm):
            x = x + a(n(x))
        return self.out(x)
