import torch
from torch import nn


class Line(nn.Module):
    def __init__(self, c, g, n_max):
        super().__init__()
        self.g = g
        self.lin = nn.Conv1d(c, 3 * c, 1)
        self.near = nn.Parameter(torch.zeros(g, 2 * n_max - 1).normal_())
        self.n_max = n_max

    def forward(self, x):
        # x: (L, c, n)
        L, c, n = x.shape
        q, k, v = self.lin(x).view(L, 3, self.g, c // self.g, n).unbind(1)
        i = torch.arange(n, device=x.device)
        pos = self.near[:, i[:, None] - i[None, :] + self.n_max - 1]
        s = torch.einsum("lgdi,lgdj->lgij", q, k) * (c // self.g) ** -0.5 + pos
        return torch.einsum("lgij,lgdj->lgdi", s.softmax(-1), v).reshape(L, c, n)


class TileAxial(nn.Module):
    """Map tile (B, C, H, W): every pixel reads its column, then its row."""

    def __init__(self, C=12, groups=3, biggest=16):
        super().__init__()
        self.ns, self.we = Line(C, groups, biggest), Line(C, groups, biggest)

    def forward(self, tile):
        B, C, H, W = tile.shape
        t = tile.permute(0, 3, 1, 2).reshape(B * W, C, H)
        t = self.ns(t).view(B, W, C, H).permute(0, 3, 2, 1)
        t = self.we(t.reshape(B * H, C, W)).view(B, H, C, W)
        return t.transpose(1, 2)
