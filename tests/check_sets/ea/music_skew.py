"""Music Transformer: relative global attention with the "skewing" trick (Huang et al. 2018)

x: (batch, L, d_model) embedded MIDI events, L <= max_len.  Decoder: an event attends to
itself and to earlier events.

    logits = (Q K^T + S_rel) / sqrt(d_head),   S_rel[i, j] = q_i . Er(i - j)   for j <= i

Er has one row for every distance; its LAST row belongs to distance 0, the one before
to distance 1 and so on.  Er is shared by the heads of one layer.
Returns (batch, L, d_model).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativeGlobalAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_len=1024, dropout=0.1):
        super().__init__()
        d_head, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError("incompatible d_model and num_heads")
        self.num_heads, self.max_len, self.d_head = num_heads, max_len, d_head
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.query = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.Er = nn.Parameter(torch.randn(max_len, d_head))
        self.register_buffer("mask", torch.tril(torch.ones(max_len, max_len))[None, None])

    def forward(self, x):
        B, L, _ = x.shape
        if L > self.max_len:
            raise ValueError("sequence length exceeds model capacity")
        shape = (B, L, self.num_heads, self.d_head)
        k_t = self.key(x).reshape(shape).permute(0, 2, 3, 1)     # B, h, d, L
        v = self.value(x).reshape(shape).transpose(1, 2)
        q = self.query(x).reshape(shape).transpose(1, 2)

        Er_t = self.Er[self.max_len - L:].transpose(0, 1)        # d, L
        Srel = self.skew(q @ Er_t)
        attn = (q @ k_t + Srel) / math.sqrt(self.d_head)
        attn = attn.masked_fill(self.mask[..., :L, :L] == 0, float("-inf"))
        attn = self.dropout(F.softmax(attn, dim=-1))
        out = (attn @ v).transpose(1, 2).reshape(B, L, -1)
        return out

    @staticmethod
    def skew(QEr):
        padded = F.pad(QEr, (1, 0))                              # B, h, L, 1 + L
        B, h, rows, cols = padded.shape
        return padded.reshape(B, h, cols, rows)[:, :, 1:, :]
