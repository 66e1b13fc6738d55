"""FNet: Mixing Tokens with Fourier Transforms (Lee-Thorp i in., 2021).

Warstwa uwagi zastąpiona jest transformatą Fouriera bez parametrów:

    y = Re( F_seq( F_h( x ) ) )

F_h działa wzdłuż kanałów, F_seq wzdłuż zdania. Dalej jak w zwykłym koderze:
LayerNorm(x + y), potem sieć FF z własnym połączeniem rezydualnym.
"""
import torch
from torch import nn


class FNetBlock(nn.Module):
    """x (B, T, D) -> (B, T, D); wszystkie zdania mają T słów (bez wypełnienia)."""

    def __init__(self, D, d_ff, p=0.1):
        super().__init__()
        self.norm_mix = nn.LayerNorm(D)
        self.norm_ff = nn.LayerNorm(D)
        self.ff = nn.Sequential(
            nn.Linear(D, d_ff), nn.GELU(), nn.Linear(d_ff, D), nn.Dropout(p))

    def forward(self, x):
        y = torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real
        x = self.norm_mix(x + y)
        return self.norm_ff(x + self.ff(x))


class FNet(nn.Module):
    """tokens (B, T) long, T <= max_len -> logity klas (B, n_klas), czytane z tokenu 0."""

    def __init__(self, vocab, n_klas, D=32, layers=2, max_len=64):
        super().__init__()
        self.word = nn.Embedding(vocab, D)
        self.pos = nn.Embedding(max_len, D)
        self.blocks = nn.Sequential(*(FNetBlock(D, 2 * D) for _ in range(layers)))
        self.pool = nn.Sequential(nn.Linear(D, D), nn.Tanh())
        self.out = nn.Linear(D, n_klas)

    def forward(self, tokens):
        p = torch.arange(tokens.size(1), device=tokens.device)
        h = self.blocks(self.word(tokens) + self.pos(p))
        return self.out(self.pool(h[:, 0]))
