"""Shifted window self-attention on a feature map (the SW-MSA half of a Swin pair).

in / out  (B, H, W, C), channels last; H and W are multiples of `win`.
The map is rolled by -shift in both directions, cut into win x win windows, each window attends
within itself, and the windows are put back and rolled by +shift.  After the roll some windows
hold pixels that come from opposite borders of the image; such pairs must not see each other,
so pixels are labelled by the 3 x 3 slabs of the rolled map and only equal labels may attend.
A bias table with (2*win-1)^2 entries per head is added to the scaled scores, indexed by the
displacement (query minus key) of the two pixels in the window.
"""
import torch
import torch.nn as nn


def cut(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, -1, w * w, c)      # b, nW, N, c


def paste(x, w, h, wd):
    b, _, _, c = x.shape
    x = x.view(b, h // w, wd // w, w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, wd, c)


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim, heads, win, shift):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.hd = dim // heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * win - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij"))
        yx = yx.flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + win - 1
        self.register_buffer("index", rel[0] * (2 * win - 1) + rel[1], persistent=False)

    def labels(self, h, w, device):
        lab = torch.zeros(1, h, w, 1, device=device)
        slabs = (slice(0, -self.win), slice(-self.win, -self.shift), slice(-self.shift, None))
        n = 0
        for a in slabs:
            for b in slabs:
                lab[:, a, b] = n
                n += 1
        return cut(lab, self.win)[0, :, :, 0]                          # nW, N

    def forward(self, x):
        B, H, W, C = x.shape
        s = self.shift
        if s:
            x = torch.roll(x, (-s, -s), (1, 2))
        z = cut(x, self.win)
        nW, N = z.shape[1:3]
        q, k, v = self.to_qkv(z).view(B, nW, N, 3, self.heads, self.hd).permute(3, 0, 1, 4, 2, 5)
        dots = torch.einsum("bwhid,bwhjd->bwhij", q, k) / self.hd ** 0.5
        dots = dots + self.table[self.index].permute(2, 0, 1)
        if s:
            lab = self.labels(H, W, x.device)
            alien = lab[:, :, None] != lab[:, None, :]
            dots = dots.masked_fill(alien[None, :, None], float("-inf"))
        y = torch.einsum("bwhij,bwhjd->bwihd", dots.softmax(-1), v).reshape(B, nW, N, C)
        y = paste(self.to_out(y), self.win, H, W)
        return torch.roll(y, (s, s), (1, 2)) if s else y
