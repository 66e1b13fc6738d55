"""
dawn_chorus -- segment birds' songs out of field recordings
===========================================================

Six heads, because the mel front-end gives 6*32 channels.  Positions are given
by ALiBi (Press, Smith & Lewis, "Train short, test long") with the slopes
published there for any number of heads, so that weights can be exchanged with
the reference implementation.  The song is heard in both directions, so the
penalty is ``-m * |i - j|`` (the symmetric form).

Authors: the Vogelwarte audio group
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def get_slopes(n_heads):
    """One slope per head, a geometric series that ends at 2**-8."""
    ratio = 2.0 ** (-8.0 / n_heads)
    return torch.tensor([ratio ** (h + 1) for h in range(n_heads)])


class Syrinx(nn.Module):
    """Self-attention over spectrogram frames.

    :param x:      (batch, frames, channels)
    :param silent: optional bool (batch, frames); True marks frames after the end
                   of the recording; they are not attended to.
    """

    def __init__(self, channels=192, n_heads=6):
        super().__init__()
        self.n_heads = n_heads
        self.d = channels // n_heads
        self.qkv = nn.Linear(channels, channels * 3)
        self.o = nn.Linear(channels, channels)
        self.register_buffer("slopes", get_slopes(n_heads), persistent=False)

    def distance(self, n, device):
        i = torch.arange(n, device=device)
        return (i[None, :] - i[:, None]).abs()

    def forward(self, x, silent=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(b, n, self.n_heads, self.d).transpose(1, 2) for t in (q, k, v))
        att = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        att = att - self.slopes.view(1, -1, 1, 1) * self.distance(n, x.device)
        if silent is not None:
            att = att.masked_fill(silent[:, None, None, :], float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        return self.o(y.transpose(1, 2).reshape(b, n, c))


class ChorusNet(nn.Module):
    def __init__(self, mels=80, channels=192, species=41, layers=3):
        super().__init__()
        self.front = nn.Conv1d(mels, channels, 5, padding=2)
        self.mix = nn.ModuleList([Syrinx(channels) for _ in range(layers)])
        self.ln = nn.ModuleList([nn.LayerNorm(channels) for _ in range(layers)])
        self.head = nn.Linear(channels, species)

    def forward(self, mel, silent=None):
        h = F.gelu(self.front(mel)).transpose(1, 2)
        for att, ln in zip(self.mix, self.ln):
            h = h + att(ln(h), silent)
        return self.head(h)
