import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, w):
    """(B, H, W, C) -> (B * H/w * W/w, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(t, w, H, W):
    C = t.shape[-1]
    x = t.view(-1, H // w, W // w, w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class ShiftedStage(nn.Module):
    """One shifted-window layer on feature maps (B, H, W, C); H and W are multiples of `w`."""

    def __init__(self, C, heads=4, w=4, shift=2):
        super().__init__()
        self.h, self.w, self.shift = heads, w, shift
        self.norm = nn.LayerNorm(C)
        self.qkv = nn.Linear(C, 3 * C)
        self.out = nn.Linear(C, C)
        self.table = nn.Parameter(0.02 * torch.randn((2 * w - 1) ** 2, heads))
        yx = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + w - 1
        self.register_buffer("idx", rel[0] * (2 * w - 1) + rel[1], persistent=False)

    def _regions(self, H, W, device):
        lab = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -self.w), slice(-self.w, -self.shift), slice(-self.shift, None))
        n = 0
        for a in cuts:
            for b in cuts:
                lab[:, a, b] = n
                n += 1
        lab = to_windows(lab, self.w).squeeze(-1)
        return lab[:, None, :] == lab[:, :, None]

    def forward(self, x):
        B, H, W, C = x.shape
        z = self.norm(x)
        if self.shift:
            z = torch.roll(z, (-self.shift, -self.shift), (1, 2))
        t = to_windows(z, self.w)
        n, L, _ = t.shape
        q, k, v = self.qkv(t).view(n, L, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        bias = self.table[self.idx].permute(2, 0, 1).unsqueeze(0)
        if self.shift:
            same = self._regions(H, W, x.device).repeat(B, 1, 1).unsqueeze(1)
            bias = bias.expand(n, -1, -1, -1).masked_fill(~same, float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        y = self.out(y.transpose(1, 2).reshape(n, L, C))
        y = from_windows(y, self.w, H, W)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + y
