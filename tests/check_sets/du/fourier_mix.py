"""FNet block (Lee-Thorp et al. 2021): the token mixing is a 2-D FFT, there are no weights in it.

I replaced the encoder layers of my tagger by this to see how much is lost.  Real part of the
FFT over the sequence and the hidden axis, residual + norm, feed-forward, residual + norm.
"""
import torch
from torch import nn


class FourierMixing(nn.Module):
    """(B, T, D) -> (B, T, D), Re(FFT_seq(FFT_hidden(x)))."""

    def forward(self, x):
        return torch.fft.fft(torch.fft.fft(x.float(), dim=-1), dim=-2).real.type_as(x)


class FNetBlock(nn.Module):
    """x: (B, T, D); all sequences of a batch have the same length (the FFT has no mask)."""

    def __init__(self, D=64, hidden=256, p=0.1):
        super().__init__()
        self.mix = FourierMixing()
        self.norm1 = nn.LayerNorm(D)
        self.norm2 = nn.LayerNorm(D)
        self.ff = nn.Sequential(
            nn.Linear(D, hidden), nn.GELU(), nn.Linear(hidden, D), nn.Dropout(p))

    def forward(self, x):
        x = self.norm1(x + self.mix(x))
        return self.norm2(x + self.ff(x))
