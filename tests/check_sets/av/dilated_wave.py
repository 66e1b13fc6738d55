"""Dilated local attention for raw audio. Each frame looks back at `reach` frames with a
step of `dilation`, itself being the first of them."""
import torch
from torch import nn
from torch.nn import functional as F


class DilatedLookback(nn.Module):
    def __init__(self, channels: int, heads: int, reach: int = 4, dilation: int = 2):
        super().__init__()
        self.heads, self.reach, self.dilation = heads, reach, dilation
        self.hd = channels // heads
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.mix = nn.Conv1d(channels, channels, 1)
        self.bias = nn.Parameter(torch.zeros(heads, reach))

    def _look(self, z):
        """[B, C, T] -> [B, H, hd, T, reach]; entry r is the frame r*dilation ago."""
        back = self.dilation * (self.reach - 1)
        z = F.pad(z, (back, 0))
        T = z.shape[-1] - back
        taps = [z[..., back - r * self.dilation: back - r * self.dilation + T] for r in range(self.reach)]
        z = torch.stack(taps, dim=-1)
        return z.reshape(z.shape[0], self.heads, self.hd, T, self.reach)

    def forward(self, x):
        """x: [B, C, T]"""
        B, C, T = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=1)
        q = q.reshape(B, self.heads, self.hd, T)
        k, v = self._look(k), self._look(v)
        s = torch.einsum("bhdt,bhdtr->bhtr", q, k) * self.hd ** -0.5
        s = s + self.bias[None, :, None, :]
        t = torch.arange(T, device=x.device)[:, None]
        before_start = t - self.dilation * torch.arange(self.reach, device=x.device)[None] < 0
        s = s.masked_fill(before_start, float("-inf"))
        y = torch.einsum("bhtr,bhdtr->bhdt", s.softmax(dim=-1), v)
        return self.mix(y.reshape(B, C, T))


class ResBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(1, channels)
        self.att = DilatedLookback(channels, 2, 4, dilation)
        self.gate = nn.Conv1d(channels, 2 * channels, 1)

    def forward(self, x):
        y = self.att(self.norm(x))
        a, b = self.gate(y).chunk(2, dim=1)
        return x + torch.tanh(a) * torch.sigmoid(b)


class WaveStack(nn.Module):
    def __init__(self, channels=16, levels=4):
        super().__init__()
        self.inp = nn.Conv1d(1, channels, 1)
        self.blocks = nn.ModuleList(ResBlock(channels, 2 ** i) for i in range(levels))
        self.out = nn.Conv1d(channels, 256, 1)

    def forward(self, wav):
        h = self.inp(wav)
        for b in self.blocks:
            h = b(h)
        return self.out(h)
