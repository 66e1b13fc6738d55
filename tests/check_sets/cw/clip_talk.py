import torch
import torch.nn as nn


class TemporalTalk(nn.Module):
    # video tokens: (B, T, P, C) = batch, frames, patches, channels.
    # Each patch looks at the same patch in all frames; heads exchange logits
    # before the softmax and weights after it (talking heads).
    def __init__(self, C, heads=4):
        super().__init__()
        self.h = heads
        self.norm = nn.LayerNorm(C)
        self.qkv = nn.Linear(C, 3 * C, bias=False)
        self.mix_in = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.mix_out = nn.Parameter(torch.eye(heads) + 0.1 * torch.randn(heads, heads))
        self.proj = nn.Linear(C, C)
        nn.init.normal_(self.proj.weight, std=0.02)

    def forward(self, vid):
        B, T, P, C = vid.shape
        d = C // self.h
        y = self.norm(vid).transpose(1, 2)
        y = self.qkv(y).reshape(B, P, T, 3, self.h, d)
        q, k, v = y[..., 0, :, :], y[..., 1, :, :], y[..., 2, :, :]
        s = torch.einsum('bpthd,bpuhd->bphtu', q * d ** -.5, k)
        s = torch.einsum('hg,bphtu->bpgtu', self.mix_in, s)
        w = s.softmax(dim=4)
        w = torch.einsum('hg,bphtu->bpgtu', self.mix_out, w)
        o = torch.einsum('bphtu,bpuhd->bpthd', w, v)
        o = self.proj(o.reshape(B, P, T, C))
        return vid + o.transpose(1, 2)
