"""Decoder block for recipe generation, built on nn.MultiheadAttention.

forward(y, memory, y_ok=None, memory_ok=None)
    y         (B, T, D) embedded steps written so far
    memory    (B, S, D) encoded ingredients
    y_ok      (B, T) bool, True = a real step (padding sits at the right end,
              the first step is always real)
    memory_ok (B, S) bool, True = a real ingredient (one at least per recipe)
    returns   (B, T, D)

Self-attention is causal; cross-attention reads the real ingredients only.
Pre-norm, dropout on the three branches in training.
"""
import torch
import torch.nn as nn


class RecipeDecoderBlock(nn.Module):
    def __init__(self, D=24, heads=3, hidden=48, p=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(D, heads, dropout=p, batch_first=True)
        self.cross_attn = nn.MultiheadAttention(D, heads, dropout=p, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, hidden), nn.GELU(), nn.Linear(hidden, D))
        self.n1, self.n2, self.n3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.drop = nn.Dropout(p)

    def forward(self, y, memory, y_ok=None, memory_ok=None):
        T = y.size(1)
        # for nn.MultiheadAttention a boolean True means "not allowed"
        future = torch.ones(T, T, dtype=torch.bool, device=y.device).triu(1)
        h = self.n1(y)
        a, _ = self.self_attn(
            h, h, h,
            attn_mask=future,
            key_padding_mask=None if y_ok is None else ~y_ok,
            need_weights=False,
        )
        y = y + self.drop(a)
        c, _ = self.cross_attn(
            self.n2(y), memory, memory,
            key_padding_mask=None if memory_ok is None else ~memory_ok,
            need_weights=False,
        )
        y = y + self.drop(c)
        return y + self.drop(self.mlp(self.n3(y)))
