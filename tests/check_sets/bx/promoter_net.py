"""Promoter strength from DNA windows.

Two conv layers find motifs, a self-attention layer (scaled dot product, softmax
written out) relates them along the sequence, and a regression head follows.
`forward` also returns the attention, whose rows sum to one, for the motif plots.
"""
from typing import Tuple

import torch
from torch import Tensor, nn


class MotifAttention(nn.Module):
    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Conv1d(channels, channels, 1)
        self.k = nn.Conv1d(channels, channels, 1)
        self.v = nn.Conv1d(channels, channels, 1)
        self.o = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        b, c, n = x.shape                       # channels first
        q = self.q(x).view(b, self.heads, c // self.heads, n)
        k = self.k(x).view(b, self.heads, c // self.heads, n)
        v = self.v(x).view(b, self.heads, c // self.heads, n)
        attention = torch.einsum("bhdi,bhdj->bhij", q, k) / q.shape[-1] ** 0.5
        peak = attention.amax(dim=-1, keepdim=True)
        numer = torch.exp(attention - peak)
        probs = numer / torch.exp(attention).sum(dim=-1, keepdim=True)
        y = torch.einsum("bhij,bhdj->bhdi", probs, v).reshape(b, c, n)
        return self.o(y), attention


class PromoterNet(nn.Module):
    def __init__(self, channels: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.motifs = nn.Sequential(
            nn.Conv1d(4, channels, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(channels, channels, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2),
        )
        self.attn = MotifAttention(channels, heads)
        self.strength = nn.Linear(channels, 1)

    def forward(self, dna: Tensor) -> Tuple[Tensor, Tensor]:
        """dna [B, 4, L] one-hot -> strength [B], attention [B, heads, L/4, L/4]"""
        x = self.motifs(dna)
        y, attention = self.attn(x)
        return self.strength((x + y).mean(-1)).squeeze(-1), attention


if __name__ == "__main__":
    onehot = nn.functional.one_hot(torch.randint(0, 4, (2, 60)), 4).float().transpose(1, 2)
    s, a = PromoterNet()(onehot)
    print(s.shape, a.shape)
