"""Multi-head self-attention module of the Conformer encoder (Gulati et al., 2020).

The relative positional scheme is the one of Transformer-XL, with both directions:

    score(i, j) = ((q_i + u) . k_j  +  (q_i + v) . r_{i-j}) / sqrt(d_head)

with r = W_r sinusoid(i - j), and u, v learned per head.

Shapes
------
x:      (B, T, D) float
valid:  (B, T) bool or None. True marks a real frame, False a frame that was padded.
return: (B, T, D). Frames that are padding get the output projection's bias and nothing
        else (plus the residual).

The module is pre-norm and adds its own residual: y = x + dropout(MHSA(LN(x))).
"""
import math
from typing import Optional

import torch
from torch import Tensor, nn


def relative_sinusoids(length: int, dim: int, device=None) -> Tensor:
    """Rows for the offsets length-1, ..., 0, ..., -(length-1); shape (2*length-1, dim)."""
    offset = torch.arange(length - 1, -length, -1, device=device, dtype=torch.float32)
    rate = torch.exp(torch.arange(0, dim, 2, device=device).float() * (-math.log(1e4) / dim))
    angle = offset[:, None] * rate[None, :]
    table = torch.empty(2 * length - 1, dim, device=device)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


class RelPosMHSA(nn.Module):
    def __init__(self, dim: int, num_heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError("dim must be divisible by num_heads")
        self.num_heads, self.d_head = num_heads, dim // num_heads
        self.norm = nn.LayerNorm(dim)
        self.w_q, self.w_k, self.w_v = (nn.Linear(dim, dim) for _ in range(3))
        self.w_r = nn.Linear(dim, dim, bias=False)
        self.w_o = nn.Linear(dim, dim)
        self.u = nn.Parameter(torch.empty(num_heads, self.d_head))
        self.v = nn.Parameter(torch.empty(num_heads, self.d_head))
        nn.init.xavier_uniform_(self.u)
        nn.init.xavier_uniform_(self.v)
        self.drop = nn.Dropout(dropout)

    @staticmethod
    def _shift(x: Tensor) -> Tensor:
        """(B, H, T, 2T-1) by offset -> (B, H, T, T) by key."""
        b, h, t, n = x.shape
        x = torch.cat([x.new_zeros(b, h, t, 1), x], dim=-1)
        x = x.view(b, h, n + 1, t)[:, :, 1:].reshape(b, h, t, n)
        return x[..., :t]

    def forward(self, x: Tensor, valid: Optional[Tensor] = None) -> Tensor:
        b, t, d = x.shape
        y = self.norm(x)
        q = self.w_q(y).view(b, t, self.num_heads, self.d_head)
        k = self.w_k(y).view(b, t, self.num_heads, self.d_head).transpose(1, 2)
        v = self.w_v(y).view(b, t, self.num_heads, self.d_head).transpose(1, 2)
        r = self.w_r(relative_sinusoids(t, d, x.device).to(x.dtype))
        r = r.view(-1, self.num_heads, self.d_head).transpose(0, 1)

        content = (q + self.u).transpose(1, 2) @ k.transpose(-2, -1)
        position = self._shift((q + self.v).transpose(1, 2) @ r.transpose(-2, -1))
        scores = (content + position) / math.sqrt(self.d_head)
        if valid is None:
            weights = scores.softmax(dim=-1)
        else:
            hidden = ~(valid[:, None, :, None] & valid[:, None, None, :])
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
            weights = scores.softmax(dim=-1).masked_fill(hidden, 0.0)
        y = (weights @ v).transpose(1, 2).reshape(b, t, d)
        return x + self.drop(self.w_o(y))
