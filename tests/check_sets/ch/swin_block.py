"""(Shifted) window attention block after Swin Transformer, channels-last."""
import torch
import torch.nn as nn


def to_windows(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def from_windows(win, w, h, wd):
    b = win.shape[0] // ((h // w) * (wd // w))
    x = win.view(b, h // w, wd // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, wd, -1)


class SwinBlock(nn.Module):
    """Window attention on feature maps x of shape (B, H, W, C).

    H and W must be multiples of `window`. With shift > 0 the map is rolled
    first, and tokens which were not neighbours before the roll must not see
    each other inside a window.
    """

    def __init__(self, dim, heads=4, window=4, shift=0, drop=0.0):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.scale = (dim // heads) ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(drop)

        self.bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        ys, xs = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        coords = torch.stack([ys.flatten(), xs.flatten()])            # 2, N
        rel = coords[:, :, None] - coords[:, None, :] + window - 1
        self.register_buffer("bias_index", rel[0] * (2 * window - 1) + rel[1])

    def shift_mask(self, h, w, device):
        """Bool (num_windows, N, N), True for pairs from different regions."""
        region = torch.zeros(1, h, w, 1, device=device)
        cuts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        n = 0
        for hs in cuts:
            for ws in cuts:
                region[:, hs, ws, :] = n
                n += 1
        ids = to_windows(region, self.window).squeeze(-1)
        return ids[:, :, None] != ids[:, None, :]

    def forward(self, x):
        b, h, w, c = x.shape
        res = x
        x = self.norm(x)
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), dims=(1, 2))
        win = to_windows(x, self.window)
        nb, n, _ = win.shape
        q, k, v = self.qkv(win).view(nb, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)

        attn = (q * self.scale) @ k.transpose(-1, -2)
        bias = self.bias_table[self.bias_index.view(-1)].view(n, n, self.heads)
        attn = attn + bias.permute(2, 0, 1)
        if self.shift:
            m = self.shift_mask(h, w, x.device)
            attn = attn.view(b, -1, self.heads, n, n)
            attn = attn.masked_fill(m[None, :, None], float("-inf")).view(nb, self.heads, n, n)
        attn = self.drop(attn.softmax(-1))
        out = self.proj((attn @ v).transpose(1, 2).reshape(nb, n, c))

        out = from_windows(out, self.window, h, w)
        if self.shift:
            out = torch.roll(out, (self.shift, self.shift), dims=(1, 2))
        return res + out
