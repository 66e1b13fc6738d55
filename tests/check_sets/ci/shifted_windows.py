"""(Shifted) window attention on channels-first feature maps, after Swin."""
import torch
import torch.nn as nn


def to_windows(x, m):
    """(B, H, W, C) -> (B * nW, m * m, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // m, m, W // m, m, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, m * m, C)


def from_windows(w, m, H, W):
    C = w.shape[-1]
    x = w.view(-1, H // m, W // m, m, m, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class ShiftedWindowBlock(nn.Module):
    """x: (B, C, H, W), H and W multiples of ``window``. Same shape out."""

    def __init__(self, dim=16, heads=2, window=4, shift=2):
        super().__init__()
        self.heads, self.m, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        yx = yx.flatten(1)
        rel = (yx[:, :, None] - yx[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("rel_index", rel[..., 0] * (2 * window - 1) + rel[..., 1], persistent=False)

    def region_mask(self, H, W, device):
        """(nW, N, N) True where two pixels come from the same unshifted region."""
        region = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -self.m), slice(-self.m, -self.shift), slice(-self.shift, None))
        for i, hs in enumerate(cuts):
            for j, ws in enumerate(cuts):
                region[:, hs, ws] = 3 * i + j
        ids = to_windows(region, self.m).squeeze(-1)
        return ids[:, None, :] == ids[:, :, None]

    def forward(self, x):
        B, C, H, W = x.shape
        y = self.norm(x.permute(0, 2, 3, 1))
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
        win = to_windows(y, self.m)
        n_win, N = win.shape[0], win.shape[1]
        q, k, v = self.qkv(win).view(n_win, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.bias_table[self.rel_index].permute(2, 0, 1)
        if self.shift:
            same = self.region_mask(H, W, x.device)
            attn = attn.view(B, -1, self.heads, N, N)
            attn = attn.masked_fill(~same[None, :, None], float("-inf")).view(n_win, self.heads, N, N)
        out = (attn.softmax(-1) @ v).transpose(1, 2).reshape(n_win, N, C)
        y = from_windows(self.proj(out), self.m, H, W)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        return x + y.permute(0, 3, 1, 2)
