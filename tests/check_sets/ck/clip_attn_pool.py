"""Attention pooling of CLIP's modified ResNet (Radford et al. 2021), heads by hand.

Should give what F.multi_head_attention_forward gives in the original code.
"""
import torch
import torch.nn as nn


class AttentionPool2d(nn.Module):
    """x (N, C, H, W) -> (N, output_dim). The mean token is the only query."""

    def __init__(self, spacial_dim: int = 4, embed_dim: int = 32, num_heads: int = 4, output_dim: int = None):
        super().__init__()
        self.positional_embedding = nn.Parameter(torch.randn(spacial_dim ** 2 + 1, embed_dim) / embed_dim ** 0.5)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.c_proj = nn.Linear(embed_dim, output_dim or embed_dim)
        self.num_heads = num_heads
        self.scale = embed_dim ** -0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(start_dim=2).permute(0, 2, 1)                   # N, HW, C
        x = torch.cat([x.mean(dim=1, keepdim=True), x], dim=1)        # N, HW+1, C
        x = x + self.positional_embedding

        n, s, c = x.shape
        q = self.q_proj(x[:, :1]).reshape(n, 1, self.num_heads, -1).permute(0, 2, 1, 3)
        k = self.k_proj(x).reshape(n, s, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.v_proj(x).reshape(n, s, self.num_heads, -1).permute(0, 2, 1, 3)
        w = torch.matmul(q * self.scale, k).softmax(dim=-1)
        out = torch.matmul(w, v)                                      # N, heads, 1, d
        out = out.permute(0, 2, 1, 3).reshape(n, c)
        return self.c_proj(out)
