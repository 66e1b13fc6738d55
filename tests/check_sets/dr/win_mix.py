"""win_mix: window block of our segmentation backbone (internal name WM-S).

    x (B, H, W, C), H and W multiples of ws -> (B, H, W, C)

    x = x + proj(window attention(LN(x)))
    x = x + mlp(LN(x))

Multi-head attention in non-overlapping ws x ws windows, with the learned relative
position bias of Swin added to the logits q.k / sqrt(C / nh). `dp` is the dropout rate on
the attention weights while training; inference is deterministic.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class WM(nn.Module):
    def __init__(self, C, nh, ws=4, dp=0.1):
        super().__init__()
        self.C, self.nh, self.ws, self.dp = C, nh, ws, dp
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv = nn.Linear(C, 3 * C)
        self.pr = nn.Linear(C, C)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))
        self.tab = nn.Parameter(torch.randn((2 * ws - 1) ** 2, nh) * 0.5)
        yx = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + ws - 1            # 2, n, n
        self.register_buffer("idx", rel[0] * (2 * ws - 1) + rel[1], persistent=False)
        self.sc = C ** -0.5

    def att(self, x):
        n, t, C = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.nh, C // self.nh).permute(2, 0, 3, 1, 4).unbind(0)
        a = (q * self.sc) @ k.transpose(-2, -1)
        a = a + self.tab[self.idx].permute(2, 0, 1)
        a = a.softmax(-1)
        a = F.dropout(a, self.dp)
        return self.pr((a @ v).transpose(1, 2).reshape(n, t, C))

    def forward(self, x):
        B, H, W, C = x.shape
        w = self.ws
        y = self.ln1(x).view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(-1, w * w, C)
        y = self.att(y)
        y = y.view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        x = x + y
        return x + self.mlp(self.ln2(x))
