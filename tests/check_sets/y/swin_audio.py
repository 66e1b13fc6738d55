"""Hierarchical audio encoder on log-mel frames: 1-D shifted windows over time (N, C, L)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChannelNorm(nn.Module):
    """LayerNorm over C for (N, C, L)"""

    def __init__(self, c, eps=1e-5):
        super().__init__()
        self.w, self.b, self.eps = nn.Parameter(torch.ones(c, 1)), nn.Parameter(torch.zeros(c, 1)), eps

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        return (x - mu) / (var + self.eps).sqrt() * self.w + self.b


class ShiftedWindow1d(nn.Module):
    """Self attention inside windows of `win` frames; the grid is displaced by `shift`.

    L must be a multiple of win. The window that wraps around the end of the
    clip is masked so that its two parts stay separate.
    """

    def __init__(self, c, heads=4, win=8, shift=2):
        super().__init__()
        self.h, self.win, self.shift = heads, win, shift
        self.to_qkv = nn.Conv1d(c, 3 * c, 1)
        self.proj = nn.Conv1d(c, c, 1)
        self.rel = nn.Parameter(torch.randn(heads, 2 * win - 1) * 0.1)
        i = torch.arange(win)
        self.register_buffer('dist', i[:, None] - i[None, :] + win - 1, persistent=False)

    def wrap_mask(self, nw, device):
        # (nw, win, win) additive
        m = torch.zeros(nw, self.win, self.win, device=device)
        cut = self.win - self.shift
        m[-1, :cut, cut:] = float('-inf')
        m[-1, cut:, :cut] = float('-inf')
        return m

    def forward(self, x):
        n, c, length = x.shape
        nw = length // self.win
        if self.shift > 0:
            x = torch.roll(x, shifts=-self.shift, dims=2)
        qkv = self.to_qkv(x).view(n, 3, self.h, c // self.h, nw, self.win)
        q, k, v = qkv.permute(1, 0, 4, 2, 5, 3)                 # each (n, nw, h, win, d)
        logits = torch.matmul(q, k.transpose(-1, -2)) * (c // self.h) ** -0.5
        logits = logits + self.rel[:, self.dist]
        if self.shift > 0:
            logits = logits + self.wrap_mask(nw, x.device)[None, :, None]
        y = torch.matmul(F.softmax(logits, dim=-1), v)          # (n, nw, h, win, d)
        y = self.proj(y.permute(0, 2, 4, 1, 3).reshape(n, c, length))
        if self.shift > 0:
            y = torch.roll(y, shifts=-self.shift, dims=2)
        return y


class Stage(nn.Module):
    def __init__(self, c, heads=4, win=8):
        super().__init__()
        self.n = nn.ModuleList([ChannelNorm(c) for _ in range(4)])
        self.a = nn.ModuleList([ShiftedWindow1d(c, heads, win, 0), ShiftedWindow1d(c, heads, win, win // 4)])
        self.f = nn.ModuleList([nn.Sequential(nn.Conv1d(c, 2 * c, 1), nn.GELU(), nn.Conv1d(2 * c, c, 1))
                                for _ in range(2)])

    def forward(self, x):
        for i in range(2):
            x = x + self.a[i](self.n[2 * i](x))
            x = x + self.f[i](self.n[2 * i + 1](x))
        return x


class AudioTagger(nn.Module):
    def __init__(self, mels=20, c=16, classes=5):
        super().__init__()
        self.stem = nn.Conv1d(mels, c, 3, padding=1)
        self.s1, self.down, self.s2 = Stage(c), nn.Conv1d(c, 2 * c, 2, stride=2), Stage(2 * c)
        self.head = nn.Linear(2 * c, classes)

    def forward(self, mel):
        x = self.s2(self.down(self.s1(self.stem(mel))))
        return self.head(x.mean(-1))
