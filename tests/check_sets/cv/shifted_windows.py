import torch
from torch import nn


def fenster(x, w):
    """(B, H, W, C) -> (B, nH*nW, w*w, C)"""
    B, H, W, C = x.shape
    return x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B, -1, w * w, C)


def zurueck(x, w, H, W):
    B, C = x.shape[0], x.shape[-1]
    return x.view(B, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)


class SchiebeFenster(nn.Module):
    """Window attention with cyclic shift (Swin), for weather radar images.

    x: (B, H, W, C) with H and W multiples of `w`; output of the same shape, no residual.
    Windows are moved by `shift` rows and columns; pixels which meet only by wrapping round
    the border do not see each other. A learned bias per head for each relative displacement.
    """

    def __init__(self, C=24, heads=3, w=4, shift=2):
        super().__init__()
        self.heads, self.w, self.s = heads, w, shift
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        self.tafel = nn.Parameter(torch.randn(2 * w - 1, 2 * w - 1, heads) * 0.2)
        yx = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        self.register_buffer("rel", yx[:, :, None] - yx[:, None, :] + w - 1)      # 2, w*w, w*w

    def gebiete(self, H, W):
        """bool (nW, w*w, w*w): same region of the unshifted picture."""
        def lab(n):
            t = torch.zeros(n, dtype=torch.long)
            t[n - self.w:n - self.s] = 1
            t[n - self.s:] = 2
            return t
        ids = lab(H)[:, None] * 3 + lab(W)[None]
        f = fenster(ids[None, :, :, None], self.w)[0, :, :, 0]
        return f[:, :, None] == f[:, None, :]

    def forward(self, x):
        B, H, W, C = x.shape
        if self.s:
            x = x.roll((-self.s, -self.s), (1, 2))
        f = self.qkv(fenster(x, self.w))
        q, k, v = f.unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)  # each B nW h ww d
        a = q @ k.mT / q.shape[-1] ** 0.5 + self.tafel[self.rel[0], self.rel[1]].permute(2, 0, 1)
        if self.s:
            a = a.masked_fill(~self.gebiete(H, W)[None, :, None], -torch.inf)
        y = (a.softmax(-1) @ v).transpose(2, 3).flatten(3)
        y = zurueck(self.proj(y), self.w, H, W)
        return y.roll((self.s, self.s), (1, 2)) if self.s else y
