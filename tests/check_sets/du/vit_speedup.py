"""ViT attention with F.scaled_dot_product_attention (before: two matmuls and a softmax).

Numbers must stay those of the timm layer: softmax(q k^T / sqrt(head_dim)) v, attention dropout
while training only.  Twice as fast on the A10, but the fine-tuned checkpoint lost 4 points
of accuracy - any idea?
"""
import torch
from torch import nn
import torch.nn.functional as F


class Attention(nn.Module):
    """x: (B, N, dim) patch tokens incl. [CLS] -> (B, N, dim)"""

    def __init__(self, dim, num_heads=8, qkv_bias=True, attn_drop=0.1, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        head_dim = dim // num_heads
        self.scale = head_dim ** -0.5
        self.attn_drop = attn_drop
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        q = q * self.scale
        x = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p=self.attn_drop,
        )
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))
