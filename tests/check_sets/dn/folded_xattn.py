"""Encoder-decoder attention with heads folded into the batch, for bmm.

FoldedCrossAttention(dim, heads, kv_dim)
    forward(x, memory, memory_pad=None)
        x           (B, Lq, dim)
        memory      (B, Lk, kv_dim)
        memory_pad  (B, Lk) bool, True = padding, never read; at least one
                    False per sample
        ->          (B, Lq, dim): x + the projected heads
Query head h has its own slice of width d = dim / heads; the scores are divided
by the square root of d, and sample b of the output depends on sample b of the
input only.  Output channels h*d ... (h+1)*d - 1 before the last projection are
those of head h.
"""
import torch
from torch import nn


class FoldedCrossAttention(nn.Module):
    def __init__(self, dim, heads, kv_dim=None, dropout=0.0):
        super().__init__()
        kv_dim = kv_dim or dim
        assert dim % heads == 0, "dim must be divisible by heads"
        self.dim = dim
        self.heads = heads
        self.scale = dim ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.norm_kv = nn.LayerNorm(kv_dim)
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(kv_dim, dim)
        self.wv = nn.Linear(kv_dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def fold(self, t):
        """(B, L, H*d) -> (B*H, L, d)"""
        B, L, C = t.shape
        t = t.view(B, L, self.heads, C // self.heads)
        return t.permute(0, 2, 1, 3).reshape(B * self.heads, L, C // self.heads)

    def unfold(self, t, B):
        """(B*H, L, d) -> (B, L, H*d)"""
        _, L, d = t.shape
        t = t.view(self.heads, B, L, d)
        return t.permute(1, 2, 0, 3).reshape(B, L, self.heads * d)

    def forward(self, x, memory, memory_pad=None):
        B = x.size(0)
        mem = self.norm_kv(memory)
        q = self.fold(self.wq(self.norm(x)))
        k = self.fold(self.wk(mem))
        v = self.fold(self.wv(mem))

        scores = torch.bmm(q, k.transpose(1, 2)) * self.scale
        if memory_pad is not None:
            pad = memory_pad.repeat_interleave(self.heads, dim=0).unsqueeze(1)
            scores = scores.masked_fill(pad, float("-inf"))
        attn = self.drop(torch.softmax(scores, dim=-1))
        y = self.unfold(torch.bmm(attn, v), B)
        return x + self.wo(y)


class CrossStack(nn.Module):
    """depth times the same kind of layer, all reading the same memory"""

    def __init__(self, dim, heads, depth, kv_dim=None):
        super().__init__()
        self.layers = nn.ModuleList(FoldedCrossAttention(dim, heads, kv_dim) for _ in range(depth))

    def forward(self, x, memory, memory_pad=None):
        for layer in self.layers:
            x = layer(x, memory, memory_pad)
        return x
