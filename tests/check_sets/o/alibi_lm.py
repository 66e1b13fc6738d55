import math

import torch
import torch.nn as nn


def get_slopes(n):
    def get_slopes_power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    return get_slopes_power_of_2(n)


class AlibiLM(nn.Module):
    """Language model with the slopes of the ALiBi paper for any number of heads (those of the reference implementation)."""

    def __init__(self, vocab=30, dim=24, heads=6):
        super().__init__()
        self.heads = heads
        self.emb = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.head = nn.Linear(dim, vocab)
        self.register_buffer("slopes", torch.tensor(get_slopes(heads), dtype=torch.float64))

    def forward(self, ids):
        x = self.emb(ids)
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        i = torch.arange(n)
        bias = (self.slopes.to(x.dtype)[:, None, None] * (i[None, :] - i[:, None])).masked_fill(i[None, :] > i[:, None], float("-inf"))
        att = torch.softmax(q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5 + bias, dim=-1)
        return self.head(x + self.proj((att @ v).transpose(1, 2).reshape(b, n, d)))
