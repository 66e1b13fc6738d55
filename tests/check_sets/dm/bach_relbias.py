"""bach_relbias: chorale transformer with a learned bias per time distance.

voices (B, T, D) -> (B, T, D)

Score of the note at time i (who looks) for the note at time j (what is looked at):

    q_i . k_j / sqrt(d)  +  table[h, (i - j) + T_max - 1]

so table[h, T_max - 1] is for the note itself, the entries above that one are for the PAST (j
before i), the entries below for the future.  The trained tables come from the
composer's release and rely on this.  No mask, chorales are harmonised as a
whole.  Softmax over j.
"""
import torch
import torch.nn as nn


class ChoraleAttention(nn.Module):
    def __init__(self, D, heads, T_max):
        super().__init__()
        self.heads, self.d, self.T_max = heads, D // heads, T_max
        self.q = nn.Linear(D, D)
        self.k = nn.Linear(D, D)
        self.v = nn.Linear(D, D)
        self.o = nn.Linear(D, D)
        self.table = nn.Parameter(torch.randn(heads, 2 * T_max - 1))

    def split(self, z):
        return z.unflatten(-1, (self.heads, self.d)).transpose(-2, -3)

    def forward(self, voices):
        T = voices.shape[1]
        q, k, v = self.split(self.q(voices)), self.split(self.k(voices)), self.split(self.v(voices))
        t = torch.arange(T, device=voices.device)
        step = t.unsqueeze(0) - t.unsqueeze(1)
        bias = self.table[:, step + self.T_max - 1]
        w = torch.softmax(q @ k.mT / self.d**0.5 + bias, dim=-1)
        return self.o((w @ v).transpose(1, 2).flatten(2))
