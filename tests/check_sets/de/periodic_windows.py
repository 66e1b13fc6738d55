import torch
from torch import nn


class PeriodicWindowBlock(nn.Module):
    """Windowed block for 2-D turbulence fields on a doubly periodic box.

    x: (B, C, H, W), H and W divisible by win. With shift > 0 the field is rolled
    before cutting; as the box is periodic, cells which meet across the edge really
    are neighbours and nothing has to be masked.
    """

    def __init__(self, c, heads=4, win=4, shift=0):
        super().__init__()
        self.h, self.d, self.win, self.shift = heads, c // heads, win, shift
        self.norm = nn.LayerNorm(c)
        self.qkv = nn.Linear(c, 3 * c)
        self.proj = nn.Linear(c, c)
        self.table = nn.Parameter(torch.randn((2 * win - 1) ** 2, heads) * 0.02)
        g = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij")).flatten(1)
        rel = g[:, :, None] - g[:, None, :] + win - 1
        self.register_buffer("idx", rel[0] * (2 * win - 1) + rel[1])

    def forward(self, x):
        B, C, H, W = x.shape
        w, n = self.win, self.win ** 2
        y = torch.roll(x, (-self.shift, -self.shift), dims=(2, 3)) if self.shift else x
        y = y.view(B, C, H // w, w, W // w, w).permute(0, 2, 4, 3, 5, 1).reshape(-1, n, C)
        q, k, v = self.qkv(self.norm(y)).view(-1, n, 3, self.h, self.d).permute(2, 0, 3, 1, 4)
        a = (q * self.d ** -0.5) @ k.transpose(-2, -1)
        a = a + self.table[self.idx].permute(2, 0, 1)
        z = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, C)
        z = self.proj(z)
        z = z.view(B, H // w, W // w, w, w, C).permute(0, 5, 1, 3, 2, 4).reshape(B, C, H, W)
        if self.shift:
            z = torch.roll(z, (self.shift, self.shift), dims=(2, 3))
        return x + z
