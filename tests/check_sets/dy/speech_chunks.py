"""Streaming speech encoder: self-attention limited to chunks.

ChunkedSelfAttention(dim, heads, chunk, left).forward(x, lengths)
    x        (B, T, dim)  frames, right-padded
    lengths  (B,) int     real frames, 0..T
Frame t belongs to chunk t // chunk.  It attends to every real frame of its own chunk
(also the later ones) and of the `left` chunks before, nothing beyond.
returns (B, T, dim), zeros at padded frames.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChunkedSelfAttention(nn.Module):
    def __init__(self, dim, heads, chunk=16, left=2):
        super().__init__()
        assert dim % heads == 0
        self.heads, self.chunk, self.left = heads, chunk, left
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def visible(self, T, lengths):
        t = torch.arange(T, device=lengths.device)
        gap = (t // self.chunk)[:, None] - (t // self.chunk)[None, :]
        near = (gap >= 0) & (gap <= self.left)
        real = t[None, :] < lengths[:, None]
        ok = near[None] & real[:, None, :]
        # padded queries look at everything; their rows are thrown away below
        return ok | ~real[:, :, None], real

    def forward(self, x, lengths):
        B, T, C = x.shape
        shape = (B, T, self.heads, C // self.heads)
        q = self.to_q(x).view(shape).transpose(1, 2)
        k = self.to_k(x).view(shape).transpose(1, 2)
        v = self.to_v(x).view(shape).transpose(1, 2)
        ok, real = self.visible(T, lengths)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=ok.unsqueeze(1))
        y = self.to_out(y.transpose(1, 2).reshape(B, T, C))
        return torch.where(real.unsqueeze(-1), y, torch.zeros_like(y))
