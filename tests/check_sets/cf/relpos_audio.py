"""Self-attention of the speech encoder (Conformer) with relative positions.

Score of query i against key j (Transformer-XL, full context, non-causal):

    ((q_i + u) . k_j  +  (q_i + v) . r_{i-j}) / sqrt(d)

where r is a projected sinusoidal embedding of the signed distance i - j.
Frames at or beyond ``lengths[b]`` are padding: nobody looks at them, and the
outputs at those frames are set to zero.
"""
import math
from typing import Optional

import torch
from torch import Tensor, nn


def signed_sinusoids(length: int, dim: int, like: Tensor) -> Tensor:
    """Rows for distances  length-1, ..., 0, ..., -(length-1):  [2L-1, dim]."""
    dist = torch.arange(length - 1, -length, -1, device=like.device, dtype=torch.float32)
    freq = torch.exp(torch.arange(0, dim, 2, device=like.device).float()
                     * (-math.log(10000.0) / dim))
    arg = dist[:, None] * freq[None, :]
    table = torch.empty(2 * length - 1, dim, device=like.device)
    table[:, 0::2] = arg.sin()
    table[:, 1::2] = arg.cos()
    return table.to(like.dtype)


class RelPosSelfAttention(nn.Module):
    def __init__(self, dim: int = 64, num_heads: int = 4) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.linear_q = nn.Linear(dim, dim)
        self.linear_k = nn.Linear(dim, dim)
        self.linear_v = nn.Linear(dim, dim)
        self.linear_pos = nn.Linear(dim, dim, bias=False)
        self.linear_out = nn.Linear(dim, dim)
        self.bias_u = nn.Parameter(torch.zeros(num_heads, 1, self.head_dim))
        self.bias_v = nn.Parameter(torch.zeros(num_heads, 1, self.head_dim))
        nn.init.xavier_uniform_(self.bias_u)
        nn.init.xavier_uniform_(self.bias_v)

    @staticmethod
    def shift(x: Tensor) -> Tensor:
        """[B, H, L, 2L-1] by distance row -> [B, H, L, L] by key."""
        b, h, n, m = x.shape
        x = nn.functional.pad(x, (1, 0)).view(b, h, m + 1, n)
        return x[:, :, 1:].reshape(b, h, n, m)[..., :n]

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2)

    def forward(self, x: Tensor, lengths: Optional[Tensor] = None) -> Tensor:
        b, n, dim = x.shape
        q = self._split(self.linear_q(x))
        k = self._split(self.linear_k(x))
        v = self._split(self.linear_v(x))
        r = self._split(self.linear_pos(signed_sinusoids(n, dim, x)[None]))

        content = (q + self.bias_u) @ k.transpose(-2, -1)
        position = self.shift((q + self.bias_v) @ r.transpose(-2, -1))
        scores = (content + position) / math.sqrt(self.head_dim)

        pad = None
        if lengths is not None:
            pad = torch.arange(n, device=x.device)[None] >= lengths[:, None]
            scores = scores.masked_fill(pad[:, None, None, :], float("-inf"))
        attn = scores.softmax(dim=-1)
        out = (attn @ v).transpose(1, 2).reshape(b, n, dim)
        out = self.linear_out(out)
        if pad is not None:
            out = out.masked_fill(pad[..., None], 0.0)
        return out
