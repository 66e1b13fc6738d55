"""ViT-style encoder block for variable sized herbarium scans.

Sequence layout: [CLS] [REG x n_reg] [patches ...].
CLS and register tokens are made here and are never padding.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RegisterBlock(nn.Module):
    """x: (B, N, dim) patch embeddings;  patch_pad: (B, N) bool, True = padding patch, or None.

    Returns cls (B, dim) and patches (B, N, dim); registers are thrown away.
    Every token (also padded queries) attends to CLS, the registers and the real patches.
    """

    def __init__(self, dim=32, heads=4, n_reg=3, mlp_ratio=2):
        super().__init__()
        self.h, self.n_reg = heads, n_reg
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.reg = nn.Parameter(torch.randn(1, n_reg, dim) * 0.02)
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * mlp_ratio), nn.GELU(), nn.Linear(dim * mlp_ratio, dim))

    def attend(self, x, pad):
        B, T, D = x.shape
        # (B,T,3,h,d) -> (3,B,h,T,d)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.h, D // self.h)).permute(2, 0, 3, 1, 4)
        keep = None
        if pad is not None:
            always = pad.new_zeros(B, 1 + self.n_reg)
            # SDPA wants True = take part
            keep = torch.cat([always, pad], 1).logical_not()[:, None, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x, patch_pad=None):
        B = x.shape[0]
        z = torch.cat([self.cls.expand(B, -1, -1), self.reg.expand(B, -1, -1), x], 1)
        z = z + self.attend(self.ln1(z), patch_pad)
        z = z + self.mlp(self.ln2(z))
        return z[:, 0], z[:, 1 + self.n_reg:]
