"""P/S phase picker for ocean-bottom seismometers: local attention trunk.

Picks are issued in real time, so a sample never looks ahead.
`window` = W: every sample sees exactly W samples, itself and the W-1 before it
(fewer at the start of the trace).
"""
import argparse
import torch
import torch.nn as nn


def make_local_mask(n: int, window: int, device=None) -> torch.Tensor:
    """(n, n) bool, True = visible."""
    i = torch.arange(n, device=device)
    lag = i[:, None] - i[None, :]
    return (lag >= 0) & (lag <= window)


class LocalAttention(nn.Module):
    """(B, L, C) -> (B, L, C), multi-head, causal, local (see top of the file)."""

    def __init__(self, channels: int, heads: int, window: int):
        super().__init__()
        self.h, self.d, self.window = heads, channels // heads, window
        self.q_lin = nn.Linear(channels, channels)
        self.k_lin = nn.Linear(channels, channels)
        self.v_lin = nn.Linear(channels, channels)
        self.o_lin = nn.Linear(channels, channels)

    def heads(self, t: torch.Tensor) -> torch.Tensor:
        return t.view(t.shape[0], t.shape[1], self.h, self.d).permute(0, 2, 1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, L, C = x.shape
        q, k, v = self.heads(self.q_lin(x)), self.heads(self.k_lin(x)), self.heads(self.v_lin(x))
        s = torch.einsum("bhid,bhjd->bhij", q, k) / self.d ** 0.5
        s = s.masked_fill(~make_local_mask(L, self.window, x.device), float("-inf"))
        y = torch.einsum("bhij,bhjd->bhid", s.softmax(-1), v)
        y = y.contiguous().view(B, L, C)
        return self.o_lin(y)


class Picker(nn.Module):
    """3-component (+hydrophone) waveform (B, 4, 4*L) -> (B, L, 3): noise, P, S"""

    def __init__(self, channels=48, heads=4, window=25, depth=2):
        super().__init__()
        self.down = nn.Conv1d(4, channels, 4, stride=4)
        self.norm = nn.ModuleList([nn.LayerNorm(channels) for _ in range(depth)])
        self.local = nn.ModuleList([LocalAttention(channels, heads, window) for _ in range(depth)])
        self.rnn = nn.GRU(channels, channels, batch_first=True)
        self.out = nn.Linear(channels, 3)

    def forward(self, wave):
        wave = wave - wave.mean(-1, keepdim=True)
        wave = wave / wave.std(-1, keepdim=True).clamp_min(1e-8)
        x = torch.relu(self.down(wave)).transpose(1, 2)
        for n, a in zip(self.norm, self.local):
            x = x + a(n(x))
        x, _ = self.rnn(x)
        return self.out(x)


def pick(prob: torch.Tensor, phase: int, threshold: float = 0.3):
    """index and probability of the best pick, or None"""
    p, i = prob[:, phase].max(0)
    return (int(i), float(p)) if p > threshold else None


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--window", type=int, default=25)
    net = Picker(window=ap.parse_args().window).eval()
    out = net(torch.randn(1, 4, 400)).softmax(-1)[0]
    print(out.shape, pick(out, 1))
