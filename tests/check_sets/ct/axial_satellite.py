"""Axial attention over satellite tiles, channels first."""
import torch
import torch.nn as nn


class AxialAttention2d(nn.Module):
    """
    x: (B, C, H, W) -> (B, C, H, W)

    A pixel attends along its column (all rows, same x) and along its row (all
    columns, same y); both results are summed, projected and added to the
    input times a learned gamma (starts at 0.5). 1x1 convolutions make q, k, v,
    shared by the two directions on purpose to save weights.
    """

    def __init__(self, channels=16, groups=2, key_width=4):
        super().__init__()
        self.g, self.kw, self.vw = groups, key_width, channels // groups
        self.q = nn.Conv2d(channels, groups * key_width, 1, bias=False)
        self.k = nn.Conv2d(channels, groups * key_width, 1, bias=False)
        self.v = nn.Conv2d(channels, channels, 1)
        self.mix = nn.Conv2d(channels, channels, 1)
        self.gamma = nn.Parameter(torch.full((1,), 0.5))

    def forward(self, x):
        B, C, H, W = x.shape
        q = self.q(x).view(B, self.g, self.kw, H, W) * self.kw ** -0.5
        k = self.k(x).view(B, self.g, self.kw, H, W)
        v = self.v(x).view(B, self.g, self.vw, H, W)

        # columns: u is the row looked at, stored BEFORE the asking row y
        col = torch.einsum("bgcyx,bgcux->bgxuy", q, k).softmax(dim=3)
        down = torch.einsum("bgxuy,bgcux->bgcyx", col, v)

        # rows: u is the column looked at, stored last
        row = torch.einsum("bgcyx,bgcyu->bgyxu", q, k).softmax(dim=4)
        side = torch.einsum("bgyxu,bgcyu->bgcyx", row, v)

        y = self.mix((down + side).reshape(B, C, H, W))
        return x + self.gamma * y
