"""Chat server: prompt prefill in chunks on top of SDPA.

PrefillAttention(dim, heads, p).forward(x, past=None) -> (y, present)
    x     (B, T, dim)  the next T tokens of the prompt
    past  None or (k, v), each (B, heads, S, d): the S tokens already read, keys rotated
Token t of the chunk has position S + t: rotary embedding (half-split) for that position,
and it attends to positions 0 .. S + t.  Feeding a prompt in one piece or in several gives
the same rows.  Attention dropout p is for training.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate(t, pos, base=10000.0):
    half = t.size(-1) // 2
    inv = base ** (-torch.arange(half, dtype=t.dtype, device=t.device) / half)
    ang = pos.to(t.dtype)[:, None] * inv
    a, b = t.chunk(2, dim=-1)
    return torch.cat((a * ang.cos() - b * ang.sin(), b * ang.cos() + a * ang.sin()), dim=-1)


class PrefillAttention(nn.Module):
    def __init__(self, dim, heads, p=0.1):
        super().__init__()
        self.heads, self.p = heads, p
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, past=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        pos = torch.arange(T, device=x.device)
        q, k = rotate(q, pos), rotate(k, pos)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.p, is_causal=T > 1)
        return self.out(y.transpose(1, 2).reshape(B, T, D)), (k, v)
