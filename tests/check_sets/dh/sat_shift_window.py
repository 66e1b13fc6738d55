import torch
from torch import nn


class ShiftedTiles(nn.Module):
    """Window attention over satellite feature maps, optionally on tiles shifted by `shift`.

    x: (B, H, W, C) with H and W multiples of `tile`. Pixels that the cyclic shift brings
    together from opposite borders do not see each other.
    """

    def __init__(self, dim=16, tile=4, heads=2, shift=2):
        super().__init__()
        assert 0 <= shift < tile
        self.tile, self.heads, self.shift = tile, heads, shift
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * tile - 1) ** 2, heads) * 0.02)
        g = torch.stack(torch.meshgrid(torch.arange(tile), torch.arange(tile), indexing="ij")).flatten(1)
        d = g[:, :, None] - g[:, None, :] + tile - 1
        self.register_buffer("where", d[0] * (2 * tile - 1) + d[1], persistent=False)

    def cut(self, x):
        b, h, w, c = x.shape
        t = self.tile
        return x.view(b, h // t, t, w // t, t, c).transpose(2, 3).reshape(b, -1, t * t, c)

    def glue(self, x, h, w):
        t = self.tile
        x = x.view(x.shape[0], h // t, w // t, t, t, -1).transpose(2, 3)
        return x.reshape(x.shape[0], h, w, -1)

    def zones(self, h, w, dev):
        def strip(n):
            z = torch.zeros(n, dtype=torch.long, device=dev)
            z[n - self.tile:] = 1
            z[n - self.shift:] = 2
            return z
        z = strip(h)[:, None] * 3 + strip(w)[None, :]
        z = self.cut(z.view(1, h, w, 1))[0, :, :, 0]
        return z[:, :, None] == z[:, None, :]

    def forward(self, x):
        b, h, w, c = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        win = self.cut(x)
        n, p = win.shape[1], win.shape[2]
        q, k, v = self.qkv(win).view(b, n, p, 3, self.heads, -1).permute(3, 0, 1, 4, 2, 5)
        a = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        a = a + self.table[self.where].permute(2, 0, 1)
        if self.shift:
            a = a.masked_fill(~self.zones(h, w, x.device)[None, :, None], float("-inf"))
        y = (a.softmax(-1) @ v).transpose(2, 3).reshape(b, n, p, c)
        y = self.glue(self.proj(y), h, w)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return y
