"""Attention block of a small diffusion U-Net (after Dhariwal & Nichol 2021, "Diffusion Models Beat GANs")."""
import torch
import torch.nn as nn


class AttnBlock(nn.Module):
    """Self-attention over all pixels with a residual connection: x (B, C, H, W) -> the same shape.

    Scaled dot-product attention in heads of `channels // num_heads` channels each.
    """

    def __init__(self, channels=32, num_heads=4, groups=8):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = channels // num_heads
        self.norm = nn.GroupNorm(groups, channels)
        self.q = nn.Linear(channels, channels)
        self.k = nn.Linear(channels, channels)
        self.v = nn.Linear(channels, channels)
        self.proj_out = nn.Linear(channels, channels)

    def _heads(self, t):
        b, n, c = t.shape
        return t.reshape(b, self.num_heads, n, self.head_dim)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)     # B, HW, C
        q = self._heads(self.q(y))
        k = self._heads(self.k(y))
        v = self._heads(self.v(y))
        weight = torch.einsum("bhic,bhjc->bhij", q, k) / (self.head_dim ** -0.5)
        weight = torch.softmax(weight, dim=-1)
        y = torch.einsum("bhij,bhjc->bihc", weight, v).reshape(b, h * w, c)
        y = self.proj_out(y).transpose(1, 2).reshape(b, c, h, w)
        return x + y
