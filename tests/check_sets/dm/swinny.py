"""swinny: shifted window attention (Swin) without any einops, for learning.

x (B, Hh, Ww, C), Hh and Ww divisible by the window ws.  If shift > 0 the image
is rolled by -shift in both directions, cut in ws x ws windows, attention is
done inside every window, and everything is rolled back.  After rolling, pixels that
come from opposite borders of the image meet in one window; they must not
see each other, only pixels of the same region may.

Scores: q.k / sqrt(C/heads) + relative position bias table[(dy, dx)], softmax
over the ws*ws pixels of the window.  Output (B, Hh, Ww, C).
"""
import torch
import torch.nn as nn


def to_windows(t, ws):
    B, H, W, C = t.shape
    t = t.view(B, H // ws, ws, W // ws, ws, C)
    return t.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def from_windows(w, ws, H, W):
    C = w.shape[-1]
    w = w.view(-1, H // ws, W // ws, ws, ws, C)
    return w.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class ShiftedWindow(nn.Module):
    def __init__(self, C, heads, ws=4, shift=0):
        super().__init__()
        self.heads, self.ws, self.shift = heads, ws, shift
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        self.table = nn.Parameter(torch.randn((2 * ws - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + ws - 1
        self.register_buffer("idx", rel[0] * (2 * ws - 1) + rel[1])

    def regions(self, H, W, device):
        lab = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -self.ws), slice(-self.ws, -self.shift), slice(-self.shift, None))
        n = 0
        for a in cuts:
            for b in cuts:
                lab[:, a, b] = n
                n += 1
        lab = to_windows(lab, self.ws)[..., 0]
        return lab[:, None, :] == lab[:, :, None]          # nW, N, N

    def forward(self, x):
        B, H, W, C = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        w = to_windows(x, self.ws)
        G, N, _ = w.shape
        q, k, v = self.qkv(w).view(G, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = (q * (C // self.heads) ** -0.5) @ k.transpose(-1, -2)
        s = s + self.table[self.idx].permute(2, 0, 1)
        if self.shift:
            same = self.regions(H, W, x.device).repeat(B, 1, 1)
            s = s.masked_fill(~same.unsqueeze(1), float("-inf"))
        o = (s.softmax(-1) @ v).transpose(1, 2).reshape(G, N, C)
        x = from_windows(self.proj(o), self.ws, H, W)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        return x
