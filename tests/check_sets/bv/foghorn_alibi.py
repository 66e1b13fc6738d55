"""Определение маяка по записи туманного горна.

Кодировщик двусторонний; расстояние между кадрами штрафуется симметрично:
-slope * |i - j| (по мотивам ALiBi). Таблица штрафов считается один раз.
Кадры, забитые шумом волн, у всего пакета общие (микрофон один) - их не слушаем.
"""
import torch
from torch import nn


def slopes(heads):
    assert heads & (heads - 1) == 0, "число голов - степень двойки"
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)])


def log_mel_stub(wave, bands=20, hop=160):
    """Грубая замена мел-спектрограммы: энергия в полосах БПФ."""
    frames = wave.unfold(-1, 2 * hop, hop)
    power = torch.fft.rfft(frames).abs().square()
    parts = power.tensor_split(bands, dim=-1)
    return torch.stack([p.sum(-1) for p in parts], -1).clamp_min(1e-8).log()


class DistanceAttention(nn.Module):
    """x: [B, T, D]; surf: [T] bool, True = кадр забит прибоем и исключается из ключей."""

    def __init__(self, dim, heads, max_frames=256):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        t = torch.arange(max_frames)
        dist = (t[:, None] - t[None, :]).abs()
        self.register_buffer("penalty", -slopes(heads)[:, None, None] * dist, persistent=False)

    def forward(self, x, surf=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        bias = self.penalty[:, :T, :T]
        if surf is not None:
            bias.masked_fill_(surf[None, None, :], float("-inf"))
        att = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5 + bias
        y = att.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, D))


class FoghornNet(nn.Module):
    def __init__(self, n_lighthouses, bands=20, dim=32, heads=4, layers=2):
        super().__init__()
        self.bands = bands
        self.inp = nn.Linear(bands, dim)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(dim), DistanceAttention(dim, heads), nn.LayerNorm(dim),
                           nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))])
            for _ in range(layers)
        )
        self.cls = nn.Linear(dim, n_lighthouses)

    def forward(self, wave, surf=None):
        x = self.inp(log_mel_stub(wave, self.bands))
        for n1, att, n2, ff in self.layers:
            x = x + att(n1(x), surf)
            x = x + ff(n2(x))
        return self.cls(x.mean(1))


if __name__ == "__main__":
    net = FoghornNet(7).eval()
    w = torch.randn(2, 160 * 13)
    print(net(w, torch.arange(12) > 9).shape)
