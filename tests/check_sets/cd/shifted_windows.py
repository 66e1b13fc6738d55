"""Shifted-window cosine attention on video frames (Swin V2 flavour).

Frames [N, H, W, C] are cut into win x win windows, cyclically shifted by
``shift`` first.  Logits are cosine similarities times a learned per-head factor
exp(logit_scale), at most 100, plus a learned bias per relative offset.
After the shift a window may join pixels from opposite borders of the frame;
such pairs do not see each other.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def to_windows(x, w):
    n, h, wd, c = x.shape
    x = x.view(n, h // w, w, wd // w, w, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(n, (h // w) * (wd // w), w * w, c)


def from_windows(x, w, h, wd):
    n, c = x.shape[0], x.shape[-1]
    x = x.view(n, h // w, wd // w, w, w, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(n, h, wd, c)


class ShiftedWindowAttention(nn.Module):
    def __init__(self, dim=24, heads=3, win=4, shift=2):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.bias_table = nn.Parameter(torch.randn((2 * win - 1) ** 2, heads) * 0.02)

        yx = torch.stack(torch.meshgrid(torch.arange(win), torch.arange(win), indexing="ij"), -1).view(-1, 2)
        rel = yx[:, None] - yx[None, :] + win - 1
        self.register_buffer("rel_index", rel[..., 0] * (2 * win - 1) + rel[..., 1], persistent=False)

    def region_mask(self, h, w, device):
        """True where query and key come from different regions: [windows, win^2, win^2]"""
        def region(size):
            i = torch.arange(size, device=device)
            return (i >= size - self.win).long() + (i >= size - self.shift).long()

        label = region(h)[:, None] * 3 + region(w)[None, :]
        label = to_windows(label[None, :, :, None], self.win)[0, :, :, 0]
        return label[:, :, None] != label[:, None, :]

    def forward(self, x):
        n, h, w, c = x.shape
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), dims=(1, 2))
        x = to_windows(x, self.win)                                   # [N, M, P, C]
        m, p = x.shape[1], x.shape[2]
        q, k, v = self.qkv(x).view(n, m, p, 3, self.heads, -1).permute(3, 0, 1, 4, 2, 5)

        logits = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        logits = logits * self.logit_scale.clamp(max=math.log(100.0)).exp()
        logits = logits + self.bias_table[self.rel_index].permute(2, 0, 1)
        if self.shift:
            logits = logits.masked_fill(self.region_mask(h, w, x.device)[None, :, None], float("-inf"))
        y = (logits.softmax(-1) @ v).transpose(2, 3).reshape(n, m, p, c)

        y = from_windows(self.proj(y), self.win, h, w)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        return y
