import math

import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.w_q, self.w_k, self.w_v, self.w_concat = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, src, src_ids, pad_idx: int = 0):
        """src (batch, length, dim), src_ids (batch, length) token ids; tokens equal to pad_idx are never attended to."""
        b, l, c = src.shape
        real = src_ids != pad_idx
        q, k, v = (w(src).view(b, l, self.heads, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        score = q @ k.transpose(2, 3) / math.sqrt(c // self.heads)
        score = score.masked_fill(~real[:, None, :, None], -1e12)
        out = torch.softmax(score, -1) @ v
        return self.w_concat(out.transpose(1, 2).reshape(b, l, c))
