"""minGRU from "Were RNNs All We Needed?" (Feng et al. 2024), character model.

The gate and the candidate depend on the input only, so training could use a
parallel scan; here the recurrence h_t = (1 - z_t) h_{t-1} + z_t g(x_t) is simply
run in a loop, which is fine for short lines.  A causal depthwise convolution of
width 3 mixes neighbours in front of the cell, as in the authors' code.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def g(x):
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


class MinGRU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.to_z = nn.Linear(dim, hidden)
        self.to_h = nn.Linear(dim, hidden)
        self.to_out = nn.Linear(hidden, dim)

    def forward(self, x, h=None):
        z, cand = torch.sigmoid(self.to_z(x)), g(self.to_h(x))
        if h is None:
            h = torch.zeros_like(z[:, 0])
        states = []
        for t in range(x.size(1)):
            h = (1 - z[:, t]) * h + z[:, t] * cand[:, t]
            states.append(h)
        return self.to_out(torch.stack(states, dim=1)), h


class MinGRUBlock(nn.Module):
    def __init__(self, dim=32, expansion=2, kernel=3):
        super().__init__()
        self.kernel = kernel
        self.conv = nn.Conv1d(dim, dim, kernel, groups=dim)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.rnn = MinGRU(dim, dim * expansion)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.conv(F.pad(x.transpose(1, 2), (self.kernel - 1, 0))).transpose(1, 2)
        x = x + self.rnn(self.norm1(x))[0]
        return x + self.mlp(self.norm2(x))


class MinGRULM(nn.Module):
    def __init__(self, vocab=64, dim=32, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(*[MinGRUBlock(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        return self.head(self.blocks(self.emb(tokens)))
