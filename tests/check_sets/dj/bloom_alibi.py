"""BLOOM-style causal attention with ALiBi (Press et al. 2022; BigScience 2022).

    head h = 1..n   slope m_h = 2^(-8h/n)            (n is a power of two here)
    score_ij = q_i . k_j / sqrt(d) + m_h * (j - i)   for j <= i
    the output of head h fills the channels (h-1)d .. hd-1 of the vector given to W_o
"""
import math

import torch
from torch import nn


def slopes(n):
    return torch.tensor([2.0 ** (-8.0 * h / n) for h in range(n)])


class BloomAttention(nn.Module):
    """forward(hidden, attention_mask)

    hidden          (B, T, D)
    attention_mask  (B, T), 1 = token, 0 = padding on the right
    returns         (B, T, D)
    """

    def __init__(self, D=32, n_head=4):
        super().__init__()
        self.n, self.d = n_head, D // n_head
        self.query_key_value = nn.Linear(D, 3 * D)       # rows per head: q, k, v
        self.dense = nn.Linear(D, D)
        self.register_buffer("m", slopes(n_head), persistent=False)

    def forward(self, hidden, attention_mask):
        B, T, D = hidden.shape
        fused = self.query_key_value(hidden).view(B, T, self.n, 3, self.d)
        q, k, v = (fused[..., t, :].transpose(1, 2) for t in range(3))   # (B, n, T, d)

        pos = torch.arange(T, device=hidden.device)
        alibi = self.m[:, None, None] * (pos[None, :] - pos[:, None])    # (n, T, T)
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.d) + alibi

        forbidden = pos[None, :] > pos[:, None]
        forbidden = forbidden | (attention_mask[:, None, None, :] == 0)
        scores = scores.masked_fill(forbidden, torch.finfo(scores.dtype).min)
        context = torch.matmul(scores.softmax(dim=-1), v)
        context = context.contiguous().view(B, T, D)
        return self.dense(context)
