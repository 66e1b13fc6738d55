"""Conformer: Convolution-augmented Transformer for Speech Recognition.

Multi-headed self-attention module with relative sinusoidal positional encoding
(Transformer-XL style, full context, no causal mask).
"""
import math
from typing import Optional

import torch
import torch.nn as nn
from torch import Tensor


def relative_table(length: int, dim: int) -> Tensor:
    """Encodings of the relative positions length-1, ..., 0, ..., -(length-1)."""
    pos = torch.arange(length - 1, -length, -1, dtype=torch.float32)[:, None]
    div = torch.exp(torch.arange(0, dim, 2, dtype=torch.float32) * -(math.log(10000.0) / dim))
    pe = torch.zeros(2 * length - 1, dim)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe


class RelPosMHSA(nn.Module):
    """
    Args:
        encoder_dim: model width
        num_heads: number of heads
        dropout_p: dropout after the output projection

    Inputs: inputs (batch, time, dim), lengths (batch,) number of valid frames
    Returns: outputs (batch, time, dim), residual not included
    """

    def __init__(self, encoder_dim: int = 32, num_heads: int = 4, dropout_p: float = 0.1):
        super().__init__()
        self.h = num_heads
        self.d = encoder_dim // num_heads
        self.norm = nn.LayerNorm(encoder_dim)
        self.q_proj = nn.Linear(encoder_dim, encoder_dim)
        self.k_proj = nn.Linear(encoder_dim, encoder_dim)
        self.v_proj = nn.Linear(encoder_dim, encoder_dim)
        self.pos_proj = nn.Linear(encoder_dim, encoder_dim, bias=False)
        self.u_bias = nn.Parameter(torch.empty(self.h, 1, self.d))
        self.v_bias = nn.Parameter(torch.empty(self.h, 1, self.d))
        nn.init.xavier_uniform_(self.u_bias)
        nn.init.xavier_uniform_(self.v_bias)
        self.out_proj = nn.Linear(encoder_dim, encoder_dim)
        self.dropout = nn.Dropout(dropout_p)

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.h, self.d).transpose(1, 2)

    @staticmethod
    def _rel_shift(s: Tensor) -> Tensor:
        # (B, H, T, 2T-1) indexed by relative position -> (B, H, T, T) indexed by key
        B, H, T, P = s.shape
        s = torch.cat([s.new_zeros(B, H, T, 1), s], dim=-1)
        s = s.view(B, H, P + 1, T)[:, :, 1:].reshape(B, H, T, P)
        return s[..., :T]

    def forward(self, inputs: Tensor, lengths: Optional[Tensor] = None) -> Tensor:
        B, T, C = inputs.shape
        x = self.norm(inputs)
        q, k, v = self._heads(self.q_proj(x)), self._heads(self.k_proj(x)), self._heads(self.v_proj(x))
        pe = relative_table(T, C).to(inputs)
        p = self.pos_proj(pe).view(1, -1, self.h, self.d).transpose(1, 2)

        content = torch.matmul(q + self.u_bias, k.transpose(-2, -1))
        position = self._rel_shift(torch.matmul(q + self.v_bias, p.transpose(-2, -1)))
        score = (content + position) / math.sqrt(self.d)

        if lengths is not None:
            pad = torch.arange(T, device=inputs.device)[None, :] >= lengths[:, None]
            score = score.masked_fill(pad[:, None, None, :], torch.finfo(score.dtype).min)
        attn = torch.softmax(score, dim=-1)
        ctx = torch.matmul(attn, v).transpose(1, 2).reshape(B, T, C)
        return self.dropout(self.out_proj(ctx))
