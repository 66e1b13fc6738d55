"""Vibration sensor fault detection: tokens are mixed by FFT (FNet) and by a gated spatial MLP (gMLP)."""
import torch
import torch.nn as nn


def frames(signal, size, hop):
    """[B, T] -> [B, n, size]"""
    return signal.unfold(-1, size, hop)


def envelope(signal):
    """Magnitude of the analytic signal."""
    n = signal.shape[-1]
    f = torch.fft.fft(signal)
    h = torch.zeros(n, device=signal.device)
    h[0] = 1
    if n % 2 == 0:
        h[n // 2] = 1
        h[1:n // 2] = 2
    else:
        h[1:(n + 1) // 2] = 2
    return torch.fft.ifft(f * h).abs()


class FourierMix(nn.Module):
    def forward(self, x):
        return torch.fft.fft2(x, dim=(-2, -1)).real


class SpatialGate(nn.Module):
    """u * (W norm(v) + b), W mixes the time steps with fixed learned weights."""

    def __init__(self, dim, steps):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.Conv1d(steps, steps, 1)
        nn.init.normal_(self.mix.weight, std=1e-3)
        nn.init.ones_(self.mix.bias)

    def forward(self, x):
        u, v = x.chunk(2, -1)
        return u * self.mix(self.norm(v))


class MixBlock(nn.Module):
    def __init__(self, dim, steps, fourier):
        super().__init__()
        self.n1 = nn.LayerNorm(dim)
        self.mix = FourierMix() if fourier else nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), SpatialGate(2 * dim, steps), nn.Linear(2 * dim, dim))
        self.n2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.mix(self.n1(x))
        return x + self.ff(self.n2(x))


class FaultNet(nn.Module):
    def __init__(self, size=64, hop=32, samples=1024, dim=32, depth=4, faults=5):
        super().__init__()
        self.size, self.hop = size, hop
        steps = (samples - size) // hop + 1
        self.emb = nn.Linear(2 * size, dim)
        self.blocks = nn.ModuleList(MixBlock(dim, steps, i % 2 == 0) for i in range(depth))
        self.out = nn.Linear(dim, faults)

    def forward(self, signal):
        x = torch.cat([frames(signal, self.size, self.hop), frames(envelope(signal), self.size, self.hop)], -1)
        x = self.emb(x)
        for b in self.blocks:
            x = b(x)
        return self.out(x.mean(1)).softmax(-1)
