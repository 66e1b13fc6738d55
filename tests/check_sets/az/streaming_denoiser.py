"""Low-latency speech denoiser: STFT -> causal local transformer -> mask on the magnitudes.

Latency budget: no look-ahead at all.  Memory budget: a frame sees `context` frames, the
current frame included (context=1: only itself), so that the device needs to keep no more
than context - 1 old frames per layer.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Stft(nn.Module):
    def __init__(self, n_fft=128, hop=64):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("win", torch.hann_window(n_fft))

    def forward(self, wav):
        return torch.stft(wav, self.n_fft, self.hop, window=self.win, return_complex=True).transpose(1, 2)

    def inverse(self, spec, length):
        return torch.istft(spec.transpose(1, 2), self.n_fft, self.hop, window=self.win, length=length)


class LocalSelfAttention(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.heads, self.context = heads, context
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def visible(self, n, device):
        i = torch.arange(n, device=device)
        age = i[:, None] - i[None, :]
        return (age >= 0) & (age <= self.context)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        sim = q @ k.transpose(-1, -2) / math.sqrt(c // self.heads)
        sim = sim.masked_fill(~self.visible(n, x.device), -torch.finfo(sim.dtype).max)
        y = sim.softmax(dim=-1) @ v
        return self.to_out(y.transpose(1, 2).reshape(b, n, c))


class ConvModule(nn.Module):
    """Depthwise causal convolution over time."""

    def __init__(self, dim, kernel=5):
        super().__init__()
        self.pad = kernel - 1
        self.inp = nn.Linear(dim, 2 * dim)
        self.dw = nn.Conv1d(dim, dim, kernel, groups=dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        h = F.glu(self.inp(x), dim=-1).transpose(1, 2)
        h = self.dw(F.pad(h, (self.pad, 0))).transpose(1, 2)
        return self.out(F.silu(h))


class Layer(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim) for _ in range(3))
        self.attn = LocalSelfAttention(dim, heads, context)
        self.conv = ConvModule(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        x = x + self.conv(self.n2(x))
        return x + self.ff(self.n3(x))


class Denoiser(nn.Module):
    def __init__(self, n_fft=128, hop=64, dim=64, heads=4, depth=3, context=25):
        super().__init__()
        self.stft = Stft(n_fft, hop)
        bins = n_fft // 2 + 1
        self.inp = nn.Linear(bins, dim)
        self.layers = nn.ModuleList(Layer(dim, heads, context) for _ in range(depth))
        self.out = nn.Linear(dim, bins)

    def frames_to_keep(self):
        return sum(layer.attn.context - 1 for layer in self.layers)

    def forward(self, wav):
        spec = self.stft(wav)
        x = self.inp(torch.log1p(spec.abs()))
        for layer in self.layers:
            x = layer(x)
        return self.stft.inverse(spec * torch.sigmoid(self.out(x)), wav.shape[-1])


def si_sdr(est, ref, eps=1e-8):
    ref_e = (ref ** 2).sum(-1, keepdim=True)
    proj = (est * ref).sum(-1, keepdim=True) / (ref_e + eps) * ref
    return 10 * torch.log10((proj ** 2).sum(-1) / ((est - proj) ** 2).sum(-1).clamp_min(eps))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Denoiser()
    noisy = torch.randn(2, 4000)
    print(net(noisy).shape, net.frames_to_keep())
