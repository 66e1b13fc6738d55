import torch
from torch import nn


class ZonalWindows(nn.Module):
    """Window attention on a latitude/longitude grid.

    field: (B, C, lat, lon), lat and lon divisible by the window.  The windows
    may be shifted along longitude; as the grid closes on itself there, the
    shifted windows are all genuine neighbourhoods.
    """

    def __init__(self, channels=12, heads=3, window=(2, 4), shift=0):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        wa, wo = window
        self.mix_in = nn.Conv2d(channels, 3 * channels, 1)
        self.mix_out = nn.Conv2d(channels, channels, 1)
        self.table = nn.Parameter(torch.randn((2 * wa - 1) * (2 * wo - 1), heads) * 0.5)
        la, lo = torch.meshgrid(torch.arange(wa), torch.arange(wo), indexing="ij")
        la, lo = la.flatten(), lo.flatten()
        da = la[:, None] - la[None, :] + wa - 1
        do = lo[:, None] - lo[None, :] + wo - 1
        self.register_buffer("index", da * (2 * wo - 1) + do, persistent=False)

    def forward(self, field):
        B, C, A, O = field.shape
        wa, wo = self.window
        x = torch.roll(field, -self.shift, dims=3)
        x = self.mix_in(x)
        x = x.view(B, 3, self.heads, C // self.heads, A // wa, wa, O // wo, wo)
        # -> 3, B, window row, window column, head, cell, channel
        x = x.permute(1, 0, 4, 6, 2, 5, 7, 3).flatten(5, 6)
        q, k, v = x
        s = q @ k.transpose(-1, -2) / (C // self.heads) ** 0.5
        s = s + self.table[self.index].permute(2, 0, 1)
        y = s.softmax(dim=-1) @ v
        y = y.unflatten(-2, (wa, wo)).permute(0, 3, 6, 1, 4, 2, 5).reshape(B, C, A, O)
        return torch.roll(self.mix_out(y), self.shift, dims=3)
