import torch
import torch.nn as nn


class HighwayEncoder(nn.Module):
    """x (B, T, dim): two highway layers, then a bidirectional GRU -> (B, T, 2 * hidden)"""

    def __init__(self, dim=8, hidden=6):
        super().__init__()
        self.transform = nn.ModuleList(nn.Linear(dim, dim) for _ in range(2))
        self.carry = nn.ModuleList(nn.Linear(dim, dim) for _ in range(2))
        self.gru = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)

    def forward(self, x):
        for h, t in zip(self.transform, self.carry):
            g = torch.sigmoid(t(x))
            x = g * torch.relu(h(x)) + (1 - g) * x
        return self.gru(x)[0]
