"""Kaggle baseline: sensor windows -> label.  Heads are folded into the batch so plain bmm is enough.

Self-attention per head with 1/sqrt(head width), no mask (all windows have full length);
the heads are put next to each other again for the output projection.
"""
import torch
import torch.nn as nn


class FoldedMHSA(nn.Module):
    def __init__(self, width, nheads):
        super().__init__()
        assert width % nheads == 0
        self.nheads = nheads
        self.hw = width // nheads
        self.lin_q = nn.Linear(width, width)
        self.lin_k = nn.Linear(width, width)
        self.lin_v = nn.Linear(width, width)
        self.lin_o = nn.Linear(width, width)

    def fold(self, t):
        n, l, _ = t.size()
        t = t.view(n, l, self.nheads, self.hw)
        return t.permute(0, 2, 1, 3).reshape(n * self.nheads, l, self.hw)

    def unfold(self, t, n):
        l = t.size(1)
        t = t.view(self.nheads, n, l, self.hw)
        return t.permute(1, 2, 0, 3).reshape(n, l, self.nheads * self.hw)

    def forward(self, x):
        """x: (N, L, width) -> (N, L, width); samples do not see each other"""
        q, k, v = self.fold(self.lin_q(x)), self.fold(self.lin_k(x)), self.fold(self.lin_v(x))
        att = torch.bmm(q, k.transpose(1, 2)) / self.hw ** 0.5
        att = torch.softmax(att, dim=2)
        return self.lin_o(self.unfold(torch.bmm(att, v), x.size(0)))


class SensorNet(nn.Module):
    def __init__(self, channels, width=32, nheads=4, classes=6):
        super().__init__()
        self.up = nn.Linear(channels, width)
        self.att = FoldedMHSA(width, nheads)
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, classes)

    def forward(self, x):
        """x: (N, L, channels) -> logits (N, classes)"""
        h = self.up(x)
        h = self.norm(h + self.att(h))
        return self.fc(h.mean(dim=1))
