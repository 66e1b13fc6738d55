"""Window attention with relative position bias, after the Swin Transformer paper."""
import torch
import torch.nn as nn


def window_partition(x, ws):
    """(B, H, W, C) -> (B * nW, ws * ws, C), windows row by row inside each image."""
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def window_reverse(w, ws, H, W):
    B = w.shape[0] // ((H // ws) * (W // ws))
    x = w.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class ShiftedWindowMSA(nn.Module):
    """Shifted window multi-head self attention.

    x: (B, H, W, C) with H and W multiples of window_size; the map is rolled by -shift, attention
    runs inside each window, and pixels that were not neighbours before the roll do not see each
    other. Returns (B, H, W, C). The learnt bias of the offset (dy, dx) = query - key is added to
    the scaled scores.
    """

    def __init__(self, dim, heads, window_size=4, shift=0):
        super().__init__()
        self.heads, self.ws, self.shift = heads, window_size, shift
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * window_size - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=.02)
        c = torch.stack(torch.meshgrid(torch.arange(window_size), torch.arange(window_size), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]).permute(1, 2, 0) + window_size - 1
        self.register_buffer("index", rel[..., 0] * (2 * window_size - 1) + rel[..., 1], persistent=False)

    def _shift_mask(self, H, W, device):
        img = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -self.ws), slice(-self.ws, -self.shift), slice(-self.shift, None))
        n = 0
        for h in cuts:
            for w in cuts:
                img[:, h, w, :] = n
                n += 1
        win = window_partition(img, self.ws).squeeze(-1)
        return win.unsqueeze(1) != win.unsqueeze(2)          # True: not allowed, (nW, N, N)

    def forward(self, x):
        B, H, W, C = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), dims=(1, 2))
        w = window_partition(x, self.ws)
        n, N, _ = w.shape
        q, k, v = self.qkv(w).reshape(n, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        s = (q * self.scale) @ k.transpose(-1, -2)
        s = s + self.table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        if self.shift:
            mask = self._shift_mask(H, W, x.device)
            nW = mask.shape[0]
            s = s.view(B, nW, self.heads, N, N).masked_fill(mask[None, :, None], float("-inf"))
            s = s.view(n, self.heads, N, N)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(n, N, C)
        y = window_reverse(self.proj(y), self.ws, H, W)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        return y
