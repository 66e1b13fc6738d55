"""Joint motion of the players on a pitch: every player looks at the others."""
import torch
from torch import nn


class PlayerExchange(nn.Module):
    """(games, players, feat) -> (games, players, feat). Equivariant in the players,
    games are independent of each other."""

    def __init__(self, feat: int, heads: int = 4):
        super().__init__()
        self.pre = nn.LayerNorm(feat)
        self.talk = nn.MultiheadAttention(feat, heads, dropout=0.0)
        self.post = nn.Sequential(nn.LayerNorm(feat), nn.Linear(feat, 2 * feat), nn.SiLU(),
                                  nn.Linear(2 * feat, feat))

    def forward(self, players: torch.Tensor) -> torch.Tensor:
        z = self.pre(players)
        told, _ = self.talk(z, z, z, need_weights=False)
        players = players + told
        return players + self.post(players)


class PitchModel(nn.Module):
    def __init__(self, past: int = 10, future: int = 5, feat: int = 32, rounds: int = 2):
        super().__init__()
        self.future = future
        self.history = nn.GRU(2, feat, batch_first=True)
        self.rounds = nn.ModuleList([PlayerExchange(feat) for _ in range(rounds)])
        self.out = nn.Linear(feat, 2 * future)

    def forward(self, xy: torch.Tensor) -> torch.Tensor:
        """xy (games, players, past, 2) metres -> offsets (games, players, future, 2)"""
        g, p, t, _ = xy.shape
        _, h = self.history((xy - xy[:, :, -1:]).reshape(g * p, t, 2))
        h = h[-1].view(g, p, -1)
        for r in self.rounds:
            h = r(h)
        return self.out(h).view(g, p, self.future, 2)
