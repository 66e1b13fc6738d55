"""Acoustic encoder of a small ASR toolkit: log-mel in, encoder states out."""
import math

import torch
import torch.nn as nn
from torch import Tensor


class ConvSubsampling(nn.Module):
    """(B, T, F) -> (B, ceil(T / 2), D)"""

    def __init__(self, n_mels, d):
        super().__init__()
        self.conv = nn.Conv1d(n_mels, d, 3, stride=2, padding=1)

    def forward(self, x, lengths):
        y = torch.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        return y, torch.div(lengths + 1, 2, rounding_mode="floor")


class MultiHeadAttention(nn.Module):
    """Args: query (B, Tq, D), key and value (B, Tk, D); mask (B, Tq, Tk) bool, True = ignore.

    Returns: context (B, Tq, D), attention (num_heads * B, Tq, Tk)
    """

    def __init__(self, d_model=32, num_heads=4):
        super().__init__()
        self.d_head = d_model // num_heads
        self.num_heads = num_heads
        self.sqrt_dim = math.sqrt(self.d_head)
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def _fold(self, x: Tensor) -> Tensor:
        x = x.view(x.size(0), -1, self.num_heads, self.d_head)
        return x.permute(2, 0, 1, 3).reshape(self.num_heads * x.size(0), -1, self.d_head)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor = None):
        batch_size = query.size(0)
        query = self._fold(self.query_proj(query))
        key = self._fold(self.key_proj(key))
        value = self._fold(self.value_proj(value))

        if mask is not None:
            mask = mask.unsqueeze(1).repeat(1, self.num_heads, 1, 1).view(-1, mask.size(1), mask.size(2))

        score = torch.bmm(query, key.transpose(1, 2)) / self.sqrt_dim
        if mask is not None:
            score = score.masked_fill(mask, -1e9)
        attn = torch.softmax(score, -1)

        context = torch.bmm(attn, value).view(self.num_heads, batch_size, -1, self.d_head)
        context = context.permute(1, 2, 0, 3).reshape(batch_size, -1, self.num_heads * self.d_head)
        return self.out_proj(context), attn


class EncoderLayer(nn.Module):
    def __init__(self, d, heads, kernel=5):
        super().__init__()
        self.norm1, self.mhsa = nn.LayerNorm(d), MultiHeadAttention(d, heads)
        self.norm2 = nn.LayerNorm(d)
        self.pw1 = nn.Conv1d(d, 2 * d, 1)
        self.dw = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d)
        self.pw2 = nn.Conv1d(d, d, 1)
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))

    def forward(self, x, pad, mask):
        h = self.norm1(x)
        x = x + self.mhsa(h, h, h, mask)[0]
        c = self.norm2(x).masked_fill(pad.unsqueeze(-1), 0.0).transpose(1, 2)
        c = nn.functional.glu(self.pw1(c), dim=1).masked_fill(pad.unsqueeze(1), 0.0)
        x = x + self.pw2(torch.nn.functional.silu(self.dw(c))).transpose(1, 2)
        return x + 0.5 * self.ff(x)


class AcousticEncoder(nn.Module):
    def __init__(self, n_mels=20, d=32, heads=4, layers=2):
        super().__init__()
        self.front = ConvSubsampling(n_mels, d)
        self.layers = nn.ModuleList(EncoderLayer(d, heads) for _ in range(layers))

    def forward(self, mel, lengths):
        x, lengths = self.front(mel, lengths)
        pad = torch.arange(x.size(1), device=x.device)[None] >= lengths[:, None]
        mask = pad.unsqueeze(1).expand(-1, x.size(1), -1)
        for layer in self.layers:
            x = layer(x, pad, mask)
        return x, lengths
