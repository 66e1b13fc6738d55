"""Self-attention of a decoder during beam search, with a cache that follows the beams.

    att = BeamSelfAttention(dim, heads)
    att.reset()
    y = att(x)              x (R, dim): newest token of each of the R hypotheses -> y (R, dim)
    att.reorder(parents)    parents (R,) long: new hypothesis r continues old hypothesis parents[r]

After any sequence of calls y[r] is the attention of the newest token over itself and all earlier
tokens of the hypothesis that r continues.
"""
import torch
from torch import nn


class BeamSelfAttention(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.reset()

    def reset(self):
        self.keys, self.values = [], []

    def reorder(self, parents):
        self.keys = [k.index_select(0, parents) for k in self.keys]

    def forward(self, x):
        R, D = x.shape
        split = lambda t: t.view(R, self.heads, D // self.heads)
        self.keys.append(split(self.k(x)))
        self.values.append(split(self.v(x)))
        K = torch.stack(self.keys, dim=2)                   # R, heads, t, d
        V = torch.stack(self.values, dim=2)
        z = torch.einsum("rhd,rhtd->rht", split(self.q(x)), K) * (D // self.heads) ** -0.5
        y = torch.einsum("rht,rhtd->rhd", z.softmax(dim=-1), V)
        return self.o(y.reshape(R, D))
