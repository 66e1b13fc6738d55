"""Bidirectional encoder layer for DNA k-mers with rotary position embedding (Su et al. 2021)."""
import torch
import torch.nn as nn


class Spinner(nn.Module):
    """Rotary tables for heads of size `reach`. Channel i and channel i + reach/2 form one plane
    that turns with theta_i = base^(-2i/reach), i = 0 .. reach/2 - 1."""

    def __init__(self, reach, base=10000.0):
        super().__init__()
        theta = base ** (-torch.arange(0, reach, 2).float() / reach)
        self.register_buffer("theta", theta, persistent=False)

    def forward(self, length, device):
        t = torch.arange(length, device=device, dtype=torch.float32)
        turn = torch.outer(t, self.theta)
        turn = turn.repeat_interleave(2, dim=-1)
        return turn.cos(), turn.sin()


def half_turn(x):
    lo, hi = x.chunk(2, dim=-1)
    return torch.cat((-hi, lo), dim=-1)


def spin(x, cos, sin):
    return x * cos + half_turn(x) * sin


class HelixAttention(nn.Module):
    """strand: (B, L, width); gaps: (B, L) bool, True = padding (not attended to, never all True)"""

    def __init__(self, width=32, crew=4):
        super().__init__()
        self.crew, self.reach = crew, width // crew
        self.wish = nn.Linear(width, width, bias=False)
        self.sign = nn.Linear(width, width, bias=False)
        self.cargo = nn.Linear(width, width, bias=False)
        self.dock = nn.Linear(width, width, bias=False)
        self.spinner = Spinner(self.reach)

    def forward(self, strand, gaps=None):
        B, L, width = strand.shape
        shape = (B, L, self.crew, self.reach)
        w = self.wish(strand).view(shape).transpose(1, 2)
        s = self.sign(strand).view(shape).transpose(1, 2)
        c = self.cargo(strand).view(shape).transpose(1, 2)

        cos, sin = self.spinner(L, strand.device)
        w, s = spin(w, cos, sin), spin(s, cos, sin)

        fit = torch.matmul(w, s.mT) * self.reach ** -0.5
        if gaps is not None:
            fit = fit.masked_fill(gaps[:, None, None, :], float("-inf"))
        share = fit.softmax(-1)
        return self.dock(torch.matmul(share, c).transpose(1, 2).reshape(B, L, width))


class GenomeLayer(nn.Module):
    def __init__(self, width=32, crew=4):
        super().__init__()
        self.pre, self.mid = nn.LayerNorm(width), nn.LayerNorm(width)
        self.helix = HelixAttention(width, crew)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, strand, gaps=None):
        strand = strand + self.helix(self.pre(strand), gaps)
        return strand + self.mlp(self.mid(strand))
