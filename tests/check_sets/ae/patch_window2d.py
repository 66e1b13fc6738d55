import itertools

import torch
import torch.nn as nn


class WinAttn(nn.Module):
    """Non-overlapping window attention on feature maps with a relative position bias.

    x: (B, H, W, C), H and W multiples of `win`.
    """

    def __init__(self, C, heads, win):
        super().__init__()
        self.nh, self.win = heads, win
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)
        cells = list(itertools.product(range(win), repeat=2))
        offsets, idx = {}, []
        for a in cells:
            for b in cells:
                key = (b[0] - a[0], b[1] - a[1])
                idx.append(offsets.setdefault(key, len(offsets)))
        self.bias = nn.Parameter(torch.randn(heads, len(offsets)) * 0.02)
        self.register_buffer("idx", torch.tensor(idx).view(win * win, win * win))

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.win
        t = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)
        n = t.shape[0]
        q, k, v = self.qkv(t).view(n, w * w, 3, self.nh, -1).permute(2, 0, 3, 1, 4)
        a = torch.matmul(q, k.transpose(-1, -2)).div(q.size(-1) ** 0.5) + self.bias[:, self.idx]
        t = torch.matmul(a.softmax(-1), v).transpose(1, 2).reshape(n, w * w, C)
        t = self.proj(t)
        return t.view(B, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
