import math

import torch
from torch import nn


def positional_encoding(length, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d_model))"""
    pe = torch.zeros(length, d_model)
    for pos in range(length):
        for i in range(0, d_model, 2):
            pe[pos, i] = math.sin(pos / 10000 ** (2 * i / d_model))
            pe[pos, i + 1] = math.cos(pos / 10000 ** (2 * (i + 1) / d_model))
    return pe


class EncoderWithPositions(nn.Module):
    def __init__(self, d_model=16, nhead=2, max_len=64):
        super().__init__()
        self.register_buffer("pe", positional_encoding(max_len, d_model))
        self.nhead = nhead
        self.qkv = nn.Linear(d_model, 3 * d_model)

    def forward(self, x):
        x = x + self.pe[: x.shape[1]]
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.nhead, -1).permute(2, 0, 3, 1, 4)
        return (torch.softmax(q @ k.mT / (c // self.nhead) ** 0.5, -1) @ v).transpose(1, 2).reshape(b, n, c)
