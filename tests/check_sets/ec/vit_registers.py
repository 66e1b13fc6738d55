"""Attention of a ViT encoder with register tokens and QK-LayerNorm (ViT-22B style).

`registers` learned tokens are appended to the patch tokens, take part in attention and
are thrown away by `forward`.  Each head normalises its q and k over the head channels,
then the usual softmax(q k^T / sqrt(head_dim)) v; heads are concatenated channel-wise per
token (head 0 first) before the output projection.

x (B, N, C) -> (B, N, C), no mask.
"""
import torch
from torch import nn


class QKNormAttention(nn.Module):
    def __init__(self, dim: int, num_heads: int = 8, qkv_bias: bool = True,
                 proj_drop: float = 0.0) -> None:
        super().__init__()
        assert dim % num_heads == 0, "dim should be divisible by num_heads"
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.scale = self.head_dim ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.q_norm = nn.LayerNorm(self.head_dim)
        self.k_norm = nn.LayerNorm(self.head_dim)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)

        attn = q @ k.transpose(-2, -1) / self.scale
        attn = attn.softmax(dim=-1)
        x = attn @ v

        x = x.reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class RegisterBlock(nn.Module):
    """Pre-norm residual attention with register tokens."""

    def __init__(self, dim: int, num_heads: int, registers: int = 4) -> None:
        super().__init__()
        self.reg = nn.Parameter(torch.randn(1, registers, dim) * 0.02)
        self.norm = nn.LayerNorm(dim)
        self.attn = QKNormAttention(dim, num_heads)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        x = torch.cat((x, self.reg.expand(x.shape[0], -1, -1)), dim=1)
        x = x + self.attn(self.norm(x))
        return x[:, :n]
