"""Connect Four policy/value net: a small residual conv tower (AlphaZero style).

board (B, 2, 6, 7) float, plane 0 my discs, plane 1 the other's
legal (B, 7) bool, True = column is not full (at least one)

Returns the policy (B, 7), softmax over the legal columns, and the value (B,) in (-1, 1).
"""
import torch
import torch.nn as nn


class Res(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1)
        self.b = nn.Conv2d(c, c, 3, padding=1)
        self.na, self.nb = nn.GroupNorm(4, c), nn.GroupNorm(4, c)

    def forward(self, x):
        y = torch.relu(self.na(self.a(x)))
        return torch.relu(x + self.nb(self.b(y)))


class ConnectNet(nn.Module):
    def __init__(self, c=32, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(2, c, 3, padding=1)
        self.tower = nn.Sequential(*[Res(c) for _ in range(depth)])
        self.pol = nn.Sequential(nn.Conv2d(c, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 42, 7))
        self.val = nn.Sequential(nn.Conv2d(c, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 42, 1))

    def forward(self, board, legal):
        x = self.tower(torch.relu(self.stem(board)))
        logits = self.pol(x).masked_fill(~legal, float("-inf"))
        return logits.softmax(dim=1), torch.tanh(self.val(x)).squeeze(1)
