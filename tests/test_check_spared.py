"""Masks that must be given, and may be None."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import torch
from torch import nn

class Windowed(nn.Module):
    """Attention in windows of an image."""
    def __init__(self, dim, num_heads, window_size):
        super().__init__()
        self.heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        attn = q * self.scale @ k.transpose(-2, -1)
        if mask is not None:
            nw = mask.shape[0]
            attn = attn.view(b // nw, nw, self.heads, n, n) + mask.unsqueeze(1).unsqueeze(0)
            attn = attn.view(-1, self.heads, n, n)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))
'''

BOTH = [
    ("Windowed", "q * self.scale @", "q @", "scale_missing"),
    ("Windowed", ".transpose(1, 2).reshape(b", ".reshape(b", "merge_view"),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
