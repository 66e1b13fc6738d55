# Basketball line-up value model.
# One possession = the ten players on court; every player looks at the nine others (and himself).
# Possessions are independent samples of a batch.
import torch
import torch.nn as nn


class CourtBlock(nn.Module):
    def __init__(self, dim=32, heads=4, dropout=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, dropout=dropout)
        self.norm1 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.norm2 = nn.LayerNorm(dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, players):
        h = self.norm1(players)
        a, _ = self.attn(h, h, h, need_weights=False)
        players = players + self.drop(a)
        return players + self.drop(self.ff(self.norm2(players)))


class LineupValue(nn.Module):
    """Expected points of a possession.

    box:   (possessions, 10, stats) season box-score features per player
    side:  (possessions, 10) long, 0 = offence, 1 = defence
    out:   (possessions,)
    """

    def __init__(self, stats=18, dim=32, heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.inp = nn.Linear(stats, dim)
        self.side = nn.Embedding(2, dim)
        self.blocks = nn.ModuleList([CourtBlock(dim, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, box, side):
        x = self.inp(box) + self.side(side)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x).mean(dim=1)
        return self.out(x).squeeze(-1)


if __name__ == "__main__":
    model = LineupValue()
    side = torch.tensor([0] * 5 + [1] * 5).expand(8, -1)
    print(model(torch.randn(8, 10, 18), side).shape)
