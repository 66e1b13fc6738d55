"""Streaming-free speech encoder block with grouped KV heads (saves memory on the edge box)."""
import torch
from torch import nn


def lens_to_mask(lens, T):
    return torch.arange(T, device=lens.device).expand(len(lens), T) < lens.unsqueeze(1)


class Subsample(nn.Module):
    def __init__(self, mel, dim):
        super().__init__()
        self.c1 = nn.Conv1d(mel, dim, 3, stride=2, padding=1)
        self.c2 = nn.Conv1d(dim, dim, 3, stride=2, padding=1)

    def forward(self, x, lens):
        y = torch.relu(self.c2(torch.relu(self.c1(x.transpose(1, 2)))))
        for _ in range(2):
            lens = (lens - 1) // 2 + 1
        return y.transpose(1, 2), lens


class GroupedSelfAttention(nn.Module):
    """n_kv key/value heads, each one serves n_head // n_kv query heads."""

    def __init__(self, dim, n_head=4, n_kv=2):
        super().__init__()
        self.n_head, self.n_kv, self.hd = n_head, n_kv, dim // n_head
        self.lq = nn.Linear(dim, n_head * self.hd)
        self.lk = nn.Linear(dim, n_kv * self.hd)
        self.lv = nn.Linear(dim, n_kv * self.hd)
        self.lo = nn.Linear(dim, dim)

    def spread(self, x):
        return x.repeat_interleave(self.n_head // self.n_kv, dim=2)

    def forward(self, x, lens):
        B, T, D = x.shape
        q = self.lq(x).view(B, T, self.n_head, self.hd).transpose(1, 2)
        k = self.lk(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        v = self.lv(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        k = self.spread(k).reshape(B, self.n_head, T, self.hd)
        v = self.spread(v).reshape(B, self.n_head, T, self.hd)
        logits = q @ k.transpose(2, 3) * self.hd ** -0.5
        keep = lens_to_mask(lens, T)[:, None, None]
        logits = logits.masked_fill(~keep, torch.finfo(logits.dtype).min)
        y = torch.softmax(logits, dim=3) @ v
        return self.lo(y.transpose(1, 2).reshape(B, T, D))


class SpeechBlock(nn.Module):
    def __init__(self, dim, **kw):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = GroupedSelfAttention(dim, **kw)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x, lens):
        x = x + self.att(self.n1(x), lens)
        return x + self.ff(self.n2(x))


class SpeechEncoder(nn.Module):
    def __init__(self, mel=40, dim=64, depth=2, n_head=4, n_kv=2):
        super().__init__()
        self.sub = Subsample(mel, dim)
        self.blocks = nn.ModuleList(SpeechBlock(dim, n_head=n_head, n_kv=n_kv) for _ in range(depth))

    def forward(self, x, lens):
        x, lens = self.sub(x, lens)
        for b in self.blocks:
            x = b(x, lens)
        return x, lens
