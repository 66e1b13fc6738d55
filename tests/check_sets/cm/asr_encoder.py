"""Acoustic encoder layer for the keyword spotter."""
import torch
import torch.nn as nn


class FrameAttention(nn.Module):
    """Multi-head self-attention over frames.

    x (B, T, dim), pad (B, T) bool, True on padded frames, which no frame may attend to.
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.d_k = heads, dim // heads
        self.linear_q = nn.Linear(dim, dim)
        self.linear_k = nn.Linear(dim, dim)
        self.linear_v = nn.Linear(dim, dim)
        self.linear_out = nn.Linear(dim, dim)

    def forward(self, x, pad):
        B, T, D = x.shape
        q = self.linear_q(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(B, T, self.heads, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.d_k ** 0.5
        mask = pad.unsqueeze(1).unsqueeze(3)
        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)
        attn = torch.softmax(scores, dim=-1)
        y = torch.matmul(attn, v).transpose(1, 2).contiguous().view(B, T, D)
        return self.linear_out(y)


class EncoderLayer(nn.Module):
    """lengths (B,): number of real frames of each utterance; the rest of x is padding."""

    def __init__(self, dim=32, heads=4, ff=64):
        super().__init__()
        self.att = FrameAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.SiLU(), nn.Linear(ff, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, lengths):
        pad = torch.arange(x.shape[1], device=x.device)[None, :] >= lengths[:, None]
        x = x + self.att(self.norm1(x), pad)
        return x + self.ff(self.norm2(x))
