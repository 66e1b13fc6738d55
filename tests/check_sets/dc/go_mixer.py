import torch
from torch import nn


class GoMixer(nn.Module):
    """Value network for 9x9 boards: points are mixed by a fixed learned matrix, then channels."""

    def __init__(self, planes=4, dim=32, depth=3, points=81):
        super().__init__()
        self.embed = nn.Linear(planes, dim)
        self.norm_t = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.norm_c = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.token = nn.ModuleList(
            nn.Sequential(nn.Linear(points, 64), nn.GELU(), nn.Linear(64, points)) for _ in range(depth)
        )
        self.chan = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)) for _ in range(depth)
        )
        self.value = nn.Linear(dim, 1)

    def forward(self, board):
        """board (B, planes, 9, 9) -> (B,) in (-1, 1)"""
        x = self.embed(board.flatten(2).transpose(1, 2))
        for nt, t, nc, c in zip(self.norm_t, self.token, self.norm_c, self.chan):
            x = x + t(nt(x).transpose(1, 2)).transpose(1, 2)
            x = x + c(nc(x))
        return torch.tanh(self.value(x.mean(1))).squeeze(-1)
