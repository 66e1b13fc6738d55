"""Conformer encoder block with plain (absolute) self attention, speech recognition."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from typing import Optional


class Swish(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.sigmoid()


class FeedForwardModule(nn.Module):
    def __init__(self, dim: int, expansion: int = 4, p: float = 0.1) -> None:
        super().__init__()
        self.sequential = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * expansion), Swish(),
                                        nn.Dropout(p), nn.Linear(dim * expansion, dim), nn.Dropout(p))

    def forward(self, x: Tensor) -> Tensor:
        return self.sequential(x)


class ConvModule(nn.Module):
    def __init__(self, dim: int, kernel: int = 7, p: float = 0.1) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(dim)
        self.pw1 = nn.Conv1d(dim, 2 * dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)
        self.drop = nn.Dropout(p)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        y = F.glu(self.pw1(self.ln(x).transpose(1, 2)), dim=1)
        if mask is not None:
            y = y.masked_fill(mask.unsqueeze(1), 0.0)
        y = F.silu(self.norm(self.dw(y)))
        return self.drop(self.pw2(y).transpose(1, 2))


class SpeechSelfAttention(nn.Module):
    """
    Args:
        inputs (batch, time, dim): features
        mask (batch, time): bool, True at padded frames
    Returns:
        (batch, time, dim)
    """

    def __init__(self, d_model: int = 32, num_heads: int = 4, dropout_p: float = 0.1) -> None:
        super().__init__()
        assert d_model % num_heads == 0, "d_model % num_heads should be zero."
        self.d_head = d_model // num_heads
        self.num_heads = num_heads
        self.sqrt_dim = math.sqrt(self.d_head)
        self.layer_norm = nn.LayerNorm(d_model)
        self.query_proj = nn.Linear(d_model, d_model)
        self.key_proj = nn.Linear(d_model, d_model)
        self.value_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(p=dropout_p)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, inputs: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        batch_size, length, _ = inputs.size()
        x = self.layer_norm(inputs)
        query = self.query_proj(x).view(batch_size, -1, self.num_heads, self.d_head).transpose(1, 2)
        key = self.key_proj(x).view(batch_size, -1, self.num_heads, self.d_head).permute(0, 2, 3, 1)
        value = self.value_proj(x).view(batch_size, -1, self.num_heads, self.d_head).transpose(1, 2)
        score = torch.matmul(query, key) / self.sqrt_dim
        if mask is not None:
            mask = mask.unsqueeze(1).unsqueeze(-1)
            score = score.masked_fill(mask, -1e9)
        attn = self.dropout(F.softmax(score, -1))
        context = torch.matmul(attn, value).transpose(1, 2)
        context = context.contiguous().view(batch_size, length, -1)
        return self.dropout(self.out_proj(context))


class ConformerBlock(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.ff1, self.ff2 = FeedForwardModule(dim), FeedForwardModule(dim)
        self.att, self.conv, self.ln = SpeechSelfAttention(dim, heads), ConvModule(dim), nn.LayerNorm(dim)

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(x, mask)
        x = x + self.conv(x, mask)
        return self.ln(x + 0.5 * self.ff2(x))
