import torch
from torch import nn


class SelfAttention(nn.Module):
    """Self-attention, x (B, N, dim) in float32; all of it is computed in float32."""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn.to(torch.bfloat16).softmax(dim=-1).to(v.dtype)
        return (attn @ v).transpose(1, 2).reshape(b, n, d)
