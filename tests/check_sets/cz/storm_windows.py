import torch
from torch import nn


def to_cells(x, s):
    B, H, W, C = x.shape
    x = x.reshape(B, H // s, s, W // s, s, C).transpose(2, 3)
    return x.reshape(B, (H // s) * (W // s), s * s, C)


def from_cells(c, s, H, W):
    B, C = c.size(0), c.size(-1)
    c = c.reshape(B, H // s, W // s, s, s, C).transpose(2, 3)
    return c.reshape(B, H, W, C)


class StormCell(nn.Module):
    """Shifted-window mixing on a global weather grid.

    x: (B, C, lat, lon), both divisible by `side`. Longitude is a circle, so windows that
    cross the date line are ordinary windows; latitude is not, so a window that joins the
    two poles is kept apart in its two halves.
    """

    def __init__(self, chans=16, groups=2, side=4, shift=2):
        super().__init__()
        self.groups, self.side, self.shift = groups, side, shift
        self.fused = nn.Linear(chans, 3 * chans)
        self.back = nn.Linear(chans, chans)
        self.offsets = nn.Parameter(torch.randn((2 * side - 1) ** 2, groups) * 0.1)
        yx = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        d = yx[:, :, None] - yx[:, None, :] + side - 1
        self.register_buffer("look", d[0] * (2 * side - 1) + d[1], persistent=False)

    def _apart(self, H, W, dev):
        band = torch.zeros(1, H, W, 1, device=dev)
        if self.shift:
            band[:, H - self.shift:] = 1
        band = to_cells(band, self.side)[0, :, :, 0]
        return band[:, :, None] != band[:, None, :]

    def forward(self, x):
        B, C, H, W = x.shape
        g, s = self.groups, self.side
        z = torch.roll(x.permute(0, 2, 3, 1), (-self.shift, -self.shift), (1, 2))
        z = to_cells(z, s)
        a, b, c = self.fused(z).reshape(*z.shape[:3], 3, g, C // g).permute(3, 0, 1, 4, 2, 5)
        e = a @ b.mT * (C // g) ** -0.5
        e = e + self.offsets[self.look].permute(2, 0, 1)
        e = e.masked_fill(self._apart(H, W, x.device)[None, :, None], float("-inf"))
        y = (e.softmax(-1) @ c).transpose(2, 3).flatten(3)
        y = from_cells(self.back(y), s, H, W)
        return torch.roll(y, (self.shift, self.shift), (1, 2)).permute(0, 3, 1, 2)
