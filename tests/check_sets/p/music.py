import torch
from torch import nn


class PhraseAttention(nn.Module):
    """Attention among the notes of a phrase; x (B, N, dim) may be large, notes (B, N) bool tells notes from rests, which are not attended to."""

    def __init__(self, dim, n_head):
        super().__init__()
        self.n_head = n_head
        self.qkv = nn.Linear(dim, 3 * dim)
        self.mix = nn.Linear(dim, dim)

    def forward(self, x, notes):
        B, N, D = x.shape
        q, k, v = (z.view(B, N, self.n_head, D // self.n_head).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=2))
        s = q @ k.transpose(2, 3) / self.n_head ** 0.5
        s = s.masked_fill(~notes[:, None, None, :], -100.0)
        w = s.softmax(3)
        return self.mix((w @ v).transpose(1, 2).reshape(B, N, D))
